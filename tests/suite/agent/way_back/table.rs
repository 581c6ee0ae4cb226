//! The table: what a service manager, a file system or another process can refuse or delay.

use super::flow::{By, Flow};
use super::{Ends, Trouble};

pub(super) use restart_stops_longer_than_the_deadline::TROUBLE as SLOW_RESTART;
pub(super) use unit_is_an_alias::TROUBLE as ALIAS;
pub(super) use unit_is_masked_in_mid_run::TROUBLE as MASKED;

/// Nothing is in the way.
const NONE: Trouble = Trouble { name: "", host: "", unit: "", begin: "", mend: "", immutable: None, ends: Ends::There };

/// A row: the trouble, then a test for each of its flows. Those after `ignored` are left to a run of the whole table.
macro_rules! row {
    ($name:ident: $trouble:expr; $($flow:ident $by:ident $test:ident,)*; ignored $($far:ident $far_by:ident $far_test:ident,)*) => {
        pub(super) mod $name {
            use super::*;
            pub(in super::super) const TROUBLE: Trouble = Trouble { name: stringify!($name), ..$trouble };
            $(#[test] fn $test() { Flow::$flow.go(&TROUBLE, By::$by); })*
            $(#[test] #[ignore = "the whole table"] fn $far_test() { Flow::$far.go(&TROUBLE, By::$far_by); })*
        }
    };
}

/// Rows with the flows that tell most: both directions, and a way back with the database.
macro_rules! table {
    ($($name:ident: $trouble:expr;)*) => {
        pub(super) const TROUBLES: &[Trouble] = &[$(Trouble { name: stringify!($name), ..$trouble }),*];
        $(row! { $name: $trouble;
        Update Unit update_by_the_unit,
        UpdateToSpoiler Hand update_to_a_broken_release,
        Downgrade Hand downgrade,
        ; ignored
        Update Hand update,
        UpdateToSpoiler Unit update_to_a_broken_release_by_the_unit,
        UpdateToDead Hand update_to_a_dead_release,
        UpdateToDead Unit update_to_a_dead_release_by_the_unit,
        Downgrade Unit downgrade_by_the_unit,
        DowngradeToDead Hand downgrade_to_a_dead_release,
        DowngradeToDead Unit downgrade_to_a_dead_release_by_the_unit,
        Rollback Hand rollback,
    } )* };
}

/// Runs a line of shell when the agent is reloaded or has been stopped, once.
macro_rules! in_mid_run {
    ($line:literal) => {
        concat!(
            "ExecReload=\nExecReload=/bin/sh -c 'test -e /begun || { touch /begun; ",
            $line,
            "; }'\nExecReload=/bin/kill -HUP $MAINPID\n",
            "ExecStopPost=-/bin/sh -c 'test -e /begun || { touch /begun; ",
            $line,
            "; }'\n"
        )
    };
}

table! {
    // A1: since 250 systemd reads no unit again while less than 16 MiB of /run are free. Four are left for everything else.
    manager_refuses_to_read_units: Trouble {
        begin: "mount -o remount,size=$(($(du -sk /run | cut -f1) + 4096))k /run; ! systemctl daemon-reload",
        mend: "mount -o remount,size=256m /run",
        ends: Ends::Untouched,
        ..NONE
    };
    manager_refuses_to_read_units_in_mid_run: Trouble {
        unit: in_mid_run!("mount -o remount,size=$$(($$(du -sk /run | cut -f1) + 4096))k /run"),
        mend: "mount -o remount,size=256m /run",
        ends: Ends::Anywhere,
        ..NONE
    };
    // A2.
    foreign_process_in_the_group: Trouble {
        unit: "KillMode=process\n",
        begin: "group=$(systemctl show -p ControlGroup --value teleport); setsid sleep 1000 </dev/null >/dev/null 2>&1 & \
                for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do procs=$top$group/cgroup.procs; \
                if test -e $procs; then echo $! >$procs; grep -qx $! $procs; fi; done",
        mend: "pkill -x sleep",
        ..NONE
    };
    // A3.
    second_agent: Trouble {
        begin: "mkdir -p /var/lib/second; printf 'teleport:\\n  data_dir: /var/lib/second\\n' >/etc/second.yaml; \
                systemd-run -q --unit=second -p PIDFile=/run/second.pid -p Type=simple \
                /usr/local/bin/teleport start --config /etc/second.yaml --pid-file=/run/second.pid; \
                until test -S /var/lib/second/debug.sock && test -s /run/second.pid; do sleep 0.05; done",
        mend: "systemctl is-active -q second",
        ..NONE
    };
    // A4: what waits for the stop is gone, and the stop is still queued; the agent ends some seconds later.
    stop_outlives_its_waiter: Trouble {
        unit: "TimeoutStopSec=5min\nExecStop=/bin/sh -c 'sleep 6; kill $MAINPID'\n",
        begin: "mv /usr/bin/systemctl /usr/bin/systemctl.real; printf '%s\\n' '#!/bin/sh' 'case \" $* \" in *\" stop \"*)' \
                'systemctl.real --no-block \"$@\"' \
                'echo \"Failed to wait for response: Connection reset by peer\" >&2; exit 1 ;; esac' \
                'exec systemctl.real \"$@\"' >/usr/bin/systemctl; chmod 755 /usr/bin/systemctl",
        mend: "mv /usr/bin/systemctl.real /usr/bin/systemctl",
        ends: Ends::Anywhere,
        ..NONE
    };
    stop_is_slow: Trouble {
        unit: "TimeoutStopSec=5min\nExecStop=/bin/sh -c 'sleep 4; kill $MAINPID'\n",
        ..NONE
    };
    start_is_slow: Trouble { unit: "ExecStartPre=/bin/sleep 3\n", ..NONE };
    unit_may_not_be_stopped: Trouble {
        unit: "[Unit]\nRefuseManualStop=yes\n",
        ends: Ends::ThereOrUntouched,
        ..NONE
    };
    unit_may_not_be_started: Trouble {
        unit: "[Unit]\nRefuseManualStart=yes\n",
        ends: Ends::ThereOrUntouched,
        ..NONE
    };
    unit_has_no_reload: Trouble { unit: "ExecReload=\n", ..NONE };
    reload_fails: Trouble { unit: "ExecReload=\nExecReload=/bin/false\n", ends: Ends::Anywhere, ..NONE };
    start_limit_is_reached: Trouble {
        unit: "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n",
        ..NONE
    };
    job_of_somebody_else_is_queued: Trouble {
        begin: "printf '[Unit]\\nBefore=teleport.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/sleep 4\\n' \
                >/run/systemd/system/slow.service; systemctl daemon-reload; systemctl --no-block start slow; \
                systemctl --no-block reload teleport",
        mend: "rm -f /run/systemd/system/slow.service",
        ends: Ends::Anywhere,
        ..NONE
    };
    // A5.
    reader_of_the_database: Trouble {
        begin: "systemd-run -q --unit=reader sh -c 'exec sleep 1000 3</var/lib/teleport/proc/sqlite.db'",
        mend: "systemctl stop reader",
        ends: Ends::ThereOrUntouched,
        ..NONE
    };
    reader_who_comes_in_mid_run: Trouble {
        unit: in_mid_run!("systemctl --no-block start reader"),
        begin: "printf '[Service]\\nExecStart=/bin/sh -c \"exec sleep 1000 3</var/lib/teleport/proc/sqlite.db\"\\n' \
                >/run/systemd/system/reader.service; systemctl daemon-reload",
        mend: "systemctl stop reader",
        ends: Ends::Anywhere,
        ..NONE
    };
    database_is_a_mount: Trouble {
        begin: "mount --bind /var/lib/teleport/proc/sqlite.db /var/lib/teleport/proc/sqlite.db",
        mend: "umount /var/lib/teleport/proc/sqlite.db",
        ends: Ends::Untouched,
        ..NONE
    };
    database_is_immutable: Trouble {
        immutable: Some("/var/lib/teleport/proc/sqlite.db"),
        ends: Ends::Untouched,
        ..NONE
    };
    directory_has_another_owner_than_the_database: Trouble {
        begin: "chown nobody /var/lib/teleport/proc",
        mend: "chown root /var/lib/teleport/proc",
        ends: Ends::ThereOrUntouched,
        ..NONE
    };
    directory_of_links_is_immutable: Trouble {
        immutable: Some("/usr/local/bin"),
        ends: Ends::Untouched,
        ..NONE
    };
    data_directory_is_read_only: Trouble {
        begin: "mount --bind /var/lib/teleport/proc /var/lib/teleport/proc; mount -o remount,bind,ro /var/lib/teleport/proc",
        mend: "umount /var/lib/teleport/proc",
        ends: Ends::Untouched,
        ..NONE
    };
}

row! { nothing: NONE;
    UpdateToDead Hand an_agent_whose_successor_died_is_not_stopped,
    DowngradeToDead Hand downgrade_to_a_dead_release,
    ; ignored
    UpdateToDead Unit an_agent_whose_successor_died_is_not_stopped_by_the_unit,
    Rollback Hand rollback,
}

/// What a site sets so that sessions can end. Nothing shorter than what a stop may take by itself tells.
mod stop_takes_longer_than_two_minutes {
    use super::*;

    const TROUBLE: Trouble = Trouble {
        name: "long-stop",
        unit: "TimeoutStopSec=5min\nExecStop=/bin/sh -c 'sleep 125; kill $MAINPID'\n",
        ..NONE
    };

    #[test]
    #[ignore = "the whole table"]
    fn downgrade() {
        Flow::Downgrade.go(&TROUBLE, By::Hand);
    }

    #[test]
    #[ignore = "the whole table"]
    fn downgrade_by_the_unit() {
        Flow::Downgrade.go(&TROUBLE, By::Unit);
    }
}

// With one flow more: there the agent runs on, and its unit may not be started.
row! {
    unit_is_masked_in_mid_run: Trouble {
        unit: in_mid_run!("mkdir -p /run/systemd/system.control; ln -sf /dev/null /run/systemd/system.control/teleport.service; systemctl daemon-reload"),
        mend: "rm -f /run/systemd/system.control/teleport.service; systemctl daemon-reload",
        ends: Ends::PerhapsDown,
        ..NONE
    };
        Update Unit update_by_the_unit,
        UpdateToSpoiler Hand update_to_a_broken_release,
        UpdateToDead Hand update_to_a_dead_release,
        Downgrade Hand downgrade,
        ; ignored
        Update Hand update,
        UpdateToSpoiler Unit update_to_a_broken_release_by_the_unit,
        UpdateToDead Unit update_to_a_dead_release_by_the_unit,
        Downgrade Unit downgrade_by_the_unit,
        DowngradeToDead Hand downgrade_to_a_dead_release,
        DowngradeToDead Unit downgrade_to_a_dead_release_by_the_unit,
        Rollback Hand rollback,
}

// A unit that a site calls otherwise: its control group has its own name.
row! {
    unit_is_an_alias: Trouble {
        host: "cp -L $(systemctl show -p FragmentPath --value teleport) /etc/systemd/system/node.service; \
                printf 'Alias=teleport.service\n' >>/etc/systemd/system/node.service; systemctl disable --now teleport; \
                systemctl daemon-reload; systemctl enable -f --now node; \
                test \"$(systemctl show -p Id --value teleport)\" = node.service",
        ..NONE
    };
    Update Hand update,
    UpdateToSpoiler Hand update_to_a_broken_release,
    Downgrade Hand downgrade,
    ; ignored
}

// Only the check of a version that runs has a deadline, 8 s here.
row! {
    restart_stops_longer_than_the_deadline: Trouble {
        unit: "TimeoutStopSec=5min\nExecReload=\nExecStop=/bin/sh -c 'sleep 10; kill $MAINPID'\n",
        ..NONE
    };
    Update Hand update,
    ; ignored
}
