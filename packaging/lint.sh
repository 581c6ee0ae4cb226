#!/bin/bash
# lint.sh DIR   what the distributions' own checkers say of the packages in DIR: a word of theirs is a failure. What is let
# pass is in deb/lintian-overrides and rpm/rpmlint.toml, each with its reason.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shopt -s nullglob
debs=("$1"/*.deb) rpms=("$1"/*.rpm)
if [ ${#debs[@]} = 0 ] || [ ${#rpms[@]} = 0 ]; then
    echo "lint.sh: no packages in $1" >&2
    exit 2
fi
# Root is who builds in CI; lintian and rpmlint only say that they do not like it.
lintian --allow-root --fail-on error,warning --tag-display-limit 0 "${debs[@]}"
rpmlint --strict --config "$here/rpm/rpmlint.toml" "${rpms[@]}"
