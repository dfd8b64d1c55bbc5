#!/usr/bin/env bash
# Makes the release of HEAD twice, in clones with paths of different lengths, with another umask, time
# zone and time, the second with an empty build cache, and compares all checksums.
set -euo pipefail

top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

git clone -q "$top" "$work/a"
git clone -q "$top" "$work/another-folder/with/a/longer/path"
make -C "$work/a" release >&2
(umask 027 && TZ=Asia/Tokyo LC_ALL=C GOCACHE=$work/cache make -C "$work/another-folder/with/a/longer/path" release >&2)
if ! diff "$work/a/dist/SHA256SUMS" "$work/another-folder/with/a/longer/path/dist/SHA256SUMS"; then
	echo 'reproducible.sh: the files above differ between two builds of the same commit' >&2
	exit 1
fi
cat "$work/a/dist/SHA256SUMS"
echo 'Both builds are the same.'
