#!/bin/sh
# Makes a token with which Prometheus reads the metrics. It may only read; make another one for people:
#   docker compose exec holter holter tokens create --role admin --name NAME --config /etc/holter/holter.yaml
set -eu
cd "$(dirname "$0")"
answer=$(docker compose exec -T holter /usr/bin/holter tokens create --role read --name prometheus --json --config /etc/holter/holter.yaml)
secret=$(printf '%s' "$answer" | sed -n 's/.*"secret": *"\([^"]*\)".*/\1/p')
[ -n "$secret" ] || { echo "no token in: $answer" >&2; exit 1; }
printf '%s' "$secret" >secrets/prometheus_token # into the same file, which is mounted
