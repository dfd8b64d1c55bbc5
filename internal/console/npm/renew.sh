#!/usr/bin/env bash
# Renews the packages from npm that the console is built with: those parts of them that are needed to build it and to check its types.
# It needs npm. Change a version here, run it, then `go generate ./internal/console`.
set -euo pipefail
cd "$(dirname "$0")"

renew() { # PACKAGE VERSION FILE...
	local package=$1 version=$2 new
	shift 2
	new=$(mktemp -d)
	npm pack --silent --pack-destination "$new" "$package@$version" >/dev/null
	tar -xzf "$new"/*.tgz -C "$new"
	rm -rf "${package:?}"
	mkdir -p "$package"
	(cd "$new/package" && cp --parents package.json LICENSE "$@" "$OLDPWD/$package")
	rm -rf "$new"
}

renew preact 10.29.8 dist/preact.module.js src/{index,jsx,dom,internal}.d.ts \
	hooks/package.json hooks/dist/hooks.module.js hooks/src/index.d.ts \
	jsx-runtime/package.json jsx-runtime/dist/jsxRuntime.module.js jsx-runtime/src/index.d.ts
renew @preact/signals 2.11.4 dist/signals.module.js dist/signals.d.ts
renew @preact/signals-core 1.14.5 dist/signals-core.module.js dist/signals-core.d.ts
