# shellcheck shell=sh
# What the maintainer scripts of both package formats do. Put in front of each of them by build.sh; POSIX sh, as old as
# RHEL 7's. Nothing in here may make an installation fail for want of systemd or SELinux: images have neither running.

updater=/usr/lib/teleport-update/teleport-update

systemd_runs() { [ -d /run/systemd/system ]; }

reload_units() { if systemd_runs; then systemctl daemon-reload || true; fi; }

# Before the package goes: nobody else could finish an interrupted update afterwards. Fails while one is at work.
end_updates() {
    if systemd_runs; then
        systemctl stop teleport-update.timer 2>/dev/null || true
        # SIGTERM: the run ends at its next safe point, then ExecStopPost= recovers.
        systemctl stop teleport-update.service 2>/dev/null || true
    fi
    [ -x $updater ] || return 0
    status=0
    # The bootstrap's own answer counts, in any case: `recover` never hands over while a journal is open.
    $updater recover || status=$?
    case $status in
    0) ;;
    75)
        echo "teleport-update: another run is at work; remove the package when it has ended" >&2
        return 1
        ;;
    *) echo "teleport-update: an interrupted update could not be recovered (status $status); going on" >&2 ;;
    esac
}
