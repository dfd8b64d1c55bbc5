#!/usr/bin/env bash
# Takes the Debian package through its life in a bare Debian: installation and first alert by the commands
# of the pages, devices over HTTP, TCP and MQTT, notifications by mail and to Slack, kill -9, backup,
# upgrade, downgrade, rollback, restore elsewhere, remove, purge. Only root can run it. It needs
# debootstrap and, the first time, Debian's mirror (DEBIAN_MIRROR).
#
#     deploy/packaging/test/debian.sh              builds two versions of this commit, 0.0.1 and 0.0.2
#     deploy/packaging/test/debian.sh OLD NEW      takes two packages that are there
#
# The system has a network of its own, with lo alone: an installation asks nobody, and what a page calls
# hooks.slack.com and mail.example.org is deploy/packaging/test/receiver. A step is a function; the steps run in
# the order of the last lines, and each may use what the ones before left behind.
set -euo pipefail

top=$(cd "$(dirname "$0")/../../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holter-tools
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm
api=http://127.0.0.1:8080

fail() {
	printf 'debian.sh: %s\n' "$*" >&2
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
		make release-programs "PLATFORMS=linux/$(go env GOARCH)" && make release-pack "DIST=$folder/dist"
	) >&2
	ls "$folder"/dist/holter_"$version"_*.deb
}

# --- inside --------------------------------------------------------------------------------------------

# inside runs a command in the system.
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }

# holter runs the program as the user of the server.
holter() { inside setpriv --reuid holter --regid holter --init-groups holter "$@"; }

# unit NAME prints the values of a setting of the unit.
unit() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/holter.service"; }

# start [FOLDER] runs the command of the unit, or the same with its data elsewhere, as systemd would: its user, its environment, its limits and what can
# be had of its sandbox without systemd, which is all but the filter of system calls and address families,
# a user namespace, and what hides parts of /proc.
start() {
	unshare --mount --ipc "$0" --sandbox "$root" "$@" >>"$log" 2>&1 &
	server=$!
	until_true 'the server is ready' inside curl -fsS "$api/readyz"
	[ "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$server/status")" = 1 ] || fail 'the server can get new privileges'
	[ "$(sed -n 's/^CapBnd:\t//p' "/proc/$server/status")" = 0000000000000000 ] || fail 'the server can get capabilities'
}

# sandbox [FOLDER] is what start runs, in namespaces of its own.
sandbox() {
	local folder environment file words
	mount --rbind "$root" "$root"
	for folder in "${1:-/var/lib/$(unit StateDirectory)}" $(unit ReadWritePaths); do
		mount --bind "$root$folder" "$root$folder"
	done
	mount -o remount,bind,ro "$root"
	mount --bind -o ro "$root/proc/sys" "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys"
	for folder in home root tmp; do # ProtectHome, PrivateTmp
		mount -t tmpfs tmpfs "$root/$folder"
	done
	chmod 1777 "$root/tmp"
	mapfile -t environment < <(unit Environment)
	file=$root$(unit EnvironmentFile | sed 's/^-//')
	[ ! -e "$file" ] || mapfile -t -O "${#environment[@]}" environment < <(grep -v '^#' "$file")
	ulimit -n "$(unit LimitNOFILE)" 2>/dev/null || echo 'debian.sh: this machine does not allow LimitNOFILE' >&2
	umask "$(unit UMask)"
	read -ra words < <(unit ExecStart)
	[ -z "$1" ] || words+=(--data "$1")
	exec chroot "$root" /usr/bin/env -i PATH=/usr/bin "${environment[@]}" setpriv --reuid "$(unit User)" --regid "$(unit Group)" \
		--init-groups --no-new-privs --bounding-set=-all --inh-caps=-all env -C "$(unit WorkingDirectory)" "${words[@]}"
}

# stop SIGNAL ends the server.
stop() {
	local status=0
	kill "-$1" "$server"
	wait "$server" || status=$?
	[ "$1" = KILL ] || [ $status = 0 ] || fail "the server has ended with $status"
}

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

# is DEVICE STATE says whether a device is in a state.
is() { inside holter devices list | grep -E "^$1 +$2 " >/dev/null; } # not -q: who writes would fail
state() { until_true "$1 is $2" is "$1" "$2"; }

# fleet prints the devices and their states, without what changes by itself.
fleet() { inside holter devices list | awk 'NR > 1 {print $1, $2}' | sort; }

# same WHEN fails unless the fleet is as it was when the file fleet was written: a device that was online
# may be unknown until it is heard again, but it is not forgotten and nobody is judged.
same() {
	fleet >"$work/fleet.now"
	diff <(sed 's/ unknown$/ online/' "$work/fleet") <(sed 's/ unknown$/ online/' "$work/fleet.now") >&2 || fail "$1: the devices are not the same"
}

# took PATTERN waits until a notification has arrived.
took() { until_true "a notification has arrived: $1" grep -Eq "$1" "$work/received"; }

# install_package FILE installs, upgrades or downgrades.
install_package() {
	cp "$1" "$root/root/"
	inside env -C /root apt-get install -qy --allow-downgrades "./$(basename "$1")" </dev/null
	[ "$(inside holter --version | cut -d' ' -f2)" = "v$(dpkg-deb -f "$1" Version)" ] || fail "holter --version is $(inside holter --version)"
}

# --- pages ---------------------------------------------------------------------------------------------

# block PAGE HEADING prints the first block of commands below a heading.
block() { awk -v heading="$2" 'index($0, heading) == 1 {on = 1} on && /^```$/ {exit} on && code {print} on && /^```[a-z]/ {code = 1}' "$top/docs/$1"; }

# typed COMMAND runs a command of a page in the system. There is nobody who edits, and no systemd.
typed() {
	printf '   $ %s\n' "$1"
	case $1 in
	'sudo apt install ./'*) inside env -C /root apt install "./$(basename "$old")" </dev/null ;;
	'sudoedit /etc/holter/holter.yaml')
		block start/alerts.md '```yaml fleet.yaml' >>"$root/etc/holter/holter.yaml"
		printf '# the receiver\nHOLTER_DELIVERY_ALLOW_PRIVATE=127.0.0.2\n' >"$root/etc/holter/holter.env"
		;;
	'sudo systemctl start holter') start ;;
	*) inside env -C /root bash -c "${1#sudo }" ;;
	esac
}

# follow PAGE HEADING runs the block of commands below a heading.
follow() {
	local command found=
	while IFS= read -r command; do
		found=1
		typed "$command"
	done < <(block "$1" "$2" | sed -e ':a' -e '/\\$/{N;s/\\\n */ /;ba' -e '}')
	[ "$found" ] || fail "docs/$1 has no commands below: $2"
}

# --- steps ---------------------------------------------------------------------------------------------

step_install() { # docs/run/install.md
	apt_began=$EPOCHREALTIME
	cp "$old" "$root/root/"
	follow run/install.md '## Debian'
	[ "$(inside stat -c %U:%G:%a /var/lib/holter)" = holter:holter:750 ] || fail 'the folder of the data is not the one of holter'
	[ "$(inside stat -c %U:%G:%a /etc/holter)" = root:holter:750 ] || fail 'the folder of the configuration is not right'
	[ -L "$root/etc/systemd/system/multi-user.target.wants/holter.service" ] || fail 'the service is not enabled'
	[ ! -e "$root/etc/systemd/system/multi-user.target.wants/holter-ear.service" ] || fail 'the ear is enabled'
}

step_alert() { # docs/start/alerts.md
	follow start/alerts.md '**Slack.**'
	follow start/alerts.md '## Choose a service'
	typed "curl -s $api/v1/beat/pump-3"
	took '^slack: "pump-3 is offline'
	first_alert=$(since "$apt_began")
	[ "${first_alert%.*}" -lt 300 ] || fail "the first alert came $first_alert s after apt install, not within five minutes"
	typed "curl -s $api/v1/beat/pump-3"
	took '^slack: "pump-3 is back online'
}

step_mail() { # docs/start/alerts.md
	follow start/alerts.md '**Mail.**' # the same name, another kind
	typed 'holter endpoints test team'
	took '^mail ops@example.org: '
	typed "curl -s $api/v1/beat/pump-4"
	took '^mail ops@example.org: "pump-4 is offline'
}

step_http() {
	inside curl -fsS -m 10 "$api/v1/beat/nightly?ttl=1h"
	inside curl -fsS -m 10 "$api/v1/beat/backup?ttl=1s"
	state backup offline
	inside holter explain backup | head -n 5
}

step_tcp() {
	printf 'HELLO truck-7 ttl=1h\n' | inside nc -q 1 127.0.0.1 7700 # goes away at once
	state truck-7 offline
	(printf 'HELLO truck-8 ttl=1s\n' && sleep 20) | inside nc 127.0.0.1 7700 >/dev/null & # stays, and says nothing
	state truck-8 offline
	inside holter explain truck-8 | head -n 5
}

step_mqtt() {
	inside mosquitto_pub -h 127.0.0.1 -i plug-1 -t state -m on
	until_true 'plug-1 is known' known plug-1
	took 'truck-8 is offline'
}

known() { inside holter devices list | grep "^$1 " >/dev/null; }

last_seen() { inside curl -fsS "$api/v1/devices/$1" | grep -o '"last_seen":[^,}]*'; }

step_kill() {
	local seen
	sleep 2 # so that nothing that was heard above is still on its way to a verdict
	fleet >"$work/fleet"
	inside curl -fsS -m 10 "$api/v1/beat/nightly?ttl=1h"
	seen=$(last_seen nightly)
	stop KILL
	start
	same 'after kill -9'
	[ "$(last_seen nightly)" = "$seen" ] || fail "kill -9 has lost a heartbeat that was answered: $seen, then $(last_seen nightly)"
}

step_backup() { # docs/run/backup.md
	inside install -d -o holter -g holter -m 0700 /backup
	holter backup /backup/holter.db --data /var/lib/holter
	holter backup --verify /backup/holter.db
	fleet >"$work/fleet"
}

step_upgrade() {
	printf '\n# changed by the administrator\n' >>"$root/etc/holter/holter.yaml"
	stop TERM # what try-restart does where systemd runs
	install_package "$new"
	grep -q 'changed by the administrator' "$root/etc/holter/holter.yaml" || fail 'the upgrade has replaced the configuration'
	start
	same 'after the upgrade'
	inside curl -fsS "$api/v1/beat/only-new?ttl=1h"
}

step_downgrade() { # the tables are the same
	stop TERM
	install_package "$old"
	start
	known only-new || fail 'the downgrade has forgotten a device'
}

step_rollback() { # docs/run/upgrade.md
	stop TERM
	if holter restore /backup/holter.db --data /var/lib/holter; then
		fail 'restore has replaced a fleet without --force'
	fi
	holter restore /backup/holter.db --data /var/lib/holter --force
	start
	same 'after the rollback'
	if known only-new; then fail 'a device that is younger than the backup is there'; fi
}

step_elsewhere() {
	stop TERM
	inside install -d -o holter -g holter -m 0750 /srv/other
	holter restore /backup/holter.db --data /srv/other
	start /srv/other
	same 'after the restore elsewhere'
	stop TERM
	rm -rf "$root/srv/other"
	start
}

step_remove() {
	stop TERM
	inside apt-get remove -qy holter
	[ ! -e "$root/usr/bin/holter" ] || fail 'the program is still there'
	[ -n "$(ls "$root/var/lib/holter")" ] || fail 'the removal has deleted data'
	[ -e "$root/etc/holter/holter.yaml" ] || fail 'the removal has deleted the configuration'
}

step_reinstall() {
	install_package "$new"
	start
	same 'after remove and install'
}

step_purge() {
	stop TERM
	inside apt-get purge -qy holter
	[ ! -e "$root/var/lib/holter" ] || fail 'the purge has left data'
	[ ! -e "$root/etc/holter/holter.yaml" ] || fail 'the purge has left the configuration'
	[ -e "$root/etc/holter/holter.env" ] || fail 'the purge has deleted a file of the administrator'
	[ ! -L "$root/etc/systemd/system/multi-user.target.wants/holter.service" ] || fail 'the purge has left the service enabled'
	[ -z "$(inside find / -xdev -name '*holter*' -not -path '/proc/*' -not -path '/root/*' -not -path '/backup/*' -not -path '/var/log/*' -not -path '/etc/holter*')" ] ||
		fail "the purge has left: $(inside find / -xdev -name '*holter*' -not -path '/proc/*')"
}

# --------------------------------------------------------------------------------------------------------

# since TIME prints the seconds since then.
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}'; }

# take STEP... runs steps. What they print goes to a file, which finish shows if one fails.
take() {
	local began
	for step in "$@"; do
		began=$EPOCHREALTIME
		"step_$step" >"$work/step.log" 2>&1
		printf 'PASS  %-10s %6s s\n' "$step" "$(since "$began")"
	done
	step=
}

finish() {
	[ "$step" ] || return 0
	{
		printf 'FAIL  %s\n' "$step"
		cat "$work/step.log"
		echo '--- the last lines of the server, and what was received:'
		tail -n 20 "$log"
		tail -n 20 "$work/received"
	} >&3
}

if [ "${1:-}" = --sandbox ]; then
	root=$2
	sandbox "${3:-}"
fi
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
	(cd "$top/deploy/packaging" && CGO_ENABLED=0 go build -o "$work/receiver" ./test/receiver)
	mkdir "$work/root"
	tar -C "$work/root" -xf "$(bare_debian)"
	unshare --mount --net --pid --fork --kill-child --mount-proc "$0" --inside "$work" "$old" "$new"
	exit
fi

work=$2 old=$3 new=$4 root=$2/root log=$2/server.log step=setup
exec 3>&1
trap finish EXIT
ip link set lo up
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3 && mknod -m 666 "$root/dev/urandom" c 1 9 && mkdir -m 1777 "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
rm -rf "$root"/var/lib/apt/lists/* # else apt would fetch what the package recommends
: >"$log" && : >"$work/step.log"
echo '127.0.0.2 hooks.slack.com mail.example.org' >>"$root/etc/hosts"
mkdir -p "$root/etc/ssl/certs"
"$work/receiver" "$root/etc/ssl/certs/receiver.pem" >"$work/received" 2>&1 &
take install alert
printf '      the first alert: %s s after apt install\n' "$first_alert"
take mail http tcp mqtt kill backup upgrade downgrade rollback elsewhere remove reinstall purge
echo 'All steps have passed.'
