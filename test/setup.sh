#!/usr/bin/env bash
# Installs what the tests need beside Go, where this may install anything: as root on Debian or one of its kin. It does nothing for
# what is there already, never takes longer than some minutes, and never starts a service. What it cannot install it names; the tests
# then say the same (with HOLTER_TEST_DATABASES=all and HOLTER_TEST_TOOLS=all they fail, otherwise they are skipped).
set -uo pipefail

limit=300 # seconds for each step with the package manager

# have NAME FOLDER... says whether a program is there, in PATH or in one of the folders.
have() {
	local name=$1 folder
	shift
	command -v "$name" >/dev/null 2>&1 && return 0
	for folder in "$@"; do
		[ -x "$folder/$name" ] && return 0
	done
	return 1
}

have_postgres() { have postgres /usr/lib/postgresql/*/bin && have initdb /usr/lib/postgresql/*/bin; }
have_mariadb() { have mariadbd /usr/sbin /usr/libexec /usr/local/sbin && have mariadb-install-db /usr/bin /usr/sbin && have my_print_defaults /usr/bin; }

have_prometheus() { have promtool /usr/bin && have prometheus /usr/bin; }
have_mosquitto() { have mosquitto /usr/sbin /usr/local/sbin; }
have_mosquitto_clients() { have mosquitto_pub /usr/bin && have mosquitto_sub /usr/bin; }
have_paho() { # Debian's package is for Debian's Python, which need not be the first in PATH
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import paho.mqtt.client' >/dev/null 2>&1 && return 0
	done
	return 1
}
have_haproxy() { have haproxy /usr/sbin /usr/local/sbin; }
have_pgbouncer() { have pgbouncer /usr/sbin /usr/local/sbin; }

# Packages from npm: an MQTT 5 client, what verifies webhooks, what checks the types and the accessibility of the console, and the description of the API. A machine without node has
# them not; that is said, and no more.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holter-tools

# install_npm FOLDER PACKAGE@VERSION... installs packages into a folder of the cache.
install_npm() {
	local folder=$cache/$1 new=$cache/$1.$$ said
	shift
	[ -d "$folder/node_modules" ] && return 0
	if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
		echo "test/setup.sh: missing: node and npm, so the tests with $* cannot run. Install node 16 or later." >&2
		return 0
	fi
	echo "test/setup.sh: installing $* into $folder"
	mkdir -p "$new" || return 1
	if ! said=$(timeout "$limit" npm install --prefix "$new" --no-audit --no-fund --ignore-scripts "$@" 2>&1 </dev/null); then
		printf 'test/setup.sh: %s could not be installed:\n%s\n' "$*" "$said" | tail -n 20 >&2
		rm -rf "$new"
		return 1
	fi
	rm -rf "$folder" && mv "$new" "$folder"
}

status=0
install_npm mqttjs-5.15.1 mqtt@5.15.1 || status=1
install_npm webhooks-1.1.1-10.0.0 standardwebhooks@1.1.1 cloudevents@10.0.0 || status=1
install_npm typescript-5.9.3 typescript@5.9.3 || status=1
install_npm axe-4.14.1 axe-core@4.14.1 || status=1
install_npm openapi-2.77.0-6.16.3 --engine-strict @redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3 || true # their tests are skipped then

packages=()
have_prometheus || packages+=(prometheus)
have_postgres || packages+=(postgresql)
have_mariadb || packages+=(mariadb-server-core mariadb-client-core)
have_mosquitto || packages+=(mosquitto)
have_mosquitto_clients || packages+=(mosquitto-clients)
have_paho || packages+=(python3-paho-mqtt)
have_haproxy || packages+=(haproxy)
have_pgbouncer || packages+=(pgbouncer)
have systemd-analyze || packages+=(systemd)
have curl || packages+=(curl)
have nc || packages+=(netcat-openbsd)
have xxd || packages+=(xxd)
have chromium || packages+=(chromium)
[ ${#packages[@]} -eq 0 ] && exit $status

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "test/setup.sh: missing: ${packages[*]} (Debian's names). Install them: only root with apt-get can have it done here." >&2
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
echo "test/setup.sh: installing ${packages[*]}"
apt install --no-install-recommends "${packages[@]}" || { apt update && apt install --no-install-recommends "${packages[@]}"; }

failed=0
have_prometheus || { echo "test/setup.sh: Prometheus could not be installed" >&2; failed=1; }
have_postgres || { echo "test/setup.sh: PostgreSQL could not be installed" >&2; failed=1; }
have_mariadb || { echo "test/setup.sh: MariaDB could not be installed" >&2; failed=1; }
have_mosquitto || { echo "test/setup.sh: mosquitto could not be installed" >&2; failed=1; }
have_mosquitto_clients || { echo "test/setup.sh: mosquitto-clients could not be installed" >&2; failed=1; }
have_paho || { echo "test/setup.sh: python3-paho-mqtt could not be installed" >&2; failed=1; }
have_haproxy || { echo "test/setup.sh: haproxy could not be installed" >&2; failed=1; }
have_pgbouncer || { echo "test/setup.sh: PgBouncer could not be installed" >&2; failed=1; }
[ $failed -eq 0 ] || { tail -n 20 "$log" >&2; status=1; }
exit $status
