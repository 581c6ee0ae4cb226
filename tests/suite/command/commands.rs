//! The commands beside `enable` and `update`: the cases of `commands.txt`, plans that are executed, damages, and who may run what.

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

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
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
