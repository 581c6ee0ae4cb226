//! What is said on standard error: on a terminal, in a pipe, in the journal, as JSON, and to nobody.

use crate::support::*;

/// Every line of a JSON log.
fn lines(ran: &Ran) -> Vec<Value> {
    ran.stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn every_line_of_a_json_log_parses_and_the_last_of_a_failure_has_its_code() {
    let image = Image::new("1.0.0");
    let ran = image.enable(&["--log-format", "json", "--debug"]).ok();
    let told = lines(&ran);
    assert!(told.len() > 5, "{ran:#?}");
    for line in &told {
        assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(["debug", "info", "notice", "warning"].contains(&line["level"].as_str().unwrap()), "{line}");
        assert!(line["message"].is_string() && line["error_code"].is_null(), "{line}");
    }
    image.cluster.misbehave("find", Misbehaviour::Status(404, None));
    let ran = image.run(&["update", "--log-format", "json"]);
    let last = lines(&ran).pop().unwrap();
    assert_eq!((ran.status, &last["level"], &last["error_code"]), (1, &"error".into(), &"cluster_answer".into()));
    assert!(!last["message"].as_str().unwrap().starts_with("error"), "{last}");
    // The same code in `status`.
    image.cluster.behave();
    let status = image.status();
    assert_eq!(status["last_result"]["error_code"], "cluster_answer");
    // Also for what is wrong with the command line itself.
    let ran = image.run(&["--log-format", "json", "-i", "a/b", "status"]);
    assert_eq!((ran.status, &lines(&ran)[0]["error_code"]), (2, &"usage".into()));
}

#[test]
fn a_pipe_gets_plain_lines_and_a_terminal_colours_unless_told_otherwise() {
    let image = Image::new("1.0.0");
    assert!(!image.enable(&[]).ok().stderr.contains('\x1b'));
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: no script(1)");
        return;
    }
    let on_terminal = |env: &[(&str, &str)]| {
        let line = format!("{} --root {} rollback", updater().display(), image.root().display());
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", "xterm")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(on_terminal(&[]).contains("\x1b[1;31merror:\x1b[0m"), "{:?}", on_terminal(&[]));
    for env in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_terminal(&[env]);
        assert!(text.contains("error:") && !text.contains('\x1b'), "{env:?}: {text:?}");
    }
}

#[test]
fn secrets_are_in_no_line_and_in_no_file_that_others_read() {
    let image = Image::new("1.0.0");
    let (user, password, proxy_password) = ("mirror", "tr0ub4dor", "pr0xyw0rd");
    image.cluster.require_auth(Some(Auth::Basic(user.into(), password.into())));
    let url = image.cluster.base_url().replace("https://", &format!("https://{user}:{password}@"));
    let ca = image.cluster.ca_file().display().to_string();
    let proxy = format!("http://u:{proxy_password}@127.0.0.1:9");
    let env = [("HTTPS_PROXY", proxy.as_str()), ("NO_PROXY", "localhost")];
    let enable = ["enable", "--proxy", &image.cluster.addr(), "--base-url", &url, "--ca-file", &ca, "--debug"];
    let mut told = vec![image.run_with(&enable, &env).ok()];
    image.release("1.1.0");
    told.push(image.run_with(&["plan", "--format", "json"], &env).ok());
    image.cluster.misbehave(".tar.gz", Misbehaviour::Status(403, None));
    told.push(image.run_with(&["update", "--debug", "--log-format", "json"], &env).fails(1, "403"));
    // A proxy that is not there, with a password in its address.
    told.push(image.run_with(&["update", "--debug"], &[("HTTPS_PROXY", &proxy)]).fails(1, "127.0.0.1:9"));
    for format in ["json", "yaml", "text"] {
        told.push(image.run(&["status", "--format", format]).ok());
    }
    for ran in &told {
        for secret in [password, proxy_password] {
            assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{ran:#?}");
        }
    }
    assert!(!image.config().contains(password) && !image.config().contains(proxy_password), "{}", image.config());
    let kept = image.tree().into_iter().find(|line| line.contains("/.credentials ")).unwrap();
    assert!(kept.contains(".credentials 600 "), "{kept}");
    // And they work without being given again.
    image.cluster.behave();
    image.run_with(&["update"], &[("NO_PROXY", "localhost")]).ok();
}

#[test]
fn nobody_listening_never_stops_a_run() {
    let image = Image::new("1.0.0");
    let args = image.enable_args();
    let enable = |redirect: &str| {
        let output = Command::new("sh")
            .args(["-c", &format!("\"$@\" --debug {redirect}"), "sh"])
            .arg(updater())
            .arg("--root")
            .arg(image.root())
            .args(&args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{redirect}: {output:?}");
        image.run(&["verify"]).ok();
        image.run(&["uninstall"]).ok();
    };
    enable("2>&-");
    enable(">&- 2>&- <&-");
    enable("2>/dev/full");
    // A reader that leaves at once.
    let mut child = Command::new(updater())
        .arg("--root")
        .arg(image.root())
        .args(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().unwrap().success());
    for format in ["json", "text"] {
        let mut child = Command::new(updater())
            .arg("--root")
            .arg(image.root())
            .args(["status", "--format", format])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success(), "{format}");
    }
}

#[test]
fn what_cannot_be_written_to_a_full_disk_is_an_error_for_help_too() {
    for args in [&["--help"][..], &["--version"], &["update", "--help"], &["version"]] {
        let shell = ["-c", "\"$@\" >/dev/full", "sh"];
        let output = Command::new("sh").args(shell).arg(updater()).args(args).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.starts_with("error: cannot write to standard output: "), "{args:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{args:?}: {told}");
    }
}

#[test]
fn the_journal_files_each_line_under_its_priority() {
    let Some(rig) = Rig::enabled("journal") else { return };
    rig.release(&Archive::simple("1.1.0"));
    rig.bed.sh("systemctl start teleport-update");
    rig.cluster.misbehave(".tar.gz", Misbehaviour::Status(404, None));
    rig.release(&Archive::simple("1.2.0"));
    rig.bed.sh("! systemctl start teleport-update; journalctl --sync");
    let journal = |args: &str| rig.bed.sh(&format!("journalctl -q --no-pager -o cat -t teleport-update {args}"));
    let errors = journal("-p err");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("error: cannot download the archive"), "{errors}");
    let all = journal("");
    assert!(all.contains("linked 1.1.0 (oss)"), "{all}");
    assert!(all.contains("1.0.0 (oss) -> 1.1.0 (oss): done"), "{all}");
    assert!(!all.lines().any(|line| line.starts_with('<')), "{all}");
    assert!(!all.contains('\x1b'));
    let notices = journal("-p notice");
    assert!(notices.contains(": done") && !notices.contains("linked "), "{notices}");

    // JSON keeps the priority and stays JSON.
    rig.bed.sh("mkdir -p /etc/systemd/system/teleport-update.service.d; printf '[Service]\\nExecStart=\\n\
         ExecStart=/usr/lib/teleport-update/teleport-update --log-format json update\\n' \
         >/etc/systemd/system/teleport-update.service.d/json.conf; systemctl daemon-reload");
    rig.bed.sh("! systemctl start teleport-update; journalctl --sync");
    let errors = journal("-p err");
    let last: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
    assert_eq!((&last["level"], &last["error_code"]), (&"error".into(), &"archive_missing".into()));
    // A run that finds nothing to do is worth at most a line.
    rig.cluster.behave();
    rig.release(&Archive::simple("1.1.0"));
    let before = journal("").lines().count();
    rig.bed.sh("systemctl start teleport-update; journalctl --sync");
    assert!(journal("").lines().count() <= before + 1);
    rig.bed.until("systemctl show -p Result teleport-update | grep success", Duration::from_secs(30));
}
