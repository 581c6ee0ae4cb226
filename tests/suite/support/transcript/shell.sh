# shellcheck shell=bash
# What lines of shell in transcripts can say. In a bed systemd-run would fill in names in braces behind a dollar: none here, and none there.

# The command fails.
no() { if "$@"; then return 1; fi; }
# The first is the second, or contains it.
is() { test "$1" = "$2" || { echo "$1, not $2" >&2; exit 1; }; }
has() { case $1 in *"$2"*) ;; *) echo "$2 is not in $1" >&2; exit 1 ;; esac; }
lacks() { case $1 in *"$2"*) echo "$2 is in $1" >&2; exit 1 ;; esac; }
# A property that systemd shows of a unit.
show() { systemctl show --value -p "$2" "$1"; }
# The unit's file and the program that it starts, as systemd has them; one life of it.
loaded() { echo "$(show teleport FragmentPath) $(show teleport ExecStart | sed 's/.*path=\([^ ]*\) .*/\1/')"; }
life() { show teleport InvocationID; cat /run/teleport.pid; }
# Names of ours in a directory.
links() { find "$1" -lname '/var/lib/teleport/versions/*' -printf '%f\n' | sort | xargs; }
# A line of the journal, with its checksum.
record() { echo "$(printf %s "$1" | sha256sum | cut -c1-8) $1"; }
# The agent's configuration and its data but the versions, wholly described.
data() {
    find /var/lib/teleport -path /var/lib/teleport/versions -prune -o -printf '%P %y %m %U:%G %l\n' | sort
    find /var/lib/teleport -path /var/lib/teleport/versions -prune -o -type f -print0 | sort -z | xargs -0 sha256sum /etc/teleport.yaml
}
