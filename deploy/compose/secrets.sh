#!/bin/sh
# Makes the secrets of compose.yaml that are not there yet. The folder is closed to other users of this
# machine; the files are not, since each container reads its own as a user of its own.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 0700 secrets
for name in device_token database_password grafana_password; do
	[ -s "secrets/$name" ] || head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"secrets/$name"
	chmod 0444 "secrets/$name"
done
[ -e secrets/prometheus_token ] || : >secrets/prometheus_token
chmod 0644 secrets/prometheus_token
