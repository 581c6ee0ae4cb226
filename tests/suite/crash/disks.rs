//! SPEC §8, ENOSPC and EROFS: disks that fill up or turn read-only under a run, with an agent that lives (in cells). An
//! undo that must wait leaves an agent that runs.

use testing::crash::live::cell::{Cell, Ran, Running, until};
use testing::crash::live::flows::{Scene, settings, version};
use testing::crash::live::{rows, suite, whole};

use crate::support::*;

/// For an event that takes a second or two on an idle machine.
const SOON: Duration = Duration::from_secs(60);
/// A file system of its own, as small as a database and some rows.
const SMALL: &str = "mount -t tmpfs -o size=4m,nr_inodes=64,mode=755 small";

#[test]
fn a_link_directory_that_turns_read_only_in_the_health_check_leaves_an_agent_that_runs() {
    let Some((scene, cell, before)) = judged(":") else { return };
    sh(&cell, "mount -o remount,bind,ro /usr/local");
    let ran = cell.run("update --now").unwrap();
    waits(&cell, &ran, "Read-only file system");
    waits(&cell, &cell.run("recover").unwrap(), "Read-only file system");
    sh(&cell, "mount -o remount,bind,rw /usr/local");
    ends_old(&scene, &cell, &before);
}

#[test]
fn a_data_disk_that_is_full_when_the_database_is_to_be_put_back_leaves_an_agent_that_runs() {
    // The database on a file system of its own: there the snapshot cannot be linked in.
    let own_disk = format!("cd /var/lib/teleport && mv proc kept && mkdir proc && {SMALL} proc && cp -a kept/. proc");
    let Some((scene, cell, before)) = judged(&own_disk) else { return };
    sh(&cell, "cat /dev/zero >/var/lib/teleport/proc/filling 2>/dev/null; true");
    let ran = cell.run("update --now").unwrap();
    waits(&cell, &ran, "No space left on device");
    sh(&cell, "rm /var/lib/teleport/proc/filling");
    let ran = cell.run("recover").unwrap();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    // Back to where the test can see it.
    sh(&cell, "kill $(cat /run/teleport.pid)");
    until(SOON, || cell.agents().is_empty()).unwrap();
    sh(
        &cell,
        "cd /var/lib/teleport && rm -r kept && cp -a proc kept && umount proc && cp -a kept/. proc && rm -r kept",
    );
    cell.start_agent().unwrap();
    ends_old(&scene, &cell, &before);
}

#[test]
fn a_disk_without_room_for_a_second_database_gets_the_snapshot_itself_back() {
    // Versions and database on one file system: there the snapshot can be linked in. What the agent acknowledges stays
    // where the test can see it.
    let one_disk = "cd /var/lib/teleport && touch acked.log && mkdir /tmp/one \
                    && mount -t tmpfs -o size=256m,mode=755 one /tmp/one && cp -a . /tmp/one \
                    && mount --bind acked.log /tmp/one/acked.log && mount --rbind /tmp/one /var/lib/teleport";
    let Some((scene, cell, before)) = judged(one_disk) else { return };
    sh(&cell, "cat /dev/zero >/var/lib/teleport/filling 2>/dev/null; true");
    let ran = cell.run("recover").unwrap();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    // Back to where the test can see it.
    sh(&cell, "rm /var/lib/teleport/filling && kill $(cat /run/teleport.pid)");
    until(SOON, || cell.agents().is_empty()).unwrap();
    sh(&cell, "umount -R /var/lib/teleport && cp -a /tmp/one/proc /tmp/one/versions /var/lib/teleport");
    cell.start_agent().unwrap();
    ends_old(&scene, &cell, &before);
}

/// A host whose update to a version that never gets ready was killed in its health check, and the rows that its agent had
/// acknowledged before that update. `prepare` is run before the agent is started. `None` where there are no cells.
fn judged(prepare: &str) -> Option<(Scene, Cell, Vec<rows::Row>)> {
    if !suite::can() {
        return None;
    }
    let updater = Updater::new(&updater());
    let mut scene = Scene::on_one(&updater, &settings("10m", "0s")).unwrap();
    scene.release(&version(2).behaviour("never-ready"));
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    sh(&cell, prepare);
    cell.start_agent().unwrap();
    until(SOON, || !rows::acknowledged(&cell).is_empty()).unwrap();
    let before = rows::acknowledged(&cell);
    let run = start(&cell, "update --now");
    until(SOON, || run.said().unwrap().contains("reloaded the agent")).unwrap();
    let new = |pid: &u32| cell.runs(*pid, "/var/lib/teleport/versions/2.0.0/bin/teleport");
    until(SOON, || cell.agents().iter().any(new)).unwrap();
    drop(run);
    Some((scene, cell, before))
}

/// The undo could not be completed, and says why; the agent of the version that is linked runs.
#[track_caller]
fn waits(cell: &Cell, ran: &Ran, why: &str) {
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.said.contains(why) && ran.said.contains("error: while undoing the step"), "{ran:#?}");
    assert!(until(Duration::from_secs(30), || !cell.agents().is_empty()).is_ok(), "no agent runs: {ran:#?}");
    let status: serde_json::Value = serde_json::from_str(&cell.run("status --format json").unwrap().said).unwrap();
    assert_eq!(status["recovery_pending"], true);
}

/// With the disk in order again the next run undoes the rest.
#[track_caller]
fn ends_old(scene: &Scene, cell: &Cell, before: &[rows::Row]) {
    scene.cluster.set_directive(Find::version("1.0.0"));
    let ran = cell.run("update").unwrap();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    whole::check(cell, Some("1.0.0"), true).unwrap_or_else(|reason| panic!("{reason}"));
    let live = rows::live(cell).unwrap();
    let lost = before.iter().find(|row| !live.contains(*row));
    assert_eq!(lost, None);
}

fn start(cell: &Cell, line: &str) -> Running {
    cell.spawn(cell.updater(&testing::crash::host::words(line))).unwrap()
}

#[track_caller]
fn sh(cell: &Cell, line: &str) {
    let ran = cell.sh(line).unwrap();
    assert_eq!(ran.code, Some(0), "{line}: {ran:#?}");
}
