//! The commands beside `enable` and `update`: `pin`, `unpin`, `disable`, `plan`, `verify`, `rollback`; exit statuses.

use std::fs::{File, Permissions};

use crate::support::*;

fn agent(image: &Image) -> String {
    link(&image.path("/usr/local/bin/teleport"))
}

// --- pin, unpin, disable ---

#[test]
fn pin_stays_on_the_present_version_until_unpin() {
    let image = Image::quiet("1.0.0");
    image.run(&["pin"]).ok();
    image.release("2.0.0");
    let before = image.tree();
    image.run(&["update"]).ok();
    image.run(&["update", "--now"]).ok();
    assert_eq!(image.tree(), before);
    assert!(image.cluster.requests().is_empty(), "{:?}", image.cluster.requests());
    let status = image.status();
    assert_eq!((&status["pinned"], &status["agent_updates_enabled"]), (&json!(true), &json!(true)));

    image.run(&["unpin"]).ok();
    image.run(&["update"]).ok();
    assert_eq!(agent(&image), binary("2.0.0", "teleport"));
}

#[test]
fn pin_installs_the_version_it_is_given_now() {
    let image = Image::quiet("1.0.0");
    image.cluster.publish(&Archive::simple("1.5.0"));
    image.run(&["pin", "--force-version", "v1.5.0"]).ok();
    assert_eq!(agent(&image), binary("1.5.0", "teleport"));
    image.update_to("2.0.0");
    // An `enable` in between changes settings, not the pin.
    image.enable(&["--group", "canary"]).ok();
    assert_eq!(agent(&image), binary("1.5.0", "teleport"));
    assert!(!image.config().contains("v1.5.0"));
}

#[test]
fn pin_to_a_version_that_is_none_or_not_there_changes_nothing() {
    let image = Image::quiet("1.0.0");
    let before = image.installation();
    for (version, status, code) in [("../../etc", 2, "usage"), ("1.5", 2, "usage"), ("1.5.0", 1, "archive_missing")] {
        image
            .run(&["pin", "--force-version", version, "--log-format", "json"])
            .fails(status, code)
            .says(&format!("\"error_code\":\"{code}\""));
        assert_eq!(image.installation(), before);
    }
    assert!(!image.config().contains("pinned: true"));
}

#[test]
fn disable_sets_enabled_to_false_and_nothing_else() {
    let image = Image::quiet("1.0.0");
    let (before, tree) = (image.config(), image.installation());
    image.run(&["disable"]).ok();
    assert_eq!(image.config(), before.replace("enabled: true", "enabled: false"));
    assert_eq!(image.installation(), tree);
    assert!(image.cluster.requests().is_empty());
}

// --- plan ---

fn does(plan: &Value) -> Vec<String> {
    let phases = ["prepare", "switch", "after"].map(|phase| plan[phase].as_array().unwrap().clone());
    let steps = phases.concat();
    steps.iter().map(|step| step["does"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn plan_shows_every_step_as_text_and_as_json_and_changes_nothing() {
    let image = Image::quiet("1.0.0");
    image.update_to("2.0.0");
    image.release("3.0.0");
    let before = image.tree();
    let text = image.run(&["plan"]).ok().stdout;
    let json = image.run(&["plan", "--format", "json"]).ok().json();
    assert_eq!(image.tree(), before);

    assert_eq!((&json["action"], &json["direction"]), (&json!("update"), &json!("upgrade")));
    assert_eq!((&json["from"]["version"], &json["to"]["version"]), (&json!("2.0.0"), &json!("3.0.0")));
    assert_eq!((&json["database"], &json["service"]), (&json!("keep"), &json!("none")));
    let written = image.cluster.publish(&Archive::simple("3.0.0"));
    assert_eq!(json["download_bytes"], written.size);
    let steps = does(&json);
    let agent = format!("link {} -> {}", image.path("/usr/local/bin/teleport").display(), binary("3.0.0", "teleport"));
    let retire = "remove 1.0.0".to_owned();
    for step in [&agent, &retire] {
        assert!(steps.contains(step), "{step:?} is not in {steps:#?}");
    }
    for step in &steps {
        assert!(text.contains(step), "{step:?} is not in {text}");
    }
    assert!(text.starts_with("2.0.0 (oss) -> 3.0.0 (oss)\n"), "{text}");
    assert!(text.contains("undo: "), "{text}");
}

#[test]
fn plan_says_why_there_is_nothing_to_do() {
    let image = Image::quiet("1.0.0");
    image.run(&["plan", "--format", "json"]).ok();
    let reason = || {
        let before = image.tree();
        let json = image.run(&["plan", "--format", "json"]).ok().json();
        assert_eq!(image.tree(), before);
        assert_eq!(json["action"], "none");
        json["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(reason(), "");
    image.release("2.0.0");
    image.cluster.set_directive(Find { auto_update: false, ..Find::version("2.0.0") });
    assert!(reason().contains("window"));
    let now = image.run(&["plan", "--now", "--format", "json"]).ok().json();
    assert_eq!(now["action"], "update");
    image.run(&["pin"]).ok();
    assert!(reason().contains("pinned"));
    image.run(&["disable"]).ok();
    assert!(reason().contains("disabled"));
}

#[test]
fn plan_is_what_update_then_executes() {
    let Some(rig) = Rig::on_one("plan") else { return };
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    let up = "\
downloading 3.0.0 (oss) from https://[..]
downloaded, checked and unpacked 3.0.0 (oss): [..] MB in [..] s
backed up the database to 2.0.0/backup
linked 3.0.0 (oss): [..] links and units
reloaded the agent
3.0.0 (oss) is healthy ([..] s)
removed 1.0.0
watching 3.0.0 (oss) for another [..] s";
    let down = "\
checked every file of 2.0.0
changed [..] links and units
stopped the agent for [..] s: restored the database from 2.0.0/backup, linked 2.0.0 (oss)
2.0.0 (oss) is healthy ([..] s)
backed up the database to 3.0.0/backup
watching 2.0.0 (oss) for another [..] s";
    for (version, schema, phases) in [("3.0.0", 3, up), ("2.0.0", 2, down)] {
        // Up, with a version to retire; then down, with a database to restore.
        rig.release(&Archive::simple(version).schema(schema));
        let planned: Vec<String> = does(&rig.updater(&["plan", "--format", "json"]).ok().json());
        let ran = rig.updater(&["update", "--debug", "--log-format", "json"]).ok();
        let said: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let said = |level: &str| {
            let lines = said.iter().filter(move |line| line["level"] == level);
            lines.map(|line| line["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let debug = said("debug");
        let steps: Vec<_> = debug.iter().filter_map(|line| line.strip_prefix("done: ")).collect();
        assert_eq!(steps, planned);
        snapbox::assert_data_eq!(said("info").join("\n"), phases);
        assert_eq!(rig.status()["agent_version_running"], version);
    }
}

// --- verify ---

/// An image at 2.0.0 whose 1.0.0 has a snapshot.
fn with_snapshot() -> Image {
    let image = Image::enabled("1.0.0");
    let proc = image.path("/var/lib/teleport/proc");
    std::fs::create_dir_all(&proc).unwrap();
    let database = rusqlite::Connection::open(proc.join("sqlite.db")).unwrap();
    database.execute_batch("CREATE TABLE rows (note TEXT); INSERT INTO rows VALUES ('mine');").unwrap();
    database.close().unwrap();
    image.update_to("2.0.0");
    image.run(&["verify"]).ok();
    image
}

/// What must be the same after a repair: everything but the time in the manifest of a version that was fetched again.
fn repaired(image: &Image) -> Vec<String> {
    image.installation().into_iter().filter(|line| !line.contains("/manifest.json ")).collect()
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

type Damage = (&'static str, fn(&Image), &'static str);

const OF_FILES: [Damage; 8] = [
    ("flipped byte", |image| flip(&image.versions().join("2.0.0/bin/tsh")), "bin/tsh has different content"),
    (
        "truncated file",
        |image| {
            let file = File::options().write(true).open(image.versions().join("2.0.0/bin/tctl")).unwrap();
            file.set_len(1000).unwrap();
        },
        "bin/tctl has 1000 bytes",
    ),
    (
        "missing file",
        |image| std::fs::remove_file(image.versions().join("2.0.0/bin/tbot")).unwrap(),
        "bin/tbot is missing",
    ),
    (
        "wrong mode",
        |image| {
            let path = image.versions().join("2.0.0/bin/tsh");
            std::fs::set_permissions(path, Permissions::from_mode(0o4755)).unwrap();
        },
        "bin/tsh has mode 4755, expected 0755",
    ),
    (
        "extra file",
        |image| std::fs::write(image.versions().join("2.0.0/bin/extra"), "x").unwrap(),
        "bin/extra is not part of this version",
    ),
    (
        "link in a file's place",
        |image| {
            let path = image.versions().join("2.0.0/bin/tctl");
            std::fs::remove_file(&path).unwrap();
            symlink("tsh", path).unwrap();
        },
        "bin/tctl is not a regular file",
    ),
    (
        "missing marker",
        |image| std::fs::remove_file(image.versions().join("2.0.0/sha256")).unwrap(),
        "the file sha256 is missing",
    ),
    (
        "damaged manifest",
        |image| std::fs::write(image.versions().join("2.0.0/manifest.json"), "{\"format\": 1, \"fi").unwrap(),
        "manifest.json cannot be read",
    ),
];

/// The agent's own link comes last: its repair saves the database once more.
const OF_LINKS: [Damage; 4] = [
    (
        "wrong link",
        |image| {
            let path = image.path("/usr/local/bin/tsh");
            std::fs::remove_file(&path).unwrap();
            symlink("/opt/elsewhere/tsh", path).unwrap();
        },
        "usr/local/bin/tsh leads to /opt/elsewhere/tsh, expected a link to /var/lib/teleport/versions/2.0.0/bin/tsh",
    ),
    (
        "missing link",
        |image| std::fs::remove_file(image.path("/usr/local/bin/tctl")).unwrap(),
        "usr/local/bin/tctl is missing",
    ),
    (
        "missing unit",
        |image| std::fs::remove_file(image.path("/usr/local/lib/systemd/system/teleport.service")).unwrap(),
        "system/teleport.service is missing",
    ),
    (
        "wrong agent",
        |image| {
            let path = image.path("/usr/local/bin/teleport");
            std::fs::remove_file(&path).unwrap();
            symlink("/var/lib/teleport/versions/1.0.0/bin/teleport", path).unwrap();
        },
        "usr/local/bin/teleport leads to /var/lib/teleport/versions/1.0.0/bin/teleport, expected a link to",
    ),
];

tests_of! { each_is_named_and_repaired:
    verify_names_every_damage_to_files_and_changes_nothing_and_repair_puts_it_right(&OF_FILES);
    verify_names_every_damage_to_links_and_changes_nothing_and_repair_puts_it_right(&OF_LINKS);
}

fn each_is_named_and_repaired(damages: &[Damage]) {
    let image = with_snapshot();
    let good = repaired(&image);
    for (kind, damage, told) in damages {
        damage(&image);
        let damaged = image.tree();
        let ran = image.run(&["verify", "--log-format", "json"]);
        assert_eq!(ran.status, 1, "{kind}: {ran:#?}");
        for text in [told, "\"error_code\":\"damaged\"", "verify --repair"] {
            assert!(ran.stderr.contains(text), "{kind}: {text:?} is not in {ran:#?}");
        }
        assert_eq!(image.tree(), damaged, "{kind}: verify changed something");

        let ran = image.run(&["verify", "--repair"]);
        assert_eq!(ran.status, 0, "{kind}: {ran:#?}");
        let is_kept = |line: &String| *kind != "wrong agent" || !line.contains("/2.0.0/backup");
        let now: Vec<String> = repaired(&image).into_iter().filter(is_kept).collect();
        assert_eq!(now, good, "{kind}");
    }
    image.run(&["verify"]).ok();
}

#[test]
fn verify_repair_leaves_a_running_agent_alone() {
    let Some(rig) = Rig::on_one("repair") else { return };
    let pid = rig.bed.sh("systemctl show -P MainPID teleport");
    let path = rig.path(&binary("1.0.0", "teleport"));
    let (other, bytes) = (path.with_extension("other"), std::fs::read(&path).unwrap());
    std::fs::copy(&path, &other).unwrap();
    flip(&other);
    std::fs::rename(&other, &path).unwrap();

    rig.updater(&["verify", "--repair"]).ok();

    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(rig.bed.sh("systemctl show -P MainPID teleport"), pid);
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    rig.update_to(&Archive::simple("2.0.0"));
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
}

#[test]
fn verify_repair_that_cannot_download_leaves_everything_as_it_was() {
    let mut image = with_snapshot();
    flip(&image.versions().join("2.0.0/bin/tsh"));
    let before = image.installation();
    image.cluster.go_down();
    image.run(&["verify", "--repair", "--log-format", "json"]).fails(1, "\"error_code\":\"network\"");
    assert_eq!(image.installation(), before);
    image.cluster.come_up();
    image.run(&["verify", "--repair"]).ok();
}

#[test]
fn verify_tells_of_a_damaged_snapshot_which_no_repair_can_make_again() {
    let image = with_snapshot();
    let snapshot = image.versions().join("1.0.0/backup/sqlite.db");
    assert_eq!(sql_of(&snapshot, "SELECT note FROM rows"), ["mine"]);
    flip(&snapshot);
    let before = image.installation();
    let told = "1.0.0/backup/sqlite.db: the database backup does not match the size or SHA-256 in backup.yaml";
    let ran = image.run(&["verify"]).fails(1, told);
    let said = "`--repair` cannot repair a database backup";
    assert!(ran.stderr.contains(said) && !ran.stderr.contains("--repair` to repair"), "{ran:#?}");
    image.run(&["verify", "--repair", "--log-format", "json"]).fails(1, "\"error_code\":\"backup_invalid\"");
    assert_eq!(image.installation(), before);
    image.run(&["rollback", "--log-format", "json"]).fails(1, "\"error_code\":\"backup_invalid\"");
    assert_eq!(image.installation(), before);
}

#[test]
fn verify_tells_of_a_snapshot_without_its_description() {
    let image = with_snapshot();
    std::fs::remove_file(image.versions().join("1.0.0/backup/backup.yaml")).unwrap();
    image.run(&["verify"]).fails(1, "1.0.0/backup has no backup.yaml");
    image.run(&["verify", "--repair", "--log-format", "json"]).fails(1, "\"error_code\":\"backup_invalid\"");
}

#[test]
fn verify_tells_what_would_keep_a_rollback_from_the_last_working_version_although_nothing_is_damaged() {
    let description = |image: &Image| image.versions().join("1.0.0/backup/backup.yaml");
    let edit = |image: &Image, from: &str, to: &str| {
        let text = std::fs::read_to_string(description(image)).unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with(from)).unwrap();
        std::fs::write(description(image), text.replace(line, &format!("  {from} {to}"))).unwrap();
    };
    type Change<'a> = &'a dyn Fn(&Image);
    let changes: [(Change<'_>, &str); 4] = [
        (
            &|image| std::fs::remove_dir_all(image.versions().join("1.0.0/backup")).unwrap(),
            "there is no database backup",
        ),
        (&|image| edit(image, "proxy:", "elsewhere:443"), "was made with proxy"),
        (&|image| edit(image, "creation_time:", "2001-01-01T00:00:00+00:00"), "is older than 365 days"),
        (&|image| edit(image, "creation_time:", "2901-01-01T00:00:00+00:00"), "is in the future"),
    ];
    for (change, why) in changes {
        let image = with_snapshot();
        let told = "`rollback` cannot go back to 1.0.0 (oss): ";
        assert!(!image.run(&["verify"]).ok().stderr.contains(told));
        change(&image);
        let ran = image.run(&["verify"]).ok();
        let line = ran.stderr.lines().find(|line| line.contains(told)).unwrap_or_else(|| panic!("{ran:#?}"));
        assert!(line.contains(why), "{line}");
        image.run(&["rollback"]).fails(1, why);
    }
}

#[test]
fn a_version_that_was_copied_to_another_number_is_not_taken_for_that_version() {
    let image = Image::enabled("1.0.0");
    let at = |version: &str| image.versions().join(version);
    let copied = Command::new("cp").arg("-a").args([at("1.0.0"), at("2.0.0")]).status().unwrap();
    assert!(copied.success());
    image.update_to("2.0.0");
    assert!(!image.cluster.requests_to("v2.0.0-linux").is_empty(), "it was not downloaded");
    let manifest = |version: &str| std::fs::read_to_string(at(version).join("manifest.json")).unwrap();
    assert!(manifest("2.0.0").contains("\"version\": \"2.0.0\""));
    std::fs::write(at("2.0.0").join("manifest.json"), manifest("1.0.0")).unwrap();
    image.run(&["verify"]).fails(1, "2.0.0/manifest.json is that of 1.0.0 (oss)");
    image.run(&["verify", "--repair"]).ok();
    image.run(&["verify"]).ok();
}

// --- rollback ---

#[test]
fn rollback_of_a_pinned_host_pins_it_to_the_version_gone_to() {
    let image = Image::quiet("1.0.0");
    image.release("2.0.0");
    image.run(&["pin", "--force-version", "2.0.0"]).ok();
    image.run(&["rollback"]).ok().says("after this rollback the pinned version is 1.0.0");
    // Settings, links and status agree, and what only changes another setting does not lead to the version refused.
    assert!(image.config().contains("pinned_version: 1.0.0"), "{}", image.config());
    image.run(&["enable", "--group", "blue"]).ok();
    assert_eq!(agent(&image), binary("1.0.0", "teleport"));
    let status = image.status();
    assert_eq!((&status["pinned"], &status["agent_version_installed"]), (&json!(true), &json!("1.0.0")));
    assert_eq!(status["refused"][0]["version"], "2.0.0", "{status:#}");
    image.run(&["unpin"]).ok();
    image.run(&["update"]).ok();
    assert_eq!(agent(&image), binary("1.0.0", "teleport"));
}

#[test]
fn rollback_without_a_version_to_go_back_to_fails_and_changes_nothing() {
    let image = Image::quiet("1.0.0");
    let before = image.installation();
    image.run(&["rollback", "--log-format", "json"]).fails(1, "\"error_code\":\"no_previous\"");
    assert_eq!(image.installation(), before);
}

// --- exit statuses ---

#[test]
fn exit_status_3_is_for_status_asked_whether_an_update_is_due_alone() {
    let image = Image::quiet("1.0.0");
    let ask = ["status", "--err-if-should-update-now"];
    assert_eq!(image.run(&ask).status, 0);
    image.release("2.0.0");
    assert_eq!(image.run(&ask).status, 3);
    for args in [&["status"][..], &["plan"], &["plan", "--now"], &["verify"], &["version"]] {
        assert_eq!(image.run(args).status, 0, "{args:?}");
    }
    image.cluster.set_directive(Find { auto_update: false, ..Find::version("2.0.0") });
    assert_eq!(image.run(&ask).status, 0, "outside of the window nothing is due");
    image.cluster.set_directive(Find::version("2.0.0"));
    image.run(&["pin"]).ok();
    assert_eq!(image.run(&ask).status, 0);
    image.run(&["unpin"]).ok();
    image.run(&["disable"]).ok();
    assert_eq!(image.run(&ask).status, 0);
    image.enable(&[]).ok();
    assert_eq!(image.run(&ask).status, 0);
    // What it said was due is what `update` does, no matter whether the cluster answers `status` in time.
    let mut image = image;
    image.cluster.go_down();
    let ran = image.run(&ask);
    assert_eq!((ran.status, ran.json()["agent_version_desired"].clone()), (0, Value::Null));
}

#[test]
fn a_command_of_an_ordinary_user_says_to_be_root_and_the_readers_work() {
    let Some(rig) = Rig::enabled("user") else { return };
    rig.release(&Archive::simple("2.0.0"));
    let config = std::fs::metadata(rig.path("/var/lib/teleport/versions/updates.yaml")).unwrap();
    assert_eq!(config.mode() & 0o777, 0o644);
    // One that exists: the system bus does not talk to others.
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"];
    let as_user = |line: &str| rig.bed.run(&[&nobody[..], &[line]].concat());
    let run = |args: &str| {
        let output = as_user(&format!("teleport-update {args}"));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // teleport.yaml, which holds the join token, is root's: readers do without it.
    for args in ["status", "plan", "verify"] {
        let (status, stderr) = run(args);
        assert_eq!(status, Some(0), "{args}: {stderr}");
    }
    for args in ["update", "disable", "pin"] {
        let (status, stderr) = run(args);
        assert_eq!(status, Some(1), "{args}: {stderr}");
        assert!(stderr.contains("root"), "{args}: {stderr}");
    }
    assert_eq!(rig.status()["agent_version_installed"], "1.0.0");
}
