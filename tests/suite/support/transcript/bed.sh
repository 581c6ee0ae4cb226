# shellcheck shell=bash
# What lines of shell in a bed may call. An old systemd takes no command of more than 2 KiB.
cd /
no() { if "$@"; then return 1; fi; }
pid() { cat /run/teleport.pid; }
exe() { readlink "/proc/$(pid)/exe"; }
life() { systemctl show -p InvocationID --value teleport; }
said() { journalctl -o cat --no-pager -u "$1"; }
active() { systemctl is-active "$@" || true; }
units() { systemctl is-enabled teleport-update.timer teleport-update-recover.service || true; }
has_rpm() { command -v rpm >/dev/null; }
remove() { if has_rpm; then rpm -e --force-debian "$1"; else dpkg --remove "$1"; fi; }
version() {
    if has_rpm; then rpm -q --qf '%{VERSION}\n' "$1" | grep -v 'not installed' || true
    else dpkg-query -s "$1" 2>/dev/null | sed -n '/^Status: .* installed$/,$s/^Version: //p'; fi
}
tree() { find "$@" -printf '%p %y %m %U:%G %l\n' | sort; find "$@" -type f ! -name '.lock' -exec sha256sum {} + | sort; }
