//! The commands beside `enable` and `update`: the cases of `commands.txt`, plans that are executed, damages, and who may run what.

use std::fs::{File, Permissions};

use crate::support::*;

#[test]
fn each_does_what_it_says() {
    transcript::play("command/commands.txt");
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

// --- exit statuses ---

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
