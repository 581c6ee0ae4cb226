//! `status` (SPEC §9), and everything else that a person reads: help, plan, error lines, completion, the manual page.

use std::io::Write;

use snapbox::{Data, assert_data_eq};

use crate::support::*;

/// The RFD's keys, in its order.
const RFD_KEYS: [&str; 9] = [
    "agent_version_installed",
    "agent_version_desired",
    "agent_version_previous",
    "agent_edition_installed",
    "agent_edition_desired",
    "agent_edition_previous",
    "agent_update_time_last",
    "agent_update_time_jitter",
    "agent_updates_enabled",
];

fn status(image: &Image) -> Value {
    image.status()
}

/// The text with what differs from run to run replaced.
fn redacted(text: &str, image: &Image) -> String {
    let port = image.cluster.port().to_string();
    let text = text.replace(&image.root().display().to_string(), "[ROOT]").replace(&format!(":{port}"), ":[PORT]");
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let words: Vec<String> =
            line.split(' ').map(|word| if is_time(word) { replaced(word) } else { word.to_owned() }).collect();
        out += &words.join(" ");
    }
    out
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T' && word.contains('Z')
}

fn replaced(word: &str) -> String {
    format!("[TIME]{}", word.split_once('Z').unwrap().1)
}

fn snapshot(name: &str) -> Data {
    Data::read_from(&testing::beds::checkout(&format!("tests/suite/snapshots/{name}")), None)
}

#[test]
fn the_rfds_nine_keys_come_first_and_say_what_is() {
    let image = Image::enabled("1.0.0");
    image.update_to("1.1.0");
    image.cluster.publish(&Archive::new("1.2.0", "enterprise", "amd64"));
    image.cluster.set_directive(Find {
        version: "1.2.0".into(),
        edition: "enterprise".into(),
        auto_update: true,
        jitter: 30,
    });
    for dialect in [Dialect::Rfd, Dialect::Today] {
        image.cluster.set_dialect(dialect);
        let status = status(&image);
        let keys: Vec<&String> = status.as_object().unwrap().keys().collect();
        assert_eq!(keys[..9], RFD_KEYS);
        let mut values: Vec<&Value> = RFD_KEYS.iter().map(|key| &status[key]).collect();
        let time = values.remove(6).as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(jiff::Timestamp::now().duration_since(time).as_secs() < 600);
        let wanted = json!(["1.1.0", "1.2.0", "1.0.0", "oss", "enterprise", "oss", 30, true]);
        assert_eq!(json!(values), wanted);
        assert_eq!((&status["in_window"], &status["agent_version_linked"]), (&json!(true), &json!("1.1.0")));
    }
}

#[test]
fn yaml_and_json_say_the_same_and_json_is_what_a_pipe_gets() {
    let image = Image::new("1.0.0");
    image.enable(&["--group", "a: #b '\"\\ é"]).ok();
    image.run(&["pin"]).ok();
    let json = status(&image);
    assert_eq!(image.run(&["status"]).ok().json(), json);
    let yaml = image.run(&["status", "--format", "yaml"]).ok().stdout;
    let mut python = Command::new("python3")
        .args(["-c", "import sys, json, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let parsed = python.as_mut().ok().and_then(|python| {
        python.stdin.take()?.write_all(yaml.as_bytes()).ok()?;
        let mut out = String::new();
        std::io::Read::read_to_string(&mut python.stdout.take()?, &mut out).ok()?;
        python.wait().ok()?.success().then_some(out)
    });
    match parsed {
        Some(text) => assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json, "{yaml}"),
        None => eprintln!("skipped: no python3 with yaml; line by line only"),
    }
    for (key, value) in json.as_object().unwrap().iter().filter(|(_, value)| !value.is_object() && !value.is_array()) {
        assert!(yaml.lines().any(|line| line == format!("{key}: {value}")), "{key}: {yaml}");
    }
}

#[test]
fn a_refused_version_kept_rows_and_an_open_journal_are_told() {
    let Some(rig) = Rig::on_one("statusbad") else { return };
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("never-ready"));
    rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    let status = rig.status();
    assert_eq!(status["refused"][0]["version"], "2.0.0");
    assert_eq!(status["refused"][0]["error_code"], "unhealthy");
    assert_eq!(status["refused"][0]["count"], 1);
    assert!(
        status["refused"][0]["retry_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() > jiff::Timestamp::now()
    );
    assert_eq!(status["last_result"]["error_code"], "unhealthy");
    let rows = status["kept_databases"][0]["path"].as_str().unwrap();
    assert!(rig.path(rows).join("sqlite.db").exists(), "{rows}");
    assert_eq!(rig.updater(&["status", "--err-if-should-update-now"]).status, 0, "refused for now");
    let text = rig.updater(&["status", "--format", "text"]).ok().stdout;
    assert!(text.contains("Refused") && text.contains("Kept data"), "{text}");

    // As anybody: what is open to all, and null for the rest.
    let nobody = |line: &str| {
        let ran = rig.bed.run(&["runuser", "-u", "nobody", "--", "sh", "-c", line]);
        Ran::of(&ran)
    };
    let seen = nobody("teleport-update status --format json").ok().json();
    assert_eq!((&seen["agent_version_installed"], &seen["agent_running"]), (&json!("1.0.0"), &json!(true)));
    assert_eq!(seen["agent_version_running"], Value::Null);
    rig.bed.sh("chmod 700 /var/lib/teleport");
    let ran = nobody("teleport-update status --format json").ok();
    let seen = ran.json();
    assert_eq!((&seen["agent_version_installed"], &seen["agent_updates_enabled"]), (&Value::Null, &Value::Null));
    assert!(ran.stderr.starts_with("warning: "), "{ran:#?}");
    nobody("teleport-update disable").fails(1, "run as root");
    rig.bed.sh("chmod 755 /var/lib/teleport");

    // A run cut off: pending until it is recovered, and told by read-only commands.
    rig.release(&Archive::simple("3.0.0").behaviour("never-ready"));
    rig.bed.sh("systemd-run --unit=going teleport-update update");
    rig.bed.until("readlink /usr/local/bin/teleport | grep 3.0.0", Duration::from_secs(20));
    assert_eq!(rig.status()["update_in_progress"], true);
    rig.bed.sh("systemctl kill -s KILL going");
    rig.bed.until("! systemctl is-active going", Duration::from_secs(30));
    let status = rig.status();
    assert_eq!((&status["recovery_pending"], &status["update_in_progress"]), (&json!(true), &json!(false)));
    assert_eq!(status["agent_version_installed"], "1.0.0");
    assert_eq!(status["agent_version_linked"], "3.0.0");
    rig.updater(&["recover"]).ok();
    rig.until_ready();
    let status = rig.status();
    assert_eq!((&status["recovery_pending"], &status["agent_version_linked"]), (&json!(false), &json!("1.0.0")));
}

#[test]
fn a_process_older_than_the_link_is_told_apart() {
    let Some(rig) = Rig::on_one("statusrun") else { return };
    rig.update_to(&Archive::simple("1.1.0"));
    // As by hand, or by a half-done restore.
    rig.bed.sh("ln -sfn /var/lib/teleport/versions/1.0.0/bin/teleport /usr/local/bin/teleport");
    let status = rig.status();
    assert_eq!(status["agent_version_running"], "1.1.0");
    assert_eq!(status["agent_version_linked"], "1.0.0");
    rig.updater(&["verify"]).fails(1, "1 difference from");
}

#[test]
fn status_for_people() {
    let image = Image::new("1.0.0");
    assert_data_eq!(image.run(&["status", "--format", "text"]).ok().stdout, snapshot("status-never-enabled.txt").raw());
    image.enable(&["--group", "blue"]).ok();
    image.update_to("1.1.0");
    image.cluster.set_directive(Find::version("1.2.0"));
    image.run(&["update"]).fails(1, "1.2.0");
    let text = image.run(&["status", "--format", "text"]).ok().stdout;
    assert_data_eq!(redacted(&text, &image), snapshot("status.txt").raw());
}

#[test]
fn plan_for_people_and_for_programs() {
    let image = Image::enabled("1.0.0");
    image.release("1.1.0");
    let before = image.tree();
    let ran = image.run(&["plan"]).ok();
    let text = redacted(&ran.stdout, &image);
    // The toy's size is its compiler's business.
    let text: String = text
        .split_inclusive('\n')
        .map(|line| if line.starts_with("download:") { "download: [SIZE] MB\n" } else { line })
        .collect();
    assert_data_eq!(text, snapshot("plan.txt").raw());
    let plan = image.run(&["plan", "--format", "json"]).ok().json();
    assert_eq!((&plan["action"], &plan["direction"]), (&json!("update"), &json!("upgrade")));
    let archive = std::fs::metadata(image.cluster.cdn().join(Archive::simple("1.1.0").name())).unwrap().len();
    assert_eq!(plan["download_bytes"], archive);
    for phase in ["prepare", "switch", "after"] {
        assert!(plan[phase].as_array().unwrap().iter().all(|step| step["does"].is_string()), "{phase}");
    }
    assert!(image.run(&["plan", "--format", "yaml"]).ok().stdout.contains("direction: \"upgrade\"\n"));
    assert_eq!(image.tree(), before, "a plan changes nothing");
    image.run(&["update"]).ok();
    assert_eq!(image.run(&["plan"]).ok().stdout, "nothing to do: 1.1.0 (oss) is active\n");
    assert_eq!(image.run(&["plan", "--format", "json"]).ok().json()["action"], "none");
}

#[test]
fn help_of_every_command() {
    let help = |args: &[&str]| Ran::of(&Command::new(updater()).args(args).env_clear().output().unwrap()).ok().stdout;
    let top = help(&["--help"]);
    assert_eq!(top, help(&["-h"]));
    assert_data_eq!(top.clone(), snapshot("help.txt").raw());
    let commands: Vec<&str> = top
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert_eq!(commands.len(), 14);
    let all: String = commands
        .iter()
        .map(|command| {
            let text = help(&[command, "--help"]);
            // The same for every command, and shown above.
            let own = text.split("\nGlobal options:").next().unwrap().to_owned();
            format!("## {command}\n{own}\n")
        })
        .collect();
    assert!(all.is_ascii(), "a serial console");
    assert_data_eq!(all, snapshot("help-commands.txt").raw());
}

#[test]
fn error_lines() {
    let image = Image::new("1.0.0");
    let mut lines = String::new();
    let mut record = |title: &str, ran: Ran, status: i32| {
        assert_eq!(ran.status, status, "{title}: {ran:#?}");
        assert_eq!(ran.stdout, "", "{title}");
        lines += &format!("{title}\n  {}\n", redacted(ran.stderr.trim_end(), &image).lines().last().unwrap());
    };
    record("no address", image.run(&["enable"]), 1);
    record("bad version", image.run(&["pin", "--force-version", "../1", "--proxy", "localhost"]), 2);
    record("bad suffix", image.run(&["-i", "a/b", "status"]), 2);
    image.cluster.misbehave("find", Misbehaviour::Status(404, None));
    record("not a cluster", image.enable(&[]), 1);
    image.cluster.behave();
    image.cluster.set_directive(Find::version("9.9.9"));
    record("no archive", image.enable(&[]), 1);
    image.cluster.set_directive(Find::version("1.0.0"));
    image.enable(&[]).ok();
    record("below the floor", image.enable(&["--min-version", "2.0.0"]), 1);
    record("nothing to go back to", image.run(&["rollback"]), 1);
    std::fs::write(
        image.versions().join("updates.yaml"),
        "version: v1\nkind: agent_versions\nspec:\n  enabled: perhaps\n",
    )
    .unwrap();
    record("bad settings", image.run(&["update"]), 1);
    assert_data_eq!(lines, snapshot("errors.txt").raw());
}

#[test]
fn completion_scripts_are_for_their_shells() {
    let script = |shell: &str| {
        Ran::of(&Command::new(updater()).args(["completion", shell]).env_clear().output().unwrap()).ok().stdout
    };
    for (shell, word) in
        [("bash", "complete -F"), ("zsh", "#compdef teleport-update"), ("fish", "complete -c teleport-update")]
    {
        let text = script(shell);
        assert!(text.contains(word) && text.contains("err-if-should-update-now"), "{shell}");
        let Ok(mut checker) = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn() else { continue };
        checker.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(checker.wait().unwrap().success(), "{shell} -n");
    }
}

#[test]
fn version_names_the_protocol() {
    let version =
        |args: &[&str]| Ran::of(&Command::new(updater()).arg("version").args(args).env_clear().output().unwrap()).ok();
    let number = env!("CARGO_PKG_VERSION");
    assert_eq!(version(&["--format", "json"]).json(), json!({"version": number, "protocol": "rfd0169/1"}));
    assert_eq!(version(&[]).stdout, format!("teleport-update {number} (protocol rfd0169/1)\n"));
    assert_eq!(version(&["--format", "yaml"]).stdout, format!("version: {number}\nprotocol: rfd0169/1\n"));
}

#[test]
fn the_manual_page_renders_without_a_warning() {
    let page = Ran::of(&Command::new(updater()).arg("man").env_clear().output().unwrap()).ok().stdout;
    for word in [".TH teleport-update 8", "EXIT STATUS", "TELEPORT_UPDATE_GROUP", ".SS uninstall"] {
        assert!(page.contains(word), "{word}");
    }
    look::renders(&page);
}
