# shellcheck shell=sh
# What the maintainer scripts of both package formats do. Put in front of each of them by build.sh; POSIX sh, as old as
# RHEL 7's. Nothing in here may make an installation fail for want of systemd or SELinux: images have neither running.

# Another root than /, which dpkg alone has its scripts work on from outside (--force-script-chrootless).
root=${DPKG_ROOT:-}
bootstrap=$root/usr/lib/teleport-update/teleport-update
# A unit a line: those that were disabled when the deb was removed.
disabled=$root/var/lib/teleport-update/disabled

systemd_runs() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

reload_units() { if systemd_runs; then systemctl daemon-reload || true; fi; }

# The links that say what starts at boot, of this host or of an image: `change_links VERB UNIT`. A unit a call: for one that
# cannot be changed (it is masked) systemctl leaves the others out as well.
change_links() { systemctl ${root:+"--root=$root"} --no-reload "$@" >/dev/null 2>&1 || true; }

# Before `enable` has taken over its host, the Go updater's unit of the same name (told by its mark) is the one that counts.
is_go_updaters() { head -n 1 "$root/etc/systemd/system/$1" 2>/dev/null | grep -q '^# teleport-update'; }

# The package's units that are started at boot, but for a name that is not ours yet.
own_units() {
    for unit in teleport-update.timer teleport-update-recover.service; do
        if ! is_go_updaters $unit; then echo $unit; fi
    done
}

# The timers of this host, a line each: the package's, and those that `enable` made for further installations.
own_timers() {
    for timer in teleport-update.timer /etc/systemd/system/teleport-update_*.timer; do
        timer=${timer##*/}
        # Where there are none the pattern stands for itself.
        case $timer in *'*'*) continue ;; esac
        if ! is_go_updaters "$timer"; then echo "$timer"; fi
    done
}

# What is enabled. By Debian's program where it is: that asks policy-rc.d, by which an administrator forbids that packages
# start anything (Debian Policy 9.3.3).
start_timers() {
    systemd_runs || return 0
    for timer in $(own_timers); do
        systemctl --quiet is-enabled "$timer" 2>/dev/null || continue
        if command -v deb-systemd-invoke >/dev/null 2>&1; then
            deb-systemd-invoke start "$timer" || true
        else
            systemctl start "$timer" || true
        fi
    done
}

# All of them, whatever was installed by them: one that stays fails as soon as its service has gone.
stop_updates() {
    systemd_runs || return 0
    for timer in $(own_timers); do
        systemctl stop "$timer" 2>/dev/null || true
        # SIGTERM: the run ends at its next safe point, then ExecStopPost= recovers.
        systemctl stop "${timer%.timer}.service" 2>/dev/null || true
    done
}

# `enable_units preset`: the first installation, and one after a removal; not an upgrade: what an operator disabled stays so.
# Ours says enable; an operator's own preset wins. `enable_units enable`: as they were. Works in images as well.
enable_units() {
    if command -v systemctl >/dev/null 2>&1; then
        for unit in $(own_units); do
            if ! grep -qsx "$unit" "$disabled"; then change_links "$1" "$unit"; fi
        done
    fi
    reload_units
    start_timers
}

disable_units() {
    if command -v systemctl >/dev/null 2>&1; then
        for unit in $(own_units); do change_links disable "$unit"; done
    fi
}

# Before the package goes: nobody else could finish an interrupted update afterwards. Fails, with everything as it was, while
# one is at work or cannot be recovered.
end_updates() {
    stop_updates
    for versions in "$root"/var/lib/teleport/versions "$root"/var/lib/teleport_*/versions; do
        [ -d "$versions" ] || continue
        state=${versions%/versions}
        suffix=${state#"$root"/var/lib/teleport}
        end_updates_of "$versions" "$suffix" || { start_timers; return 1; }
    done
}

# end_updates_of VERSIONS SUFFIX: the suffix with its underscore, or nothing.
end_updates_of() {
    # That would wait for the lock of the very package manager that runs this.
    if grep -qs '"remove_package"' "$1/.journal"; then
        echo "teleport-update: an interrupted \`enable\` has a package to remove yet: run" \
            "\`teleport-update ${2:+--install-suffix ${2#_} }recover\`, then remove this package" >&2
        return 1
    fi
    status=0
    $bootstrap ${root:+--root "$root"} ${2:+--install-suffix "${2#_}"} recover || status=$?
    case $status in
    0) return 0 ;;
    75)
        echo "teleport-update: another run is at work; remove the package when it has ended" >&2
        return 1
        ;;
    esac
    [ -e "$1/.journal" ] || return 0
    # The package's own copy is broken, perhaps: the active version can have one.
    if [ -z "$root$2" ] && [ -x /usr/local/bin/teleport-update ] && /usr/local/bin/teleport-update recover; then
        return 0
    fi
    echo "teleport-update: an interrupted update in $1 cannot be recovered (status $status), and nobody could after the" \
        "removal: run \`teleport-update ${2:+--install-suffix ${2#_} }recover\`, which says what is in the way" >&2
    return 1
}
