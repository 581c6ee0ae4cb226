//! What careless hands leave behind, and what the next run makes of it.
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]

mod support;

use support::{Image, Rig};
use test_cluster::archive::Archive;

#[test]
fn enable_records_the_version_that_the_links_lead_to_after_the_settings_were_lost() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    std::fs::remove_file(image.versions().join("updates.yaml")).unwrap();
    image.enable(&[]).ok();
    assert_eq!(image.run(&["status", "--format", "json"]).ok().json()["agent_version_installed"], "1.0.0");
    image.run(&["verify"]).ok();
}

#[test]
fn an_old_settings_file_that_was_put_back_moves_nothing_and_is_put_right() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let proc = image.path("/var/lib/teleport/proc");
    std::fs::create_dir_all(&proc).unwrap();
    let database = rusqlite::Connection::open(proc.join("sqlite.db")).unwrap();
    database.execute_batch("PRAGMA user_version = 1; CREATE TABLE rows (note TEXT);").unwrap();
    let old = image.config();
    image.release("2.0.0");
    image.run(&["update"]).ok();
    database.execute_batch("PRAGMA user_version = 2").unwrap();
    database.close().unwrap();
    let whole = image.tree_but_status();
    for command in [&["update"][..], &["verify", "--repair"], &["enable"]] {
        std::fs::write(image.versions().join("updates.yaml"), &old).unwrap();
        let status = image.run(&["status", "--format", "json"]).ok();
        assert_eq!(status.json()["agent_version_installed"], "2.0.0");
        assert!(status.stderr.contains("calls 1.0.0 active, but all links lead to 2.0.0"), "{}", status.stderr);
        image.run(&["verify"]).fails(1, "does not call 2.0.0 (oss) active");
        image.run(command).ok();
        assert_eq!(image.tree_but_status(), whole, "{command:?}");
        image.run(&["verify"]).ok();
    }
    // The way back is the snapshot that 1.0.0 left, not one of 2.0.0's database under its name.
    image.cluster.set_directive(test_cluster::directive::Find::version("1.0.0"));
    image.run(&["update"]).ok();
    assert_eq!(support::sql_of(&proc.join("sqlite.db"), "PRAGMA user_version"), ["1"]);
}

#[test]
fn a_link_directory_that_nobody_may_change_leaves_the_version_in_use_and_no_open_journal() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let links = image.path("/usr/local/bin");
    let chattr = |how: &str| std::process::Command::new("chattr").arg(how).arg(&links).status();
    if !chattr("+i").is_ok_and(|status| status.success()) {
        eprintln!("skipped: this file system has no immutable directories");
        return;
    }
    let before = image.tree_but_status();
    image.release("2.0.0");
    let ran = image.run(&["update"]);
    assert!(chattr("-i").unwrap().success());
    ran.fails(1, "lsattr");
    let is_new = |line: &String| line.contains("versions/2.0.0/");
    let after: Vec<String> = image.tree_but_status().into_iter().filter(|line| !is_new(line)).collect();
    assert_eq!(after, before);
    assert_eq!(image.run(&["status", "--format", "json"]).ok().json()["recovery_pending"], false);
    image.run(&["update"]).ok();
    image.run(&["verify"]).ok();
}

#[test]
fn an_update_to_the_active_version_downloads_a_truncated_binary_again() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let binary = image.versions().join("1.0.0/bin/teleport");
    std::fs::File::options().write(true).open(&binary).unwrap().set_len(0).unwrap();
    image.run(&["update"]).ok();
    image.run(&["verify"]).ok();
}

#[test]
fn an_update_to_the_active_version_makes_a_lost_manifest_anew() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    std::fs::remove_file(image.versions().join("1.0.0/manifest.json")).unwrap();
    image.run(&["update"]).ok();
    image.run(&["verify"]).ok();
}

#[test]
fn links_that_cannot_be_put_right_leave_the_agent_as_it_was_and_are_not_tried_again_at_once() {
    let Some(rig) = Rig::up("right") else { return };
    rig.release(&Archive::simple("1.1.0").schema(1));
    rig.enable(&[]).ok();
    rig.start_agent();
    // Somebody puts a newer agent by hand where the link was; its schema is beyond the managed one's.
    rig.cluster.publish(&Archive::simple("1.2.0").schema(3));
    let newer = Archive::simple("1.2.0").schema(3).bytes();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&newer[..]));
    let mut agent = archive
        .entries()
        .unwrap()
        .map(Result::unwrap)
        .find(|entry| entry.path().unwrap().ends_with("teleport/teleport"))
        .unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut agent, &mut bytes).unwrap();
    rig.bed.sh("rm /usr/local/bin/teleport");
    rig.bed.write("/usr/local/bin/teleport", bytes, 0o755);
    rig.bed.sh("systemctl restart teleport");
    rig.bed.until("test -S /var/lib/teleport/debug.sock", std::time::Duration::from_secs(20));
    rig.bed.until("teleport version | grep -q 1.2.0", std::time::Duration::from_secs(20));

    rig.updater(&["update"]).fails(1, "rolled back");
    assert_eq!(rig.bed.sh("systemctl is-active teleport").trim(), "active");
    assert!(!rig.path("/var/lib/teleport/versions/.journal").exists());
    assert!(rig.bed.sh("teleport version").contains("1.2.0"));
    // The database is the one the newer agent had.
    assert_eq!(rig.sql("PRAGMA user_version"), ["3"]);
    // The timer does not take the agent down every ten minutes.
    let ran = rig.updater(&["update"]).ok();
    assert!(ran.stderr.contains("refused"), "{ran:?}");
}
