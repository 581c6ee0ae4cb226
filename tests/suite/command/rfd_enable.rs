//! RFD 0169, the sixteen steps of `enable`, as SPEC §5 changes them: a test or more for each, named after it.

use crate::support::*;

/// Longest wait for an event that is on its way.
const SOON: Duration = Duration::from_secs(30);

/// The unit of an agent that nobody manages yet, in a package's place.
const PLAIN_UNIT: &str = "[Service]\n\
    ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid\n\
    ExecReload=/bin/kill -HUP $MAINPID\nPIDFile=/run/teleport.pid\nRestart=always\nRestartSec=1\n\
    [Install]\nWantedBy=multi-user.target\n";

/// The toy agent as a plain binary of that version and database schema 1.
fn program(version: &str) -> Vec<u8> {
    let trailer = json!({"version": version, "edition": "oss", "behaviour": "healthy", "schema": 1});
    [&testing::cluster::agent_program()[..], format!("\nTOYAGENT {trailer}\n").as_bytes()].concat()
}

/// The value behind `key: ` in a YAML file of ours, at whatever depth.
fn value(yaml: &str, key: &str) -> Option<String> {
    yaml.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{key}: "))).map(str::to_owned)
}

/// A host with an agent that nobody manages: plain binaries, a foreign link, a unit in `/etc`, a running process.
fn unmanaged(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.bed.write("/usr/local/bin/teleport", program("0.9.0"), 0o755);
    rig.bed.write("/usr/local/bin/tctl", program("0.9.0"), 0o750);
    rig.bed.write("/opt/old/tsh", program("0.9.0"), 0o755);
    symlink("/opt/old/tsh", rig.path("/usr/local/bin/tsh")).unwrap();
    std::os::unix::fs::chown(rig.path("/usr/local/bin/tctl"), Some(1), Some(1)).unwrap();
    rig.bed.write("/etc/systemd/system/teleport.service", PLAIN_UNIT, 0o644);
    rig.start_agent();
    Some(rig)
}

/// Builds and installs a package in the bed. `control` are further lines of its control file.
fn install_package(rig: &Rig, name: &str, control: &str, files: &[(&str, Vec<u8>)], postrm: &str) {
    let top = format!("/var/build/{name}");
    let control = format!(
        "Package: {name}\nVersion: 0.9.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\n\
         Description: a toy\n{control}"
    );
    rig.bed.write(format!("{top}/DEBIAN/control"), control, 0o644);
    for (path, content) in files {
        let mode = if path.contains("/bin/") { 0o755 } else { 0o644 };
        rig.bed.write(format!("{top}{path}"), content, mode);
        if path.starts_with("/etc/") {
            rig.bed.write(format!("{top}/DEBIAN/conffiles"), format!("{path}\n"), 0o644);
        }
    }
    if !postrm.is_empty() {
        rig.bed.write(format!("{top}/DEBIAN/postrm"), postrm, 0o755);
    }
    rig.bed.sh(&format!(
        "dpkg-deb --root-owner-group --build {top} {top}.deb && \
         dpkg --force-confold --force-overwrite --install {top}.deb && rm -r {top}"
    ));
}

fn is_installed(rig: &Rig, name: &str) -> bool {
    let query = format!("dpkg-query -W -f '${{db:Status-Status}}' {name} 2>/dev/null || true");
    !matches!(rig.bed.sh(&query).trim(), "" | "not-installed")
}

#[test]
fn enable_step_01_asks_find_once_and_installs_outside_of_the_window_too() {
    let image = Image::new("1.0.0");
    image.cluster.set_directive(Find { auto_update: false, jitter: 3600, ..Find::version("1.0.0") });
    image.enable(&["--group", "canary"]).ok();
    let asked = image.cluster.requests_to("webapi/find");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("GET", "/v1/webapi/find"));
    assert_eq!(asked[0].query, [("group".to_owned(), "canary".to_owned())]);
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
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
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
fn enable_step_03_jumps_to_the_package_when_the_latest_is_managed_and_one_is_still_installed() {
    let Some(rig) = Rig::up("enable-03") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    install_package(&rig, "teleport", "", &[("/opt/old/bin/teleport", program("0.9.0"))], "");
    assert!(is_installed(&rig, "teleport"));
    rig.cluster.forget_requests();

    rig.enable(&[]).ok();

    assert!(!is_installed(&rig, "teleport"));
    assert!(!rig.path("/opt/old/bin/teleport").exists());
    assert!(rig.cluster.requests_to("/cdn/").is_empty());
    assert_eq!(link(&rig.path("/usr/local/bin/teleport")), binary("1.0.0", "teleport"));
}

#[test]
fn enable_step_04_refuses_before_the_first_byte_when_the_disk_is_too_small() {
    let Some(rig) = Rig::up("enable-04") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.bed.sh("mount -t tmpfs -o size=40m small /var/lib/teleport/versions");
    let ran = rig.enable(&["--log-format", "json"]).fails(1, "MB free");
    assert!(ran.stderr.contains("\"error_code\":\"no_space\"") && ran.stderr.contains("/var/lib/teleport/versions"));
    let gets = |request: &testing::cluster::Request| request.method == "GET";
    assert!(!rig.cluster.requests_to("/cdn/").iter().any(gets), "something was downloaded");
    assert_eq!(rig.bed.sh("ls -A /var/lib/teleport/versions"), ".lock\nupdates.yaml\n");
    assert!(names(&rig.path("/usr/local/bin")).is_empty());
    let status = rig.status();
    assert_eq!(status["last_result"]["error_code"], "no_space");
    assert_eq!(status["agent_updates_enabled"], false);
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
        assert_eq!(value(&image.config(), "active_edition").as_deref(), Some(edition));
    }
}

#[test]
fn enable_step_06_refuses_an_archive_with_another_checksum_and_leaves_nothing() {
    let image = Image::new("1.0.0");
    image.cluster.misbehave(".sha256$", Misbehaviour::Stale);
    let ran = image.enable(&["--log-format", "json"]).fails(1, "\"error_code\":\"checksum_mismatch\"");
    assert!(ran.stderr.contains("teleport-v1.0.0-linux-amd64-bin.tar.gz"), "{ran:?}");
    assert_eq!(names(&image.versions()), [".lock", "updates.yaml"]);
    assert!(!image.path("/usr/local/bin/teleport").exists());
    assert!(!image.config().contains("enabled: true"), "{}", image.config());

    image.cluster.behave();
    image.enable(&[]).ok();
    assert!(!image.cluster.requests_to(".sha256$").is_empty());
}

#[test]
fn enable_step_07_extracts_to_the_versions_directory_and_writes_the_checksum() {
    let image = Image::new("1.0.0");
    let written = image.cluster.publish(&Archive::simple("1.0.0"));
    image.enable(&[]).ok();
    let version = image.versions().join("1.0.0");
    assert_eq!(std::fs::read_to_string(version.join("sha256")).unwrap().trim_end(), written.sha256);
    assert_eq!(names(&version.join("bin")), ["fdpass-teleport", "tbot", "tctl", "teleport", "tsh"]);
    assert_eq!(names(&version.join("etc/systemd")), ["teleport.service"]);
    assert_eq!(std::fs::read(version.join("bin/teleport")).unwrap(), program("1.0.0"));
    assert_eq!(std::fs::metadata(version.join("bin/teleport")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(names(&image.versions()), [".lock", "1.0.0", "updates.yaml"]);
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
    std::fs::write(&unit, PLAIN_UNIT).unwrap();

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
        assert_eq!(std::fs::read(unmanaged.join("teleport")).unwrap(), program("0.9.0"));
        assert_eq!(std::fs::read(unmanaged.join("tctl")).unwrap(), program("0.9.0"));
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
fn enable_step_09_backs_up_the_database_of_the_version_that_is_left() {
    let Some(rig) = Rig::up("enable-09") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.enable(&[]).ok();
    let backup = rig.path("/var/lib/teleport/versions/1.0.0/backup");
    assert_eq!(sql_of(&backup.join("sqlite.db"), "PRAGMA user_version"), ["1"]);
    assert_eq!(sql_of(&backup.join("sqlite.db"), "SELECT version FROM rows"), ["1.0.0"]);
    let yaml = std::fs::read_to_string(backup.join("backup.yaml")).unwrap();
    assert!(yaml.starts_with("version: v1\nkind: db_backup\nspec:\n"), "{yaml}");
    assert_eq!(value(&yaml, "proxy"), Some(rig.cluster.addr()));
    assert!(yaml.contains("\n  version: 1.0.0\n"), "{yaml}");
}

#[test]
fn enable_step_10_reloads_a_running_agent_whatever_its_enablement_and_leaves_a_stopped_one_alone() {
    let Some(rig) = Rig::up("enable-10") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.bed.sh("systemctl start teleport");
    rig.until_ready();
    let invocation = property(&rig, "InvocationID");
    rig.release(&Archive::simple("2.0.0"));
    rig.enable(&[]).ok();
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    assert_eq!(property(&rig, "InvocationID"), invocation, "it was restarted, not reloaded");

    rig.bed.sh("systemctl enable teleport; systemctl stop teleport");
    rig.release(&Archive::simple("3.0.0"));
    rig.enable(&[]).ok();
    assert_eq!(property(&rig, "ActiveState"), "inactive");
    assert_eq!(rig.status()["agent_version_installed"], "3.0.0");
}

#[test]
fn enable_step_11_sets_active_version_when_the_agent_is_not_running_and_only_after_success_when_it_is() {
    let Some(rig) = Rig::up("enable-11") else { return };
    let config = || std::fs::read_to_string(rig.path("/var/lib/teleport/versions/updates.yaml")).unwrap();
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    assert_eq!(value(&config(), "active_version").as_deref(), Some("1.0.0"));
    rig.start_agent();
    rig.release(&Archive::simple("2.0.0").behaviour("slow-start"));
    let teleport = rig.path("/usr/local/bin/teleport");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| rig.enable(&[]));
        until("the agent's link moves", || link(&teleport) == binary("2.0.0", "teleport"));
        // The new version becomes ready three seconds from here.
        assert_eq!(value(&config(), "active_version").as_deref(), Some("1.0.0"));
        run.join().unwrap().ok();
    });
    assert_eq!(value(&config(), "active_version").as_deref(), Some("2.0.0"));
}

#[test]
fn enable_step_12_replaces_links_and_database_and_exits_1_when_the_new_version_fails() {
    let Some(rig) = Rig::up("enable-12b") else { return };
    rig.release(&Archive::simple("1.0.0").without_helper("tbot"));
    rig.enable(&[]).ok();
    rig.start_agent();
    let links = tree(&rig.path("/usr/local"));
    let version = tree(&rig.path("/var/lib/teleport/versions/1.0.0/bin"));
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("corrupts-file"));
    rig.enable(&[]).fails(1, "rolled back to 1.0.0");
    assert_eq!(tree(&rig.path("/usr/local")), links);
    assert_eq!(tree(&rig.path("/var/lib/teleport/versions/1.0.0/bin")), version);
    rig.until_ready();
    rig.bed.until("test \"$(systemctl is-active teleport)\" = active", SOON);
    assert_eq!(rig.sql("PRAGMA integrity_check"), ["ok"]);
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    let status = rig.status();
    assert_eq!(status["agent_version_running"], "1.0.0");
    assert_eq!((&status["refused"][0]["version"], &status["recovery_pending"]), (&json!("2.0.0"), &json!(false)));
}

#[test]
fn enable_step_13_purges_the_package_and_keeps_configuration_and_data_byte_for_byte() {
    let Some(rig) = Rig::up("enable-13") else { return };
    let yaml = "# mine\nteleport:\n  data_dir: /var/lib/teleport\n";
    rig.bed.write("/etc/teleport.yaml", yaml, 0o640);
    rig.bed.write("/var/lib/teleport/host_uuid", "11111111-2222-4333-8444-555555555555", 0o600);
    rig.bed.write("/var/lib/teleport/proc/other", "data", 0o600);
    let files = [
        ("/usr/local/bin/teleport", program("0.9.0")),
        ("/usr/local/bin/tsh", program("0.9.0")),
        ("/etc/teleport.yaml", b"# the package's\n".to_vec()),
    ];
    let postrm = "#!/bin/sh\nif [ \"$1\" = purge ]; then rm -rf /var/lib/teleport /etc/teleport.yaml; fi\n";
    install_package(&rig, "teleport-ent", "", &files, postrm);
    let before = std::fs::metadata(rig.path("/etc/teleport.yaml")).unwrap();
    rig.release(&Archive::simple("1.0.0"));

    rig.enable(&[]).ok();

    let check = || {
        assert_eq!(std::fs::read_to_string(rig.path("/etc/teleport.yaml")).unwrap(), yaml);
        let after = std::fs::metadata(rig.path("/etc/teleport.yaml")).unwrap();
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        let uuid = std::fs::read_to_string(rig.path("/var/lib/teleport/host_uuid")).unwrap();
        assert_eq!(uuid, "11111111-2222-4333-8444-555555555555");
        assert_eq!(std::fs::read_to_string(rig.path("/var/lib/teleport/proc/other")).unwrap(), "data");
    };
    check();
    assert!(!is_installed(&rig, "teleport-ent"));
    // What the RFD warns of: an operator's purge at a later date.
    rig.bed.sh("dpkg --purge teleport-ent");
    check();
    assert_eq!(link(&rig.path("/usr/local/bin/teleport")), binary("1.0.0", "teleport"));
}

#[test]
fn enable_step_13_that_fails_leaves_the_new_version_and_the_next_enable_resumes_there() {
    let Some(rig) = Rig::up("enable-13b") else { return };
    let unit = "/usr/local/lib/systemd/system/teleport.service";
    let files = [("/usr/local/bin/teleport", program("0.9.0")), (unit, PLAIN_UNIT.as_bytes().to_vec())];
    install_package(&rig, "teleport", "", &files, "");
    install_package(&rig, "site-tools", "Depends: teleport\n", &[("/opt/site/tool", b"x".to_vec())], "");
    rig.release(&Archive::simple("1.0.0"));

    let ran = rig.enable(&["--log-format", "json"]).fails(1, "\"error_code\":\"package_failed\"");

    assert!(ran.stderr.contains("site-tools"), "{ran:#?}");
    assert!(is_installed(&rig, "teleport") && is_installed(&rig, "site-tools"), "another package was removed");
    let status = rig.status();
    assert_eq!((&status["agent_version_installed"], &status["agent_updates_enabled"]), (&json!("1.0.0"), &json!(true)));
    assert_eq!(status["last_result"]["error_code"], "package_failed");
    assert_eq!(link(&rig.path("/usr/local/bin/teleport")), binary("1.0.0", "teleport"));

    rig.bed.sh("dpkg --purge site-tools");
    rig.cluster.forget_requests();
    rig.enable(&[]).ok();
    assert!(!is_installed(&rig, "teleport"));
    assert!(rig.cluster.requests_to("/cdn/").is_empty());
    // The package owned these names, and took our links with it.
    assert_eq!(link(&rig.path("/usr/local/bin/teleport")), binary("1.0.0", "teleport"));
    assert_eq!(link(&rig.path(unit)), "/var/lib/teleport/versions/1.0.0/etc/systemd/teleport.service");
}

#[test]
fn enable_step_14_makes_links_and_unit_again_that_the_package_took_with_it() {
    let Some(rig) = Rig::up("enable-14") else { return };
    let unit = "/usr/local/lib/systemd/system/teleport.service";
    let files = [
        ("/usr/local/bin/teleport", program("0.9.0")),
        ("/usr/local/bin/tsh", program("0.9.0")),
        (unit, PLAIN_UNIT.as_bytes().to_vec()),
    ];
    install_package(&rig, "teleport", "", &files, "");
    rig.start_agent();
    rig.release(&Archive::simple("1.0.0"));

    rig.enable(&[]).ok();

    assert!(!is_installed(&rig, "teleport"));
    for name in ["teleport", "tsh", "tctl", "tbot"] {
        assert_eq!(link(&rig.path("/usr/local/bin").join(name)), binary("1.0.0", name));
    }
    assert_eq!(link(&rig.path(unit)), "/var/lib/teleport/versions/1.0.0/etc/systemd/teleport.service");
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    assert_eq!(property(&rig, "UnitFileState"), "enabled");
    // After a boot systemd finds the unit by the links alone.
    rig.bed.reboot();
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
}

#[test]
fn enable_step_15_removes_every_version_but_the_current_and_the_last_working_one() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    for version in ["2.0.0", "3.0.0"] {
        image.release(version);
        image.enable(&[]).ok();
    }
    assert_eq!(names(&image.versions()), [".lock", "2.0.0", "3.0.0", "updates.yaml"]);
    image.release("4.0.0");
    image.enable(&["--keep", "3"]).ok();
    assert_eq!(names(&image.versions()), [".lock", "2.0.0", "3.0.0", "4.0.0", "updates.yaml"]);
}

#[test]
fn enable_step_16_writes_the_proxy_and_sets_enabled() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let config = image.config();
    assert!(config.starts_with("version: v1\nkind: agent_versions\nspec:\n"), "{config}");
    assert_eq!(value(&config, "proxy"), Some(image.cluster.addr()));
    assert_eq!(value(&config, "enabled").as_deref(), Some("true"));
    assert_eq!(value(&config, "active_version").as_deref(), Some("1.0.0"));
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
    assert_eq!(value(&image.config(), "proxy"), Some(addr));
    assert_eq!(std::fs::read_to_string(image.path("/etc/teleport.yaml")).unwrap(), yaml);
}
