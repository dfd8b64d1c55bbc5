#!/usr/bin/env bash
# Installs what the tests need beside Go, where this may install anything: as root on Debian or one of its kin. `deploy/testing/setup.sh test`
# installs what `make test` needs; `deploy/testing/setup.sh all`, what `make check` and `make soak` need, too. It does nothing for what is there
# already, never takes longer than some minutes, and never starts a service. What it cannot install it names in a line; the tests then say
# the same: they are skipped, or fail with HOLTER_TEST_TOOLS=all.
set -uo pipefail

level=${1:-all}
limit=300 # seconds for each step with the package manager
status=0

# have NAME FOLDER... says whether a program is there, in PATH or in one of the folders.
have() {
	local name=$1 folder
	shift
	command -v "$name" >/dev/null 2>&1 && return 0
	for folder in "$@" /usr/sbin /usr/local/sbin; do
		[ -x "$folder/$name" ] && return 0
	done
	return 1
}

have_paho() { # Debian's package is for Debian's Python, which need not be the first in PATH
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import paho.mqtt.client' >/dev/null 2>&1 && return 0
	done
	return 1
}

# absent prints the packages, by Debian's names, of the programs that are not there.
absent() {
	{ have postgres /usr/lib/postgresql/*/bin && have initdb /usr/lib/postgresql/*/bin; } || echo postgresql
	{ have mariadbd /usr/libexec && have mariadb-install-db && have my_print_defaults; } || echo mariadb-server-core mariadb-client-core
	have mosquitto || echo mosquitto
	have chromium || echo chromium
	[ "$level" = test ] && return
	{ have promtool && have prometheus; } || echo prometheus
	{ have mosquitto_pub && have mosquitto_sub; } || echo mosquitto-clients
	have_paho || echo python3-paho-mqtt
	have haproxy || echo haproxy
	have pgbouncer || echo pgbouncer
	have systemd-analyze || echo systemd
	have curl || echo curl
	have nc || echo netcat-openbsd
	have xxd || echo xxd
}

# install_npm FOLDER PACKAGE@VERSION... installs packages into a folder of the cache. A machine without node does without; that is said,
# and no more.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holter-tools
install_npm() {
	local folder=$cache/$1 new=$cache/$1.$$ said
	shift
	[ -d "$folder/node_modules" ] && return 0
	if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
		echo "deploy/testing/setup.sh: missing: node and npm, so the tests with $* cannot run. Install node 16 or later." >&2
		return 0
	fi
	echo "deploy/testing/setup.sh: installing $* into $folder"
	mkdir -p "$new" || return 1
	if ! said=$(timeout "$limit" npm install --prefix "$new" --no-audit --no-fund --ignore-scripts "$@" 2>&1 </dev/null); then
		printf 'deploy/testing/setup.sh: %s could not be installed:\n%s\n' "$*" "$said" | tail -n 20 >&2
		rm -rf "$new"
		return 1
	fi
	rm -rf "$folder" && mv "$new" "$folder"
}

if [ "$level" != test ]; then
	install_npm mqttjs-5.15.1 mqtt@5.15.1 || status=1
	install_npm webhooks-1.1.1-10.0.0 standardwebhooks@1.1.1 cloudevents@10.0.0 || status=1
	install_npm typescript-5.9.3 typescript@5.9.3 || status=1
	install_npm axe-4.14.1 axe-core@4.14.1 || status=1
	install_npm openapi-2.77.0-6.16.3 --engine-strict @redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3 || true # their tests are skipped then
fi

packages=$(absent)
[ -z "$packages" ] && exit $status

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "deploy/testing/setup.sh: missing: ${packages//$'\n'/ } (Debian's names). Tests that need them are skipped: only root with apt-get can have them installed here." >&2
	exit $status
fi

log=$(mktemp)
policy=/usr/sbin/policy-rc.d
trap 'rm -f "$log"; [ -n "${placed:-}" ] && rm -f "$policy"' EXIT
if [ ! -e "$policy" ]; then # no package may start its service
	printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && placed=1
fi

export DEBIAN_FRONTEND=noninteractive
apt() { timeout "$limit" apt-get -qq -o DPkg::Lock::Timeout=120 -o APT::Get::Assume-Yes=true -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1; }
echo "deploy/testing/setup.sh: installing ${packages//$'\n'/ }"
# shellcheck disable=SC2086 # each word is a package
apt install --no-install-recommends $packages || { apt update && apt install --no-install-recommends $packages; }

packages=$(absent)
[ -z "$packages" ] && exit $status
tail -n 20 "$log" >&2
echo "deploy/testing/setup.sh: could not be installed: ${packages//$'\n'/ }. Tests that need them are skipped." >&2
exit 1
