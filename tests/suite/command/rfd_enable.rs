//! RFD 0169, the sixteen steps of `enable`, as SPEC §5 changes them: a test or more for each, named after it.
//! Steps 7, 9 to 11 and 15, and 12 on a managed host, are those of `update` (`rfd_update.rs`); step 4 is in
//! `download/space.rs`, and packages (3, 13 and 14) are in `packaging/old_packages`.

use crate::support::go::{agent, agent_unit};
use crate::support::*;

/// Longest wait for an event that is on its way.
const SOON: Duration = Duration::from_secs(30);

/// A host with an agent that nobody manages: plain binaries, a foreign link, a unit in `/etc`, a running process.
fn unmanaged(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.bed.write("/usr/local/bin/teleport", agent("0.9.0"), 0o755);
    rig.bed.write("/usr/local/bin/tctl", agent("0.9.0"), 0o750);
    rig.bed.write("/opt/old/tsh", agent("0.9.0"), 0o755);
    symlink("/opt/old/tsh", rig.path("/usr/local/bin/tsh")).unwrap();
    std::os::unix::fs::chown(rig.path("/usr/local/bin/tctl"), Some(1), Some(1)).unwrap();
    rig.bed.write("/etc/systemd/system/teleport.service", agent_unit(""), 0o644);
    rig.start_agent();
    Some(rig)
}

#[test]
fn enable_step_01_asks_find_once_and_installs_outside_of_the_window_too() {
    let image = Image::new("1.0.0");
    image.cluster.set_directive(Find { auto_update: false, jitter: 3600, ..Find::version("1.0.0") });
    image.enable(&["--group", "web servers"]).ok();
    let asked = image.cluster.requests_to("webapi/find");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("GET", "/v1/webapi/find"));
    assert_eq!(asked[0].query, [("group".to_owned(), "web servers".to_owned())]);
    assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary("1.0.0", "teleport"));
}

#[test]
fn enable_step_01_changes_nothing_when_find_gives_no_answer() {
    let image = Image::new("1.0.0");
    image.cluster.misbehave("find", Misbehaviour::Status(403, None));
    let before = image.tree();
    image.enable(&[]).fails(1, "/v1/webapi/find answered 403");
    assert_eq!(image.tree(), before);
}

#[test]
fn enable_step_02_jumps_to_the_end_when_the_latest_is_managed_and_no_package_is_installed() {
    let image = Image::enabled("1.0.0");
    image.run(&["disable"]).ok();
    let inode = |path: &str| std::fs::symlink_metadata(image.path(path)).unwrap().ino();
    let before = (inode("/usr/local/bin/teleport"), inode("/var/lib/teleport/versions/1.0.0/bin/teleport"));
    let tree = image.tree();
    image.cluster.forget_requests();

    image.enable(&[]).ok();

    let requests: Vec<String> = image.cluster.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(requests, ["/v1/webapi/find"]);
    assert_eq!((inode("/usr/local/bin/teleport"), inode("/var/lib/teleport/versions/1.0.0/bin/teleport")), before);
    // The lock file names its last holder.
    let is_new = |line: &String| !tree.contains(line) && !line.contains("/.lock/");
    let changed: Vec<String> = image.tree().into_iter().filter(is_new).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0].starts_with("var/lib/teleport/versions/updates.yaml "), "{changed:?}");
    assert!(image.config().contains("enabled: true"));
}

#[test]
fn enable_step_05_downloads_the_archive_of_the_clusters_version_and_edition_once() {
    for (edition, name) in [
        ("oss", "teleport-v1.0.0-linux-amd64-bin.tar.gz"),
        ("enterprise", "teleport-ent-v1.0.0-linux-amd64-bin.tar.gz"),
        ("enterprise-fips", "teleport-ent-v1.0.0-linux-amd64-fips-bin.tar.gz"),
    ] {
        let image = Image::new("0.1.0");
        image.cluster.publish(&Archive::new("1.0.0", edition, "amd64").agent(
            &testing::cluster::agent_program(),
            "healthy",
            1,
        ));
        image.cluster.set_directive(Find { edition: edition.to_owned(), ..Find::version("1.0.0") });
        image.enable(&[]).ok();
        let gets = image.cluster.requests_to(".tar.gz$");
        let gets: Vec<_> = gets.iter().filter(|request| request.method == "GET").collect();
        assert_eq!(gets.len(), 1, "{gets:?}");
        assert_eq!(gets[0].path, format!("/cdn/{name}"));
        assert_eq!(image.setting("active_edition").as_deref(), Some(edition));
    }
}

#[test]
fn enable_step_06_refuses_an_archive_with_another_checksum_and_leaves_nothing() {
    let image = Image::new("1.0.0");
    image.cluster.misbehave(".sha256$", Misbehaviour::Stale);
    image
        .enable(&["--log-format", "json"])
        .fails(1, "\"error_code\":\"checksum_mismatch\"")
        .says("teleport-v1.0.0-linux-amd64-bin.tar.gz");
    assert_eq!(names(&image.versions()), [".lock", "updates.yaml"]);
    assert!(!image.path("/usr/local/bin/teleport").exists());
    assert!(!image.config().contains("enabled: true"), "{}", image.config());

    image.cluster.behave();
    image.enable(&[]).ok();
    assert!(!image.cluster.requests_to(".sha256$").is_empty());
}

#[test]
fn enable_step_08_replaces_existing_binaries_or_links_with_links_to_the_current_version() {
    let image = Image::new("1.0.0");
    let bin = image.path("/usr/local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("teleport"), "a plain binary").unwrap();
    std::fs::write(bin.join("unrelated"), "stays").unwrap();
    symlink("/opt/old/tsh", bin.join("tsh")).unwrap();
    symlink("dangling", bin.join("tctl")).unwrap();
    let unit = image.path("/usr/local/lib/systemd/system/teleport.service");
    std::fs::create_dir_all(unit.parent().unwrap()).unwrap();
    std::fs::write(&unit, agent_unit("")).unwrap();

    image.enable(&[]).ok();

    for name in ["teleport", "tsh", "tctl", "tbot", "fdpass-teleport"] {
        assert_eq!(link(&bin.join(name)), binary("1.0.0", name));
    }
    assert_eq!(link(&unit), "/var/lib/teleport/versions/1.0.0/etc/systemd/teleport.service");
    assert_eq!(std::fs::read_to_string(bin.join("unrelated")).unwrap(), "stays");
    assert!(!image.versions().join(".unmanaged").exists());
}

#[test]
fn enable_step_08_takes_over_an_unmanaged_agent_without_stopping_it() {
    let Some(rig) = unmanaged("enable-08") else { return };
    let invocation = property(&rig, "InvocationID");
    rig.release(&Archive::simple("1.0.0").schema(2));
    rig.enable(&[]).ok();
    assert_eq!(property(&rig, "InvocationID"), invocation);
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    assert_eq!(rig.sql("SELECT version FROM rows ORDER BY id"), ["0.9.0", "1.0.0"]);
    assert_eq!(link(&rig.path("/usr/local/bin/tsh")), binary("1.0.0", "tsh"));
    assert!(rig.path("/opt/old/tsh").exists(), "what the foreign link led to is not ours");
    assert!(!rig.path("/var/lib/teleport/versions/.unmanaged").exists());
}

#[test]
fn enable_step_08_and_12_keep_what_was_unmanaged_until_the_commit_and_put_it_back_when_the_version_fails() {
    let Some(rig) = unmanaged("enable-12") else { return };
    let bin = rig.path("/usr/local/bin");
    let before = tree(&bin);
    rig.release(&Archive::simple("1.0.0").schema(2).behaviour("corrupts-schema"));
    let unmanaged = rig.path("/var/lib/teleport/versions/.unmanaged");

    std::thread::scope(|scope| {
        let run = scope.spawn(|| rig.enable(&[]));
        until("the agent's link moves", || std::fs::read_link(bin.join("teleport")).is_ok());
        assert_eq!(std::fs::read(unmanaged.join("teleport")).unwrap(), agent("0.9.0"));
        assert_eq!(std::fs::read(unmanaged.join("tctl")).unwrap(), agent("0.9.0"));
        assert_eq!(sql_of(&unmanaged.join("backup/sqlite.db"), "SELECT version FROM rows"), ["0.9.0"]);
        run.join().unwrap().fails(1, "rolled back to the state before this run");
    });

    assert_eq!(tree(&bin), before);
    let tctl = std::fs::metadata(bin.join("tctl")).unwrap();
    assert_eq!((tctl.uid(), tctl.gid()), (1, 1));
    rig.until_ready();
    rig.bed.until("test \"$(systemctl is-active teleport)\" = active", SOON);
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    let versions = rig.sql("SELECT DISTINCT version FROM rows");
    assert_eq!(versions, ["0.9.0"]);
    let status = rig.status();
    assert_eq!((&status["agent_updates_enabled"], &status["agent_version_installed"]), (&json!(false), &json!(null)));
    assert_eq!(status["last_result"]["outcome"], "rolled_back");
    assert!(!unmanaged.exists(), "{:?}", names(&unmanaged));
    assert!(!rig.path("/usr/local/lib/systemd/system/teleport.service").exists());
}

#[test]
fn enable_step_16_writes_the_proxy_and_sets_enabled() {
    let image = Image::enabled("1.0.0");
    let config = image.config();
    assert!(config.starts_with("version: v1\nkind: agent_versions\nspec:\n"), "{config}");
    assert_eq!(look::setting(&config, "proxy"), Some(image.cluster.addr()));
    assert_eq!(look::setting(&config, "enabled").as_deref(), Some("true"));
    assert_eq!(look::setting(&config, "active_version").as_deref(), Some("1.0.0"));
    let mode = std::fs::metadata(image.versions().join("updates.yaml")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o644);
}

#[test]
fn enable_step_16_takes_the_proxy_of_teleport_yaml_when_none_is_given() {
    let image = Image::new("1.0.0");
    let (addr, base) = (image.cluster.addr(), image.cluster.base_url());
    let ca = image.cluster.ca_file().display().to_string();
    let yaml = format!("version: v3\nteleport:\n  proxy_server: {addr}\n");
    std::fs::write(image.path("/etc/teleport.yaml"), &yaml).unwrap();
    image.run(&["enable", "--base-url", &base, "--ca-file", &ca]).ok();
    assert_eq!(image.setting("proxy"), Some(addr));
    assert_eq!(std::fs::read_to_string(image.path("/etc/teleport.yaml")).unwrap(), yaml);
}
