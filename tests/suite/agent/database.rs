//! The agent's database over upgrades, downgrades and failures: every row of SPEC §6's table, and the rules behind it.

use crate::support::*;

cases_of! { "agent/database_host.txt":
    a_downgrade_restores_its_snapshot_and_an_upgrade_back_to_exactly_that_version_restores_that_ones;
    an_upgrade_past_a_version_that_has_a_snapshot_keeps_the_present_database;
    an_upgrade_to_a_version_whose_snapshot_is_from_a_failed_run_keeps_the_present_database;
    a_version_that_fails_is_undone_with_links_and_database_and_what_it_wrote_is_kept_apart;
    what_a_failed_version_wrote_outlives_that_version_by_a_month_and_its_end_is_told;
    a_restored_database_has_owner_and_mode_of_the_one_before_and_no_sidecars;
    nothing_is_restored_while_a_process_has_the_database_open;
    undoing_this_run_asks_its_snapshot_for_nothing_but_the_digest;
    a_fall_during_the_watch_goes_back_by_the_digest_of_that_run_and_marks_what_is_left_as_failed;
    a_directory_that_the_running_agent_does_not_have_is_not_taken_as_its_own;
}

const DATABASE: &str = "/var/lib/teleport/proc/sqlite.db";

#[test]
fn what_an_image_has_of_the_table() {
    transcript::play("agent/database.txt");
}

#[test]
fn a_database_held_busy_past_the_deadline_is_an_error_and_the_old_version_is_untouched() {
    let settings = format!("{FAST}  database_timeout: 500ms\n");
    let old = Archive::simple("1.0.0").trailer_field("journal", "delete".into());
    let Some(rig) = Rig::living("busy", &settings, &old) else { return };
    rig.release(&Archive::simple("2.0.0").schema(2));
    let holder = testing::crash::live::rows::open(&rig.path(DATABASE)).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (link, process) = (rig.link(), rig.pid());
    rig.updater(&["update"]).fails(1, "another program has locked the database");
    assert_eq!((rig.link(), rig.pid()), (link, process));
    assert_eq!(rig.status()["last_result"]["error_code"], "database_busy");
    assert!(!rig.snapshot("1.0.0").exists());
    rig.assert_tidy();
    holder.execute_batch("ROLLBACK").unwrap();
    drop(holder);
    rig.updater(&["update"]).ok();
    assert_eq!(rig.running(), "2.0.0");
}

// Rows.

#[test]
fn a_failed_upgrade_gives_back_every_row_from_before_its_snapshot_and_loses_none_after_it() {
    let Some(rig) = Rig::living("rows-failed", FAST, &Archive::simple("1.0.0").writes()) else { return };
    rig.until_written("1.0.0");
    let before = rig.acknowledged();
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("never-ready").writes());
    rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    rig.until_ready();
    rig.bed.sh("systemctl stop teleport");
    let live = rig.rows();
    let kept = rig.rows_kept("2.0.0");
    let snapshot = rig.rows_kept("1.0.0");
    assert!(before.len() > 20 && snapshot.len() >= before.len());
    assert_eq!(live[..snapshot.len()], snapshot[..], "the snapshot is what came back, whole");
    let is_in = |rows: &[String], row: &String| {
        rows.binary_search_by_key(&id(row), |row| id(row)).is_ok_and(|at| rows[at].starts_with(row.as_str()))
    };
    for row in &before {
        assert!(is_in(&live, row), "{row} was committed before the update");
    }
    for row in &rig.acknowledged() {
        assert!(is_in(&live, row) || is_in(&kept, row), "{row} is neither live nor kept");
    }
    assert!(kept.iter().any(|row| row.contains("|2.0.0|")), "the failed version wrote, too");
}

#[test]
fn a_rollback_loses_nothing_and_can_be_reversed_exactly() {
    let Some(rig) = Rig::living("rows-rollback", FAST, &Archive::simple("1.0.0")) else { return };
    rig.update_to(&Archive::simple("2.0.0").schema(2).writes());
    rig.until_written("2.0.0");
    rig.updater(&["rollback"]).ok();
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    let acknowledged = rig.acknowledged();
    let left = rig.rows_kept("2.0.0");
    let pairs: HashSet<&str> = left.iter().filter_map(|row| Some(row.rsplit_once('|')?.0)).collect();
    assert!(acknowledged.len() > 20);
    for row in &acknowledged {
        assert!(pairs.contains(row.as_str()), "{row} is not in the snapshot of the version left");
    }
    assert!(!rig.description("2.0.0").contains("failed: true"));
    assert_eq!(rig.status()["refused"][0]["version"], "2.0.0");
    rig.updater(&["update"]).ok();
    assert_eq!(rig.running(), "1.0.0", "the version left is refused until told otherwise");
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(rig.running(), "2.0.0");
    assert_eq!(rig.rows()[..left.len()], left[..], "the reversal gives exactly that database back");
    assert_eq!(rig.status()["refused"], json!([]));
}

/// A row begins with its number.
fn id(row: &str) -> i64 {
    row.split('|').next().unwrap().parse().unwrap()
}
