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
# The agent's process, its program, and this life of its unit; what a unit said; whether units are active; whether ours are enabled.
pid() { cat /run/teleport.pid; }
exe() { readlink "/proc/$(pid)/exe"; }
life() { show teleport InvocationID; }
said() { journalctl -o cat --no-pager -u "$1"; }
active() { systemctl is-active "$@" || true; }
units() { systemctl is-enabled teleport-update.timer teleport-update-recover.service || true; }
# A package's removal and version.
has_rpm() { command -v rpm >/dev/null; }
remove() { if has_rpm; then rpm -e --force-debian "$1"; else dpkg --remove "$1"; fi; }
version() {
    if has_rpm; then rpm -q --qf '%{VERSION}\n' "$1" | grep -v 'not installed' || true
    else dpkg-query -s "$1" 2>/dev/null | sed -n '/^Status: .* installed$/,$s/^Version: //p'; fi
}
# Files of directories with all that makes them so.
tree() { find "$@" -printf '%p %y %m %U:%G %l\n' | sort; find "$@" -type f ! -name '.lock' -exec sha256sum {} + | sort; }
# The unit's file and the program that it starts, as systemd has them.
loaded() { echo "$(show teleport FragmentPath) $(show teleport ExecStart | sed 's/.*path=\([^ ]*\) .*/\1/')"; }
# Names of ours in a directory.
links() { find "$1" -lname '/var/lib/teleport/versions/*' -printf '%f\n' | sort | xargs; }
# A line of the journal, with its checksum.
record() { echo "$(printf %s "$1" | sha256sum | cut -c1-8) $1"; }
# The agent's configuration and its data but the versions, wholly described.
data() {
    find /var/lib/teleport -path /var/lib/teleport/versions -prune -o -printf '%P %y %m %U:%G %l\n' | sort
    find /var/lib/teleport -path /var/lib/teleport/versions -prune -o -type f -print0 | sort -z | xargs -0 sha256sum /etc/teleport.yaml
}
