# shellcheck shell=sh
# What the maintainer scripts of both package formats do for the rollout server. Put in front of each of them by build.sh;
# POSIX sh. Nothing in here may make an installation fail for want of a running systemd: images have none.

# Another root than /, which dpkg alone has its scripts work on from outside (--force-script-chrootless).
root=${DPKG_ROOT:-}
unit=teleport-fleet.service

systemd_runs() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

reload_units() { if systemd_runs; then systemctl daemon-reload || true; fi; }

# The user and group that the server runs as. They stay when the package goes: files can still be theirs.
make_user() {
    if command -v systemd-sysusers >/dev/null 2>&1; then
        systemd-sysusers ${root:+"--root=$root"} teleport-fleet.conf
    else
        echo "teleport-fleet: no systemd-sysusers: the user teleport-fleet is made when systemd boots" >&2
    fi
}

# By Debian's program where it is: that asks policy-rc.d, by which an administrator forbids that packages start anything
# (Debian Policy 9.3.3).
start_server() {
    systemd_runs || return 0
    if command -v deb-systemd-invoke >/dev/null 2>&1; then
        deb-systemd-invoke "$1" $unit || true
    else
        systemctl "$1" $unit || true
    fi
}

stop_server() { if systemd_runs; then systemctl stop $unit 2>/dev/null || true; fi; }
