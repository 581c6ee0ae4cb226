//! Other file systems below the versions directory: small ones (SPEC §4, space), and the overlays of containers.

use testing::cluster::Misbehaviour::Chunked;

use crate::support::*;

/// A tmpfs; unmounted with this value.
struct Small(PathBuf);

impl Small {
    /// Of `megabytes` at the image's /var/lib; `None` where this machine lets nobody mount.
    fn mount(image: &Image, megabytes: u32) -> Option<Self> {
        Self::mount_at(image, "/var/lib", megabytes, "")
    }

    /// The same at another directory of the image, with more options.
    fn mount_at(image: &Image, inside: &str, megabytes: u32, more: &str) -> Option<Self> {
        let dir = image.path(inside);
        std::fs::create_dir_all(&dir).unwrap();
        let size = format!("size={megabytes}m,mode=755{more}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "small"]).arg(&dir).output().unwrap();
        if mount.status.success() {
            return Some(Self(dir));
        }
        let why = String::from_utf8_lossy(&mount.stderr).into_owned();
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        eprintln!("skipped: {why}");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An overlay whose lower layer is what lay there, as a container's over its image; unmounted with this value.
struct Overlay {
    over: PathBuf,
    _layers: tempfile::TempDir,
}

impl Overlay {
    /// Over the image's `inside`; `None` where this machine lets nobody mount.
    fn mount(image: &Image, inside: &str) -> Option<Self> {
        // An overlay cannot lie on an overlay.
        let memory = std::path::Path::new("/dev/shm");
        let layers = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let at = |name: &str| layers.path().join(name).display().to_string();
        let over = image.path(inside);
        let copied = Command::new("cp").arg("-a").arg(&over).arg(at("lower")).status().unwrap();
        assert!(copied.success());
        std::fs::create_dir(at("upper")).unwrap();
        std::fs::create_dir(at("work")).unwrap();
        let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
        let mount =
            Command::new("mount").args(["-t", "overlay", "-o", &options, "layers"]).arg(&over).output().unwrap();
        if mount.status.success() {
            return Some(Self { over, _layers: layers });
        }
        let why = String::from_utf8_lossy(&mount.stderr).into_owned();
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        eprintln!("skipped: {why}");
        None
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.over).status();
    }
}

/// A file of the image with more bytes than the file system, which compress to nothing.
fn huge(version: &str) -> Archive {
    let mut script = b"#!/bin/sh\n".to_vec();
    script.resize(160 << 20, b'\n');
    Archive::simple(version).file("huge", 0o755, &script)
}

#[test]
fn a_file_system_that_is_too_small_is_found_before_anything_is_fetched() {
    let image = Image::new("1.0.0");
    let Some(_small) = Small::mount(&image, 32) else { return };
    // Of what is not there no size is assumed.
    image.enable(&["--log-format", "json", "--force-version", "9.9.9"]).refused("archive_missing");
    let ran = image.enable(&["--log-format", "json"]).refused("no_space");
    assert!(ran.stderr.contains("/var/lib/teleport/versions") && ran.stderr.contains("MB"), "{ran:#?}");
    let fetched: Vec<_> =
        image.cluster.requests_to("/cdn/").into_iter().filter(|request| request.method != "HEAD").collect();
    assert!(fetched.is_empty(), "{fetched:#?}");
    let left: Vec<String> = image.tree().into_iter().filter(|line| !line.contains("/ ")).collect();
    let ours = |line: &String| line.contains("versions/.lock/") || line.contains("versions/updates.yaml ");
    assert!(left.iter().all(ours), "{left:#?}");
    assert_eq!(image.last_result()["error_code"], "no_space");
}

#[test]
fn room_that_runs_out_midway_leaves_the_old_version_and_nothing_else() {
    let image = Image::new("1.0.0");
    let Some(_small) = Small::mount(&image, 128) else { return };
    image.enable(&[]).ok();
    let before = image.tree_but_status();
    image.cluster.publish(&huge("2.0.0"));
    image.cluster.set_directive(Find::version("2.0.0"));
    // Without a length nobody can know beforehand.
    image.cluster.misbehave("-bin.tar.gz$", Chunked);
    let ran = image.run(&["--log-format", "json", "update"]).refused("no_space");
    // Not by the last block: what the agent writes meanwhile has its reserve.
    assert!(ran.stderr.contains("bin/huge") && ran.stderr.contains("MB free"), "{ran:#?}");
    assert_eq!(image.last_result()["error_code"], "no_space");
    assert_eq!(image.tree_but_status(), before);
    image.run(&["verify"]).ok();
    // With room again for a version of the usual size, the next run succeeds.
    image.cluster.publish(&Archive::simple("2.0.0"));
    image.run(&["update"]).ok();
    assert!(image.versions().join("2.0.0/sha256").exists());
}

#[test]
fn a_file_system_filled_by_others_leaves_the_old_version() {
    let image = Image::new("1.0.0");
    let Some(small) = Small::mount(&image, 160) else { return };
    image.enable(&[]).ok();
    let filler = small.0.join("filler");
    let fill = Command::new("fallocate").args(["-l", "110M"]).arg(&filler).status().unwrap();
    assert!(fill.success());
    let before = image.tree_but_status();
    image.release("2.0.0");
    image.cluster.forget_requests();
    image.run(&["--log-format", "json", "update"]).refused("no_space");
    assert!(image.cluster.requests_to(".sha256$").is_empty());
    assert_eq!(image.tree_but_status(), before);
    std::fs::remove_file(filler).unwrap();
    image.run(&["update"]).ok();
    assert!(image.versions().join("2.0.0/sha256").exists());
}

/// An image with an agent's database, on a file system of `megabytes`: 1.0.0, left for 2.0.0.
fn moved_on(megabytes: u32) -> Option<(Image, Small)> {
    let image = Image::new("1.0.0");
    let small = Small::mount(&image, megabytes)?;
    let database = image.path("/var/lib/teleport/proc/sqlite.db");
    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(8000000));").unwrap();
    drop(connection);
    image.enable(&[]).ok();
    image.update_to("2.0.0");
    Some((image, small))
}

/// Takes room until `megabytes` are free.
fn fill(small: &Small, megabytes: u64) {
    let found = rustix::fs::statvfs(&small.0).unwrap();
    let room = (found.f_bavail * found.f_frsize).saturating_sub(megabytes << 20);
    let filled =
        Command::new("fallocate").args(["-l", &room.to_string()]).arg(small.0.join("filler")).status().unwrap();
    assert!(filled.success());
}

#[test]
fn a_move_that_downloads_nothing_asks_for_room_before_its_first_step() {
    let Some((image, small)) = moved_on(256) else { return };
    // Both copies fit, but nothing would be left for the agent.
    fill(&small, 40);
    let before = image.tree_but_status();
    let rollback = image.run(&["--log-format", "json", "rollback"]);
    image.cluster.set_directive(Find::version("1.0.0"));
    let downgrade = image.run(&["--log-format", "json", "update"]);
    let pin = image.run(&["--log-format", "json", "pin", "--force-version", "1.0.0"]);
    for ran in [rollback, downgrade, pin] {
        assert_eq!((ran.status, ran.error_code().as_str()), (1, "no_space"), "{ran:#?}");
        assert_eq!(image.tree_but_status(), before);
    }
    // A link that is put right needs no room.
    let link = image.path("/usr/local/bin/tsh");
    std::fs::remove_file(&link).unwrap();
    let ran = image.run(&["verify", "--repair"]).ok();
    assert!(link.is_symlink(), "{ran:#?}");
    std::fs::remove_file(small.0.join("filler")).unwrap();
    image.run(&["rollback"]).ok();
}

#[test]
fn a_file_system_without_inodes_is_found_before_anything_is_fetched() {
    let image = Image::new("1.0.0");
    let Some(_small) = Small::mount_at(&image, "/var/lib", 256, ",nr_inodes=40") else { return };
    let ran = image.enable(&["--log-format", "json"]).refused("no_space");
    assert!(ran.stderr.contains("inodes"), "{ran:#?}");
    assert!(image.cluster.requests_to(".sha256$").is_empty());
}

#[test]
fn a_left_over_that_cannot_be_removed_is_a_warning_and_the_next_staging_takes_another_name() {
    let image = Image::enabled("1.0.0");
    image.update_to("2.0.0");
    // A mount point cannot be removed, whoever tries.
    let held = [".staging-3.0.0", ".retired-1.0.0"].map(|name| format!("/var/lib/teleport/versions/{name}/held"));
    let mut mounts = Vec::new();
    for inside in &held {
        let Some(mount) = Small::mount_at(&image, inside, 1, "") else { return };
        mounts.push(mount);
    }
    image.release("3.0.0");
    image.run(&["update"]).ok().says("warning").says("cannot remove");
    assert!(image.versions().join("3.0.0/sha256").exists());
    assert!(!image.versions().join("1.0.0").exists());
    image.run(&["rollback"]).ok();
    image.run(&["recover"]).ok();
    image.run(&["pin", "--force-version", "3.0.0"]).ok();
    drop(mounts);
    image.run(&["recover"]).ok();
    let left: Vec<_> = std::fs::read_dir(image.versions()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let kinds = [".staging-", ".retired-"];
    assert!(!left.iter().any(|name| kinds.iter().any(|kind| name.to_str().unwrap().starts_with(kind))), "{left:?}");
    image.run(&["uninstall"]).ok();
}

#[test]
fn what_lies_in_an_overlays_lower_layer_is_replaced_and_removed_like_everything_else() {
    let image = Image::enabled("1.0.0");
    image.update_to("2.0.0");
    image.cluster.set_directive(Find::version("1.0.0"));
    image.run(&["update"]).ok();
    // A container of that image: versions and snapshots cannot be renamed there.
    let Some(_overlay) = Overlay::mount(&image, "/var/lib/teleport") else { return };
    let updates = |version: &str| {
        image.release(version);
        let ran = image.run(&["update"]).ok();
        assert!(!ran.stderr.contains("warning"), "{ran:#?}");
        image.run(&["verify"]).ok();
    };
    updates("2.0.0");
    let backup = std::fs::read_to_string(image.versions().join("1.0.0/backup/backup.yaml")).unwrap();
    assert!(backup.contains("version: 1.0.0"), "{backup}");
    updates("3.0.0");
    assert!(!image.versions().join("1.0.0").exists());
    image.run(&["uninstall"]).ok();
    let left: Vec<_> = std::fs::read_dir(image.versions()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}
