//! A data directory that belongs to the agent's own user.

use super::*;

/// The agent's own user.
const AGENT: u32 = 900;

/// A bed whose data directory is the agent's user's, as is all that lies in it; `None` without root.
fn agents_bed(mode: &str) -> Option<(Bed, Connection)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return None;
    }
    let bed = Bed::new();
    std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let proc = bed.db().parent().unwrap().to_owned();
    let agent = bed.agent(mode, 20);
    for path in names(&proc).iter().map(|name| proc.join(name)).chain([proc.clone()]) {
        std::os::unix::fs::chown(path, Some(AGENT), Some(AGENT)).unwrap();
    }
    std::fs::set_permissions(bed.db(), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(&proc, std::fs::Permissions::from_mode(0o700)).unwrap();
    Some((bed, agent))
}

#[test]
fn where_the_data_directory_is_the_agents_users_all_is_done_and_all_stays_his() {
    // What is above his directory need not be open to him: systemd's /var/lib/private, or a directory of another group.
    for (mode, above) in [("WAL", 0o755), ("DELETE", 0o755), ("WAL", 0o700), ("DELETE", 0o700)] {
        let Some((bed, agent)) = agents_bed(mode) else { return };
        std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(above)).unwrap();
        let all_his = |when: &str| {
            for name in names(bed.db().parent().unwrap()) {
                let meta = std::fs::symlink_metadata(bed.db().with_file_name(&name)).unwrap();
                assert_eq!((meta.uid(), meta.gid()), (AGENT, AGENT), "{mode}: {name} {when}");
                // SQLite gives what is beside a database the mode that this had then.
                assert!(name.starts_with("sqlite.db-") || meta.mode() & 0o777 == 0o600, "{mode}: {name} {when}");
            }
        };
        bed.online().unwrap();
        assert_eq!(bed.taken(), up_to(20), "{mode}");
        all_his("after the copy");
        assert_eq!(std::fs::metadata(bed.snapshot().join(DATABASE_FILE)).unwrap().uid(), AGENT);
        add(&agent, 5);
        prepare(&bed.snapshot(), &bed.db(), None).unwrap();
        all_his("prepared");
        let ahead = bed.dir.path().join("left");
        assert!(link_ahead(&bed.db(), &ahead).unwrap(), "{mode}");
        drop(agent);
        let taken = take_stopped(&bed.db(), &ahead, &bed.subject(), false, &PACE).unwrap();
        assert!(taken.lock.is_some() && taken.id == SnapshotId::Linked, "{mode}");
        assert!(restore::swap(&bed.db(), false, &|| Ok(())).unwrap());
        drop(taken);
        assert_eq!(rows_at_rest(&bed.db()), up_to(20), "{mode}");
        all_his("restored");
        // And back: the file itself, then a copy.
        for way in [prepare_by_link, prepare] {
            let back = way(&ahead, &bed.db(), Some(SnapshotId::Linked)).unwrap();
            back.check().unwrap();
            restore::commit(&back, &|| Ok(())).unwrap();
            assert_eq!(rows_at_rest(&bed.db()), up_to(25), "{mode}");
            all_his("put back");
        }
        restore::discard(&bed.db()).unwrap();
        assert_eq!(names(bed.db().parent().unwrap()), ["sqlite.db"], "{mode}");
    }
}

/// What the agent's user can take from itself, as a shell would do it in its directory.
const TAKEN: [&str; 5] = [
    "chmod 000 proc/sqlite.db",
    "chmod 500 proc",
    "chmod 000 proc/sqlite.db proc/sqlite.db-*; chmod 000 proc",
    "chmod 000 .",
    "chmod 111 .; chmod 400 proc",
];

/// The data directory with all that is in it is the agent's user's; snapshots are beside it, root's. The agent is stopped.
fn agents_data() -> Option<(Bed, tempfile::TempDir)> {
    let (mut bed, agent) = agents_bed("WAL")?;
    let roots = std::mem::replace(&mut bed.dir, tempfile::tempdir().unwrap());
    // What is a snapshot's place for the bed is root's; the database is the agent's.
    std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    durable::rename(&roots.path().join("proc"), &bed.dir.path().join("proc")).unwrap();
    std::os::unix::fs::chown(bed.dir.path(), Some(AGENT), Some(AGENT)).unwrap();
    drop(agent);
    Some((bed, roots))
}

fn as_its_user(bed: &Bed, command: &str) {
    use std::os::unix::process::CommandExt;
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-c", command]).current_dir(bed.dir.path()).uid(AGENT).gid(AGENT);
    assert!(shell.output().unwrap().status.success() || command.contains("-*"), "{command}");
}

#[test]
fn what_the_agents_user_takes_from_itself_keeps_it_neither_from_a_copy_nor_from_its_old_database() {
    for command in TAKEN {
        let Some((bed, roots)) = agents_data() else { return };
        let snapshot = roots.path().join("snapshot");
        as_its_user(&bed, command);
        let taken = snapshot_online(&bed.db(), &snapshot, &bed.subject(), false, &PACE).unwrap();
        assert!(taken.damage.is_none() && !taken.backup.failed, "{command}");
        let agent = Connection::open(bed.db()).unwrap();
        add(&agent, 5);
        drop(agent);
        as_its_user(&bed, command);
        let back = prepare(&snapshot, &bed.db(), taken.backup.id()).unwrap();
        as_its_user(&bed, "chmod 500 proc");
        restore::commit(&back, &|| Ok(())).unwrap();
        assert_eq!(rows_at_rest(&bed.db()), up_to(20), "{command}");
        as_its_user(&bed, command);
        let left = roots.path().join("left");
        link_ahead(&bed.db(), &left).unwrap();
        let taken = take_stopped(&bed.db(), &left, &bed.subject(), false, &PACE).unwrap();
        assert_eq!(taken.id, SnapshotId::Linked, "{command}");
        as_its_user(&bed, command);
        prepare(&snapshot, &bed.db(), None).unwrap();
        as_its_user(&bed, command);
        assert!(restore::swap(&bed.db(), false, &|| Ok(())).unwrap(), "{command}");
        restore::discard(&bed.db()).unwrap();
        assert_eq!(names(bed.db().parent().unwrap()), ["sqlite.db"], "{command}");
        let meta = std::fs::metadata(bed.db()).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o700), (AGENT, 0o600), "{command}");
    }
}

#[test]
fn the_way_back_makes_the_directory_anew_that_the_agents_user_has_taken_away() {
    for command in [
        "mv proc away",
        "mv proc away; ln -s away proc",
        "mv proc away; echo x >proc",
        "mv proc away; mkdir -m 0 proc",
        "cd proc; rm sqlite.db*; mkdir -p sqlite.db/x sqlite.db-wal/x sqlite.db-journal/x; chmod 0 sqlite.db",
        "cd proc; rm sqlite.db*; mkfifo sqlite.db; ln -s . sqlite.db-wal",
        "cd proc; rm sqlite.db*; ln -s ../x sqlite.db",
        "cd proc; mkdir -p .sqlite.db.teleport-update-undo/x .sqlite.db.teleport-update/x",
    ] {
        let Some((bed, roots)) = agents_data() else { return };
        let snapshot = roots.path().join("snapshot");
        let taken = snapshot_online(&bed.db(), &snapshot, &bed.subject(), false, &PACE).unwrap();
        as_its_user(&bed, command);
        let back = prepare(&snapshot, &bed.db(), taken.backup.id()).unwrap();
        restore::commit(&back, &|| Ok(())).unwrap();
        assert_eq!(rows_at_rest(&bed.db()), up_to(20), "{command}");
        let proc = std::fs::symlink_metadata(bed.db().parent().unwrap()).unwrap();
        assert!(proc.is_dir() && proc.uid() == AGENT && proc.mode() & 0o700 == 0o700, "{command}: {proc:?}");
        assert_eq!(std::fs::metadata(bed.db()).unwrap().uid(), AGENT, "{command}");
    }
}

#[test]
fn what_the_agents_user_puts_in_the_place_of_its_database_leads_root_nowhere() {
    let secret_is_safe = |bed: &Bed, secret: &Path, before: &[u8], what: &str| {
        let meta = std::fs::metadata(secret).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (0, 0o600), "{what}");
        assert_eq!(std::fs::read(secret).unwrap(), before, "{what}");
        let below = |dir: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
        };
        let kept = [bed.snapshot(), bed.dir.path().join("left")];
        for file in kept.iter().flat_map(|dir| below(dir)) {
            assert!(!file.is_symlink() && std::fs::read(&file).unwrap() != before, "{what}: {}", file.display());
        }
    };
    for what in ["link", "log", "directory", "fifo"] {
        let Some((bed, agent)) = agents_bed("DELETE") else { return };
        bed.online().unwrap();
        drop(agent);
        let good = bed.dir.path().join("good");
        durable::rename(&bed.snapshot(), &good).unwrap();
        // A database of root's, of the same name: another agent's, or a builder's.
        let others = bed.dir.path().join("others");
        durable::create_dir_all(&others).unwrap();
        let secret = others.join("sqlite.db");
        Connection::open(&secret).unwrap().execute_batch("CREATE TABLE secret(x)").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let before = std::fs::read(&secret).unwrap();
        let db = bed.db();
        match what {
            "link" => durable::remove_file(&db).and_then(|()| durable::symlink(&secret, &db)).unwrap(),
            "log" => durable::symlink(&secret, &sqlite::beside(&db, "-journal")).unwrap(),
            "directory" => {
                let proc = db.parent().unwrap();
                durable::remove_tree(proc).unwrap();
                durable::symlink(&others, proc).unwrap();
                std::os::unix::fs::chown(bed.dir.path(), Some(AGENT), Some(AGENT)).unwrap();
            }
            _ => {
                durable::remove_file(&db).unwrap();
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, &db, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            }
        }
        // Whether each succeeds is another question: root must not have been led astray.
        let _ = bed.online().map(|taken| assert!(taken.backup.failed, "{what}"));
        secret_is_safe(&bed, &secret, &before, what);
        let _ = link_ahead(&db, &bed.dir.path().join("left"));
        let _ = take_stopped(&db, &bed.dir.path().join("left"), &bed.subject(), true, &PACE);
        secret_is_safe(&bed, &secret, &before, what);
        for trusted in [None, Some(SnapshotId::Linked)] {
            if let Ok(prepared) = prepare(&good, &db, trusted) {
                let _ = restore::commit(&prepared, &|| Ok(()));
            }
            secret_is_safe(&bed, &secret, &before, what);
        }
        assert_eq!(names(&others), ["sqlite.db"], "{what}");
    }
}

#[test]
fn a_link_is_followed_where_root_alone_can_make_one() {
    let Some((bed, agent)) = agents_bed("DELETE") else { return };
    drop(agent);
    let proc = bed.db().parent().unwrap().to_owned();
    let other = bed.dir.path().join("other.db");
    std::fs::rename(bed.db(), &other).unwrap();
    std::os::unix::fs::symlink(&other, bed.db()).unwrap();
    for is_agents in [true, false] {
        let owner = if is_agents { AGENT } else { 0 };
        std::os::unix::fs::chown(&proc, Some(owner), Some(owner)).unwrap();
        assert_eq!(sqlite::look(&bed.db()).unwrap().is_symlink(), is_agents);
        let path = sqlite::live_path(&bed.db()).unwrap();
        assert_eq!(path, if is_agents { bed.db() } else { other.canonicalize().unwrap() });
    }
    let circle = bed.dir.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    assert_eq!(sqlite::live_path(&circle.join("proc/sqlite.db")).unwrap_err().code, Code::Io);
}

#[test]
fn a_rollback_journal_that_begins_with_a_zero_holds_no_rows_and_a_wal_does() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, size) in [
        ("a.db-journal", &[0, 1, 2][..], 0),
        ("b.db-journal", &[1, 0, 0], 3),
        ("c.db-journal", &[], 0),
        ("d.db-wal", &[0, 1, 2], 3),
        ("e.db-wal", &[], 0),
    ] {
        let file = dir.path().join(name);
        durable::write(&file, bytes, 0o600).unwrap();
        assert_eq!(sqlite::log_size(&file).unwrap(), size, "{name}");
    }
    assert_eq!(sqlite::log_size(&dir.path().join("nowhere-wal")).unwrap(), 0);
    assert!(sqlite::log_size(&dir.path().join("d.db-wal/x-wal")).is_err(), "what cannot be looked at is not empty");
    let in_its_place = dir.path().join("f.db-journal");
    durable::create_dir_all(&in_its_place).unwrap();
    assert!(sqlite::log_size(&in_its_place).is_ok(), "a directory is not read");
}
