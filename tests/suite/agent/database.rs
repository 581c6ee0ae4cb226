//! The agent's database over upgrades, downgrades and failures: every row of SPEC §6's table, and the rules behind it.

use crate::support::*;

const DATABASE: &str = "/var/lib/teleport/proc/sqlite.db";

// The rows of the table.

/// v1 → v2 → v1, each with a row of its own.
fn there_and_back(name: &str) -> Option<Rig> {
    let rig = Rig::living(name, FAST, &Archive::simple("1.0.0"))?;
    rig.note("by one");
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    rig.note("by two");
    let life = rig.invocation();
    rig.go_to("1.0.0");
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    assert!(rig.has_note("by one") && !rig.has_note("by two"), "{:?}", rig.rows());
    assert_ne!(rig.invocation(), life, "a database is restored under a stopped agent");
    rig.note("by one again");
    Some(rig)
}

#[test]
fn a_downgrade_restores_its_snapshot_and_an_upgrade_back_to_exactly_that_version_restores_that_ones() {
    let Some(rig) = there_and_back("exact") else { return };
    let life = rig.invocation();
    rig.go_to("2.0.0");
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("2.0.0", vec!["2".to_owned()]));
    assert!(rig.has_note("by two") && !rig.has_note("by one again"), "{:?}", rig.rows());
    assert_ne!(rig.invocation(), life, "stop and start in either direction");
    // And what was left the second time is kept for another way back.
    assert!(rig.rows_kept("1.0.0").iter().any(|row| row.ends_with("|by one again")));
    rig.assert_tidy();
}

#[test]
fn an_upgrade_past_a_version_that_has_a_snapshot_keeps_the_present_database() {
    let Some(rig) = there_and_back("past") else { return };
    rig.update_to(&Archive::simple("3.0.0").schema(3));
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("3.0.0", vec!["3".to_owned()]));
    assert!(rig.has_note("by one again") && !rig.has_note("by two"), "{:?}", rig.rows());
}

#[test]
fn an_upgrade_to_a_version_whose_snapshot_is_from_a_failed_run_keeps_the_present_database() {
    let Some(rig) = Rig::living("failed-run", FAST, &Archive::simple("1.0.0")) else { return };
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("never-ready"));
    rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    assert!(rig.description("2.0.0").contains("failed: true"));
    rig.note("after the failure");
    // The same version is released again, repaired; without its marker it is unpacked anew, and its backup/ survives.
    rig.release(&Archive::simple("2.0.0").schema(2));
    std::fs::remove_file(rig.path(&format!("{VERSIONS}/2.0.0/sha256"))).unwrap();
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(rig.running(), "2.0.0");
    assert!(rig.has_note("after the failure"), "{:?}", rig.rows());
    assert!(rig.description("2.0.0").contains("failed: true"), "a re-install leaves backup/ alone");
}

#[test]
fn a_version_that_fails_is_undone_with_links_and_database_and_what_it_wrote_is_kept_apart() {
    let Some(rig) = Rig::living("undone", FAST, &Archive::simple("1.0.0").without_helper("tbot")) else { return };
    rig.note("by one");
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("never-ready"));
    rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    assert!(rig.link().ends_with("/1.0.0/bin/teleport"));
    assert!(!rig.path("/usr/local/bin/tbot").exists());
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    assert!(rig.has_note("by one"));
    assert_eq!(sql_of(&rig.snapshot("2.0.0"), "PRAGMA user_version"), ["2"], "what it wrote is kept");
    assert!(rig.description("2.0.0").contains("failed: true"));
    let status = rig.status();
    assert_eq!(status["kept_databases"][0]["version"], "2.0.0");
    assert_eq!(status["kept_databases"][0]["path"], format!("{VERSIONS}/2.0.0/backup"));
    assert_eq!(status["last_result"]["outcome"], "rolled_back");
    assert_eq!(status["last_result"]["error_code"], "unhealthy");
    let text = rig.updater(&["status", "--format", "text"]).ok().stdout;
    assert!(text.contains("the database of 2.0.0 from before its rollback"), "{text}");
    rig.assert_tidy();
}

#[test]
fn what_a_failed_version_wrote_outlives_that_version_by_a_month_and_its_end_is_told() {
    let Some(rig) = Rig::living("month", FAST, &Archive::simple("1.0.0")) else { return };
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    rig.release(&Archive::simple("3.0.0").schema(3).behaviour("never-ready"));
    rig.updater(&["update"]).fails(1, "rolled back to 2.0.0");
    rig.update_to(&Archive::simple("4.0.0").schema(4));
    let version = rig.path(&format!("{VERSIONS}/3.0.0"));
    assert!(!version.join("bin").exists(), "the version itself goes as any other");
    assert_eq!(sql_of(&rig.snapshot("3.0.0"), "PRAGMA user_version"), ["3"]);
    assert_eq!(rig.status()["kept_databases"][0]["path"], format!("{VERSIONS}/3.0.0/backup"));
    let taken = rig
        .description("3.0.0")
        .lines()
        .find_map(|line| line.trim().strip_prefix("creation_time: 20").map(str::to_owned));
    rig.edit(
        &format!("{VERSIONS}/3.0.0/backup/backup.yaml"),
        &format!("20{}", taken.unwrap()),
        "2020-01-01T00:00:00+00:00",
    );
    rig.release(&Archive::simple("5.0.0").schema(5));
    let ran = rig.updater(&["update"]).ok();
    assert!(ran.stderr.contains(&format!("kept for 30 days: {VERSIONS}/3.0.0/backup")), "{ran:#?}");
    assert!(!version.exists() && rig.status()["kept_databases"].as_array().is_none_or(Vec::is_empty), "{ran:#?}");
}

#[test]
fn what_an_image_has_of_the_table() {
    transcript::play("agent/database.txt");
}

// The rules behind the table.

#[test]
fn a_restored_database_has_owner_and_mode_of_the_one_before_and_no_sidecars() {
    let Some(rig) = Rig::living("restored", FAST, &Archive::simple("1.0.0")) else { return };
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    // The agent dies with its log full, and stays down: what the restore leaves can be looked at.
    rig.drop_in("Restart=no\n");
    rig.bed.sh("systemctl disable teleport");
    rig.bed.sh("systemctl kill -s KILL teleport");
    rig.bed.until("! systemctl is-active -q teleport", SOON);
    rig.bed.sh("systemctl reset-failed teleport");
    assert!(rig.path(&format!("{DATABASE}-wal")).metadata().unwrap().len() > 0);
    rig.bed.sh(&format!("chown 1234:2345 {DATABASE} && chmod 640 {DATABASE}"));
    rig.go_to("1.0.0");
    let meta = rig.path(DATABASE).metadata().unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.permissions().mode() & 0o7777), (1234, 2345, 0o640));
    let mut names: Vec<_> = std::fs::read_dir(rig.path("/var/lib/teleport/proc"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["sqlite.db"]);
    // The log's rows are in the snapshot of the version that was left.
    assert!(rig.rows_kept("2.0.0").iter().any(|row| row.contains("|2.0.0|start")));
}

#[test]
fn nothing_is_restored_while_a_process_has_the_database_open() {
    let settings = format!("{FAST}  database_timeout: 1s\n");
    let Some(rig) = Rig::living("open", &settings, &Archive::simple("1.0.0")) else { return };
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    rig.note("by two");
    rig.bed.sh(&format!("systemd-run --quiet --unit=reader -p StandardInput=file:{DATABASE} sleep 1000"));
    rig.wish("1.0.0");
    let process = rig.pid();
    rig.updater(&["update"]).fails(1, "sqlite.db is in use by pid").fails(1, "(sleep, reader.service)");
    assert_eq!(rig.pid(), process, "nobody stops the agent for that");
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("2.0.0", vec!["2".to_owned()]));
    assert!(rig.has_note("by two") && rig.link().ends_with("/2.0.0/bin/teleport"));
    assert_eq!(rig.status()["last_result"]["error_code"], "database_busy");
    rig.assert_tidy();
    rig.bed.sh("systemctl stop reader");
    rig.updater(&["update"]).ok();
    assert_eq!(rig.running(), "1.0.0");
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

#[test]
fn undoing_this_run_asks_its_snapshot_for_nothing_but_the_digest() {
    let Some(rig) = Rig::living("digest", FAST, &Archive::simple("1.0.0")) else { return };
    rig.note("by one");
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("never-ready"));
    rig.updater_in_background("run", "update");
    rig.bed.until(&format!("test -e {VERSIONS}/1.0.0/backup/backup.yaml"), SOON);
    // Meanwhile everything else about it becomes wrong.
    let path = format!("{VERSIONS}/1.0.0/backup/backup.yaml");
    let proxy = rig.cluster.addr();
    rig.edit(&path, &format!("proxy: {proxy}"), "proxy: other.example.com");
    rig.edit(&path, "creation_time: 20", "creation_time: 19");
    rig.edit(&path, "version: 1.0.0", "version: 7.7.7");
    rig.edit(&format!("{VERSIONS}/updates.yaml"), &format!("proxy: {proxy}"), "proxy: third.example.com");
    rig.until_over("run");
    rig.until_ready();
    assert!(rig.link().ends_with("/1.0.0/bin/teleport"));
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    assert!(rig.has_note("by one"));
    rig.assert_tidy();
}

#[test]
fn a_fall_during_the_watch_goes_back_by_the_digest_of_that_run_and_marks_what_is_left_as_failed() {
    let settings = "  watch: 30s\n  health:\n    stable: 1s\n    deadline: 8s\n";
    let Some(rig) = Rig::living("watch-digest", settings, &Archive::simple("1.0.0")) else { return };
    rig.note("by one");
    rig.drop_in("Restart=no\n");
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("ready-then-dies"));
    rig.updater_in_background("run", "update");
    rig.bed.until(&format!("grep -q '^    until:' {VERSIONS}/updates.yaml && test ! -e {VERSIONS}/.journal"), SOON);
    let path = format!("{VERSIONS}/1.0.0/backup/backup.yaml");
    rig.edit(&path, &format!("proxy: {}", rig.cluster.addr()), "proxy: other.example.com");
    rig.edit(&path, "creation_time: 20", "creation_time: 19");
    rig.until_over("run");
    rig.until_ready();
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    assert!(rig.has_note("by one"));
    assert!(rig.description("2.0.0").contains("failed: true"), "{}", rig.description("2.0.0"));
    assert_eq!(rig.status()["kept_databases"][0]["version"], "2.0.0");
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

#[test]
fn a_directory_that_the_running_agent_does_not_have_is_not_taken_as_its_own() {
    let Some(rig) = Rig::living("other-data", FAST, &Archive::simple("1.0.0")) else { return };
    for dir in ["/nonexistent", "/srv"] {
        rig.updater(&["enable", "--data-dir", dir]).fails(1, "uses the data directory /var/lib/teleport");
        let settings = rig.bed.sh("cat /var/lib/teleport/versions/updates.yaml");
        assert!(!settings.contains(&format!("  data_dir: {dir}")), "{settings}");
    }
    rig.updater(&["enable", "--data-dir", "/var/lib/teleport"]).ok();
}
