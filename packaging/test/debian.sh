#!/usr/bin/env bash
# Takes the Debian package through its life in a bare Debian: install, devices over HTTP, TCP and MQTT,
# kill -9, upgrade, downgrade, remove, purge. Only root can run it. It needs debootstrap and, the first
# time, Debian's mirror (DEBIAN_MIRROR).
#
#     packaging/test/debian.sh              builds two versions of this commit, 0.0.1 and 0.0.2
#     packaging/test/debian.sh OLD NEW      takes two packages that are there
#
# The system has a network of its own, with lo alone: an installation asks nobody. A step is a function;
# the steps run in the order of the last lines, and each may use what the ones before left behind.
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holter-tools
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm
port=8080

say() { printf '== %s\n' "$*"; }
fail() {
	printf 'debian.sh: %s\n' "$*" >&2
	[ -z "${root:-}" ] || tail -n 20 "$root/var/log/holter.log" >&2 2>/dev/null || true
	exit 1
}

# --- what is prepared outside, with a network ---------------------------------------------------------

# bare_debian prints a tar of a minimal Debian with clients, which is made once.
bare_debian() {
	local tar=$cache/debian-$suite-1.tar folder
	if [ ! -s "$tar" ]; then
		folder=$(mktemp -d)
		debootstrap --variant=minbase --include=curl,netcat-openbsd,mosquitto-clients "$suite" "$folder" "$mirror" >&2 || fail 'debootstrap failed; is it installed, and the mirror reachable?'
		mkdir -p "$cache" && tar -C "$folder" -cf "$tar.$$" . && mv "$tar.$$" "$tar"
		rm -rf "$folder"
	fi
	printf '%s\n' "$tar"
}

# build VERSION FOLDER makes the package of a version of this commit, in a clone, and prints its path.
build() {
	local version=$1 folder=$2
	[ -d "$folder" ] || git clone -q "$top" "$folder"
	(
		cd "$folder"
		printf '\n## [%s]\n' "$version" >>CHANGELOG.md
		git -c user.name=test -c user.email=test@localhost commit -qam "release $version"
		git tag "v$version"
		make release-programs "PLATFORMS=linux/$(go env GOARCH)" && make release-pack PARTS=packages "DIST=$folder/dist"
	) >&2
	ls "$folder"/dist/holter_"$version"_*.deb
}

# --- inside --------------------------------------------------------------------------------------------

# inside runs a command in the system.
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

# start runs the command of the unit, as its user and with its environment, as systemd would.
start() {
	local unit=$root/usr/lib/systemd/system/holter.service user command
	user=$(sed -n 's/^User=//p' "$unit")
	command=$(sed -n 's/^ExecStart=//p' "$unit")
	mapfile -t environment < <(sed -n 's/^Environment=//p' "$unit")
	# shellcheck disable=SC2086 # the words of ExecStart
	inside setpriv --reuid "$user" --regid "$user" --init-groups env "${environment[@]}" $command >>"$root/var/log/holter.log" 2>&1 &
	until_true "the server is ready" inside curl -fsS "http://127.0.0.1:$port/readyz"
	server=$(pidof_server)
}

pidof_server() {
	local p
	for p in /proc/[0-9]*; do
		[ "$(cat "$p/comm" 2>/dev/null)" = holter ] && basename "$p" && return 0
	done
	return 1
}

# stop SIGNAL ends the server.
stop() {
	kill "-$1" "$server"
	wait "$(jobs -p)" 2>/dev/null || true
	until_true "the server has ended" gone
}

gone() { ! pidof_server; }

# until_true WHAT COMMAND... waits for a command, two minutes at most.
until_true() {
	local what=$1 i
	shift
	for ((i = 0; i < 1200; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	fail "not true after two minutes: $what"
}

# state DEVICE STATE waits until a device is in a state.
state() { until_true "$1 is $2" is "$1" "$2"; }
is() { inside holter devices list | grep -Eq "^$1 +$2 "; }

# install PACKAGE installs, upgrades or downgrades.
install_package() {
	cp "$1" "$root/tmp/holter.deb"
	inside dpkg -i --force-downgrade /tmp/holter.deb </dev/null
	[ "$(inside holter --version | cut -d' ' -f2)" = "v$2" ] || fail "holter --version is not v$2: $(inside holter --version)"
}

version_of() { dpkg-deb -f "$1" Version; }

# --- steps ---------------------------------------------------------------------------------------------

step_install() {
	say "install $old"
	install_package "$old" "$(version_of "$old")"
	inside holter config check /etc/holter/holter.yaml
	[ "$(inside stat -c %U:%G:%a /var/lib/holter)" = holter:holter:750 ] || fail 'the folder of the data is not the one of holter'
	[ -L "$root/etc/systemd/system/multi-user.target.wants/holter.service" ] || fail 'the service is not enabled'
	start
}

step_http() {
	say 'a device over HTTP, to its verdict'
	inside curl -fsS -m 10 "http://127.0.0.1:$port/v1/beat/backup?ttl=1s"
	state backup offline
	inside holter explain backup | head -n 5
}

step_tcp() {
	say 'a device over TCP'
	printf 'HELLO truck-7 ttl=1h\n' | inside nc -q 1 127.0.0.1 7700
	until_true 'truck-7 is known' known truck-7
}

step_mqtt() {
	say 'an MQTT client'
	inside mosquitto_pub -h 127.0.0.1 -i plug-1 -t state -m on
	until_true 'plug-1 is known' known plug-1
}

known() { inside holter devices list | grep -q "^$1 "; }

step_kill() {
	say 'kill -9, and start again'
	inside curl -fsS -m 10 "http://127.0.0.1:$port/v1/beat/nightly?ttl=1h"
	stop KILL
	start
	known nightly || fail 'a device that was answered is forgotten'
	is backup offline || fail 'a verdict is forgotten'
}

step_upgrade() {
	say "upgrade to $new"
	printf '\n# changed by the administrator\n' >>"$root/etc/holter/holter.yaml"
	stop TERM # what try-restart does where systemd runs
	install_package "$new" "$(version_of "$new")"
	grep -q 'changed by the administrator' "$root/etc/holter/holter.yaml" || fail 'the upgrade has replaced the configuration'
	start
	known nightly && is backup offline || fail 'the upgrade has forgotten devices'
}

step_downgrade() {
	say "downgrade to $old"
	stop TERM
	install_package "$old" "$(version_of "$old")"
	start
	known nightly && is backup offline || fail 'the downgrade has forgotten devices'
}

step_remove() {
	say 'remove'
	stop TERM
	inside dpkg -r holter
	[ ! -e "$root/usr/bin/holter" ] || fail 'the program is still there'
	[ -n "$(ls "$root/var/lib/holter")" ] || fail 'the removal has deleted data'
	[ -e "$root/etc/holter/holter.yaml" ] || fail 'the removal has deleted the configuration'
}

step_purge() {
	say 'purge'
	inside dpkg -P holter
	[ ! -e "$root/var/lib/holter" ] || fail 'the purge has left data'
	[ ! -e "$root/etc/holter/holter.yaml" ] || fail 'the purge has left the configuration'
	[ ! -L "$root/etc/systemd/system/multi-user.target.wants/holter.service" ] || fail 'the purge has left the service enabled'
}

# --------------------------------------------------------------------------------------------------------

if [ "${1:-}" != --inside ]; then
	[ "$(id -u)" = 0 ] || fail 'only root can make a system in a folder'
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	if [ $# = 2 ]; then
		old=$(realpath "$1") new=$(realpath "$2")
	else
		old=$(build 0.0.1 "$work/source")
		cp "$old" "$work/" && old=$work/$(basename "$old")
		new=$(build 0.0.2 "$work/source")
	fi
	mkdir "$work/root"
	tar -C "$work/root" -xf "$(bare_debian)"
	unshare --mount --net --pid --fork --kill-child --mount-proc "$0" --inside "$work/root" "$old" "$new"
	exit
fi

root=$2 old=$3 new=$4
ip link set lo up
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3 && mknod -m 666 "$root/dev/urandom" c 1 9 && mkdir "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
step_install
step_http
step_tcp
step_mqtt
step_kill
step_upgrade
step_downgrade
step_remove
step_purge
say 'all steps passed'
