#!/bin/bash
# For demo.sh: what a reader sees, and how it is checked.

bold='' faint='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' faint=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

tell() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s# %s%s\n' "$faint" "$*" "$plain"; }
fail() { printf '%s✗ %s%s\n' "$red" "$*" "$plain"; exit 1; }
good() { printf '%s✓ %s%s\n' "$green" "$*" "$plain"; }
typed() { printf '%s%s$ %s%s\n' "$bold" "${at:+$at}" "$*" "$plain"; }

# ends STATUS CMD..: runs it, and insists on its exit status.
ends() {
    local wanted=$1 status=0
    shift
    "$@" 2>&1 || status=$?
    [ "$status" = "$wanted" ] || fail "that ended with $status, not with $wanted"
    [ "$wanted" = 0 ] || note "exit status $status"
}

# runs STATUS CMD..: shows the command, runs it on the host, and insists on its exit status.
runs() {
    local wanted=$1
    shift
    if [ "$1" = sh ]; then typed "$3"; else typed "$*"; fi
    ends "$wanted" on_host "$@"
}
