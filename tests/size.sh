#!/bin/bash
# size.sh   lines of code, lines of tests, words of documentation, how many of a hundred types share their name with another:
#           each beside its limit. Ends with 1 if one is over it.
#
# A line of code is neither blank nor a comment, and stands before `#[cfg(test)]` in a file that no test module names.
# Whoever takes away lowers the limit; whoever raises it says why in the commit.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lines() { xargs -0 --no-run-if-empty awk "$1" | awk '{ sum += $1 } END { print sum + 0 }'; }
# Files whose names end so, below these directories. Not git's list: a checkout can be anybody's.
files() {
    local ending=$1
    shift
    find "$@" \( -path target -o -path fuzz/target \) -prune -o -type f -name "*.$ending" -print0
}

# Modules that stand behind `#[cfg(test)] mod name;`, as paths, with and without a folder.
# shellcheck disable=SC2016 # awk's
mapfile -t test_modules < <(files rs src crates fleet kube | xargs -0 awk '
    /^ *#\[cfg\(test\)\]/ { marked = 1; next }
    marked && /^ *#\[/ { next }
    marked && match($0, /^ *(pub(\([a-z]+\))? )?mod [a-z_]+;/) {
        name = $0; sub(/^.*mod /, "", name); sub(/;.*/, "", name)
        folder = FILENAME
        if (folder ~ /\/(mod|lib|main)\.rs$/) sub(/\/[a-z]+\.rs$/, "", folder); else sub(/\.rs$/, "", folder)
        print folder "/" name
    }
    { marked = 0 }')

is_test() {
    local path=$1 module
    case $path in */tests/* | tests/* | testing/* | */examples/* | */tests.rs) return 0 ;; esac
    for module in "${test_modules[@]}"; do
        case $path in "$module.rs" | "$module/"*) return 0 ;; esac
    done
    return 1
}

code=() tests=()
while IFS= read -r -d '' path; do
    if is_test "$path"; then tests+=("$path"); else code+=("$path"); fi
done < <(files rs build crates fleet kube src testing tests)

count='!/^[[:space:]]*(\/\/|$)/ { n++ } END { print n + 0 }'
# `#[cfg(test)] mod name;` is tests and nothing else; behind any other `#[cfg(test)]` the rest of the file is.
state='FNR == 1 { in_tests = marked = 0 } { here = in_tests }
    /^ *#\[cfg\(test\)\]/ { marked = in_tests = here = 1 }
    !/^ *#\[/ && marked { marked = 0; if (/^ *(pub(\([a-z]+\))? )?mod [a-z_]+;/) in_tests = 0 }
    /^[[:space:]]*(\/\/|$)/ { next }'
before_tests="$state !here { n++ } END { print n + 0 }"
in_tests="$state here { n++ } END { print n + 0 }"
types="$state"' !here && /^(pub(\([a-z]+\))? )?(struct|enum|trait|type|union) [A-Z]/ {
    sub(/^(pub(\([a-z]+\))? )?[a-z]+ /, ""); sub(/[^A-Za-z0-9_].*/, ""); print }'

over=0
say() {
    local what=$1 now=$2 limit=$3
    printf '%-26s %6d   limit %6d\n' "$what" "$now" "$limit"
    if [ "$now" -gt "$limit" ]; then
        echo "size: $what is over its limit" >&2
        over=1
    fi
}
say 'lines of code' "$(printf '%s\0' "${code[@]}" | lines "$before_tests")" 70423
say 'lines of tests' $(($(printf '%s\0' "${tests[@]}" | lines "$count") + $(printf '%s\0' "${code[@]}" | lines "$in_tests"))) 74691
say 'words of documentation' "$(files md ./*.md crates docs fleet packaging selinux testing tests | xargs -0 cat | wc -w)" 65100
say 'types of a shared name, %' "$(printf '%s\0' "${code[@]}" | xargs -0 awk "$types" | sort | uniq -c |
    awk '{ all += $1 } $1 > 1 { shared += $1 } END { print int(shared * 100 / all) }')" 14
exit $over
