//! What careless hands leave behind, and what the next run makes of it.

use crate::support::*;

#[test]
fn what_careless_hands_leave_is_put_right() {
    transcript::play("agent/damage.txt");
}

#[test]
fn a_link_directory_that_nobody_may_change_leaves_the_version_in_use_and_no_open_journal() {
    let image = Image::enabled("1.0.0");
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
    assert_eq!(image.status()["recovery_pending"], false);
    image.run(&["update"]).ok();
    image.run(&["verify"]).ok();
}

#[test]
fn a_newer_agent_where_the_link_was_stays_and_comes_back_where_one_insists_in_vain() {
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

    let invocation = rig.invocation();
    rig.updater(&["update"]).fails(1, "would be a downgrade without a database backup");
    assert_eq!(rig.invocation(), invocation, "it is not even stopped");
    rig.enable(&["--overwrite"]).fails(1, "rolled back");
    rig.bed.until("test \"$(systemctl is-active teleport)\" = active", std::time::Duration::from_secs(20));
    assert!(!rig.path("/var/lib/teleport/versions/.journal").exists());
    assert!(rig.bed.sh("teleport version").contains("1.2.0"));
    // The database is the one the newer agent had.
    assert_eq!(rig.sql("PRAGMA user_version"), ["3"]);
    // The timer does not take the agent down every ten minutes.
    rig.updater(&["update"]).ok().says("is not tried again yet");
}

/// An image of 1.0.0 with a good database, whose cluster names 2.0.0.
fn with_database() -> (Image, std::path::PathBuf) {
    let image = Image::enabled("1.0.0");
    let db = good_database(&image);
    image.release("2.0.0");
    (image, db)
}

fn good_database(image: &Image) -> std::path::PathBuf {
    let db = image.path("/var/lib/teleport/proc/sqlite.db");
    std::fs::create_dir_all(db.parent().unwrap()).unwrap();
    let rows = rusqlite::Connection::open(&db).unwrap();
    rows.execute_batch("CREATE TABLE rows (note TEXT); INSERT INTO rows VALUES (zeroblob(9000)), ('kept')").unwrap();
    db
}

/// Ways in which an agent can spoil its database: what it does, the bytes that are kept of it, if any.
type Spoil = fn(&Path) -> Option<Vec<u8>>;

const SPOILED: [(&str, Spoil); 6] = [
    ("no database at all", |db| {
        std::fs::write(db, vec![0xA5; 16384]).unwrap();
        Some(vec![0xA5; 16384])
    }),
    ("a damaged page", |db| {
        let mut bytes = std::fs::read(db).unwrap();
        bytes[4096..8192].fill(0x5A);
        std::fs::write(db, &bytes).unwrap();
        Some(bytes)
    }),
    ("a directory", |db| {
        std::fs::remove_file(db).unwrap();
        std::fs::create_dir(db).unwrap();
        None
    }),
    ("a FIFO", |db| {
        std::fs::remove_file(db).unwrap();
        make_fifo(db);
        None
    }),
    ("a FIFO for its log", |db| {
        make_fifo(&db.with_extension("db-wal"));
        Some(std::fs::read(db).unwrap())
    }),
    ("a terabyte of nothing", |db| {
        let file = std::fs::File::options().write(true).open(db).unwrap();
        // As a program leaves it that does not count its pages: then the file's size says how many there are.
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xFF; 4], 24).unwrap();
        file.set_len(1 << 40).unwrap();
        None
    }),
];

/// Whether `file` has these bytes, or is not there; SQLite counts its own copies on the first page.
fn is_kept(file: &Path, bytes: Option<&[u8]>) -> bool {
    let found = std::fs::read(file).ok();
    found.as_deref().map(|found| (found.len(), &found[4096..])) == bytes.map(|bytes| (bytes.len(), &bytes[4096..]))
}

fn make_fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
}

#[test]
fn a_spoiled_database_does_not_keep_a_host_on_its_version_and_no_downgrade_uses_it() {
    for (what, spoil) in SPOILED {
        let (image, db) = with_database();
        let kept = spoil(&db);
        let was = std::fs::symlink_metadata(&db).unwrap().ino();
        let ran = image.run(&["update"]);
        assert_eq!(ran.status, 0, "{what}: {ran:#?}");
        assert!(ran.stderr.contains("warning:") && ran.stderr.contains("sqlite.db"), "{what}: {ran:#?}");
        assert_eq!(std::fs::symlink_metadata(&db).unwrap().ino(), was, "{what}: the live one stays");
        let backup = image.versions().join("1.0.0/backup");
        let description = std::fs::read_to_string(backup.join("backup.yaml")).unwrap();
        assert!(description.contains("failed: true"), "{what}: {description}");
        assert!(is_kept(&backup.join("sqlite.db"), kept.as_deref()), "{what}");
        image.run(&["verify"]).ok();
        image.cluster.set_directive(testing::cluster::directive::Find::version("1.0.0"));
        image.run(&["update"]).fails(1, "refusing to downgrade to 1.0.0").fails(1, "damaged");
        image.release("3.0.0");
        let ran = image.run(&["update"]);
        assert_eq!(ran.status, 0, "{what}, on: {ran:#?}");
    }
}

#[test]
fn a_first_enable_over_an_agent_with_a_spoiled_database_goes_on_and_keeps_what_there_was() {
    for (what, spoil) in SPOILED {
        let image = Image::new("1.0.0");
        let db = good_database(&image);
        let kept = spoil(&db);
        let ran = image.enable(&[]);
        assert_eq!(ran.status, 0, "{what}: {ran:#?}");
        let place = image.versions().join("1.0.0/backup-failed/sqlite.db");
        assert!(is_kept(&place, kept.as_deref()), "{what}");
        assert_eq!(kept.is_some(), ran.stderr.contains("backup-failed"), "{what}: {ran:#?}");
        image.run(&["verify"]).ok();
    }
}

#[test]
fn a_database_that_is_locked_for_ever_is_an_error_for_some_hours_and_then_taken_as_it_lies() {
    let (image, db) = with_database();
    let config = image.versions().join("updates.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("spec:\n", "spec:\n  database_timeout: 100ms\n")).unwrap();
    let holder = rusqlite::Connection::open(&db).unwrap();
    holder.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    for _ in 0..4 {
        image.run(&["update", "--now"]).fails(1, "another program has locked the database");
        assert_eq!(image.last_result()["error_code"], "database_busy");
    }
    // Often is not long: nobody waited for it yet.
    let text = std::fs::read_to_string(&config).unwrap();
    let since = text.lines().skip_while(|line| line.trim() != "database_busy:").nth(1).unwrap();
    let earlier = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(7);
    let earlier = earlier.strftime("%Y-%m-%dT%H:%M:%S+00:00");
    std::fs::write(&config, text.replace(since, &format!("    since: {earlier}"))).unwrap();
    image.run(&["update", "--now"]).ok().says("copied without waiting for the lock");
    let backup = image.versions().join("1.0.0/backup");
    assert_eq!(sql_of(&backup.join("sqlite.db"), "SELECT count(*) FROM rows"), ["2"]);
    // Nobody wrote meanwhile, and it is whole: it is as good as any.
    assert!(!std::fs::read_to_string(backup.join("backup.yaml")).unwrap().contains("failed"));
    assert!(!image.config().contains("database_busy"), "{}", image.config());
    drop(holder);
    image.cluster.set_directive(testing::cluster::directive::Find::version("1.0.0"));
    image.run(&["update", "--now"]).ok();
}
