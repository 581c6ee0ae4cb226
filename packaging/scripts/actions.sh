# shellcheck shell=sh
# What the maintainer scripts of both package formats do. Put in front of each of them by build.sh; POSIX sh, as old as
# RHEL 7's. Nothing in here may make an installation fail for want of systemd or SELinux: images have neither running.

bootstrap=/usr/lib/teleport-update/teleport-update

systemd_runs() { [ -d /run/systemd/system ]; }

reload_units() { if systemd_runs; then systemctl daemon-reload || true; fi; }

# Before `enable` has taken over its host, the Go updater's unit of the same name (told by its mark) is the one that counts.
is_go_updaters() { head -n 1 "/etc/systemd/system/$1" 2>/dev/null | grep -q '^# teleport-update'; }

# Our units of that kind, but for a name that is not ours yet.
own_units() {
    for unit in teleport-update.timer teleport-update-recover.service; do
        if ! is_go_updaters $unit; then echo $unit; fi
    done
}

start_timer() {
    if systemd_runs && ! is_go_updaters teleport-update.timer &&
        systemctl --quiet is-enabled teleport-update.timer 2>/dev/null; then
        systemctl start teleport-update.timer || true
    fi
}

# The first installation, and one after a removal; not an upgrade: what an operator disabled stays so. By preset (ours says
# enable), so that an operator's own preset wins; works in images as well.
enable_units() {
    if command -v systemctl >/dev/null 2>&1; then
        # shellcheck disable=SC2046 # a list
        systemctl --no-reload preset $(own_units) >/dev/null 2>&1 || true
    fi
    reload_units
    start_timer
}

disable_units() {
    if command -v systemctl >/dev/null 2>&1; then
        # shellcheck disable=SC2046 # a list
        systemctl --no-reload disable $(own_units) >/dev/null 2>&1 || true
    fi
}

# Before the package goes: nobody else could finish an interrupted update afterwards. Fails, with everything as it was, while
# one is at work or cannot be recovered.
end_updates() {
    for versions in /var/lib/teleport/versions /var/lib/teleport_*/versions; do
        [ -d "$versions" ] || continue
        state=${versions%/versions}
        suffix=${state#/var/lib/teleport}
        end_updates_of "$versions" "$suffix" || { start_timer; return 1; }
    done
}

# end_updates_of VERSIONS SUFFIX: the suffix with its underscore, or nothing.
end_updates_of() {
    if systemd_runs && ! is_go_updaters "teleport-update$2.service"; then
        systemctl stop "teleport-update$2.timer" 2>/dev/null || true
        # SIGTERM: the run ends at its next safe point, then ExecStopPost= recovers.
        systemctl stop "teleport-update$2.service" 2>/dev/null || true
    fi
    # That would wait for the lock of the very package manager that runs this.
    if grep -qs '"remove_package"' "$1/.journal"; then
        echo "teleport-update: an interrupted \`enable\` has a package to remove yet: run" \
            "\`teleport-update recover\`, then remove this package" >&2
        return 1
    fi
    status=0
    $bootstrap ${2:+--install-suffix "${2#_}"} recover || status=$?
    case $status in
    0) return 0 ;;
    75)
        echo "teleport-update: another run is at work; remove the package when it has ended" >&2
        return 1
        ;;
    esac
    [ -e "$1/.journal" ] || return 0
    # The package's own copy is broken, perhaps: the active version can have one.
    if [ -z "$2" ] && [ -x /usr/local/bin/teleport-update ] && /usr/local/bin/teleport-update recover; then return 0; fi
    echo "teleport-update: an interrupted update in $1 cannot be recovered (status $status), and nobody could after the" \
        "removal: run \`teleport-update ${2:+--install-suffix ${2#_} }recover\`, which says what is in the way" >&2
    return 1
}
