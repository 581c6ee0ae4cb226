#![allow(clippy::disallowed_methods, reason = "runs shells in a directory of its own")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PACKAGES: &str = "https://packages.example.com/teleport-update";
/// The program that the package has.
const INSTALLED: &str = "/usr/lib/teleport-update/teleport-update";
/// What the script may use of the system.
const TOOLS: [&str; 7] = ["sh", "sed", "mktemp", "rm", "sha256sum", "cat", "cp"];

fn script(packages: Option<&str>, query: &str) -> String {
    let reply = InstallScript::new("fleet.example.com:8443", packages).unwrap().reply(query);
    assert_eq!((reply.status, reply.content_type), (200, SHELL));
    String::from_utf8(reply.body.to_vec()).unwrap()
}

#[test]
fn address_packages_and_group_stand_in_the_script_and_nothing_is_left_open() {
    let text = script(Some("https://packages.example.com/teleport-update/"), "group=prod-1.eu_west");
    for line in [
        "    address='fleet.example.com:8443'",
        "    group='prod-1.eu_west'",
        "    packages=${TELEPORT_UPDATE_URL:-'https://packages.example.com/teleport-update'}",
    ] {
        assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}");
    }
    for text in [text, script(None, ""), script(None, "group="), script(None, "x=1")] {
        assert!(!text.contains("@ADDRESS@") && !text.contains("@GROUP@") && !text.contains("@PACKAGES@"));
        assert!(text.ends_with("\n{ main; exit; }\n"));
    }
    assert!(script(None, "group=").contains("    group=''\n"));
}

#[test]
fn a_group_that_is_not_of_letters_digits_dot_underscore_and_hyphen_is_400() {
    let script = InstallScript::new("fleet.example.com", None).unwrap();
    for bad in [
        "a%20b",
        "a+b",
        "a%27b",
        "%24(id)",
        "a;id",
        "a%0Ab",
        "%60id%60",
        "a/b",
        "a%22",
        "%C3%A4",
        "%00",
        "%ff",
        "%",
        "-x",
        "a&group=b",
        &"x".repeat(256),
    ] {
        let refused = script.reply(&format!("group={bad}"));
        let body: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!((refused.status, &body["error"]["code"]), (400, &json!("bad_request")), "{bad}");
    }
}

#[test]
fn what_is_configured_is_checked() {
    for good in ["fleet.example.com", "fleet.example.com:443", "10.0.0.1:8443", "[2001:db8::1]:443", "localhost"] {
        assert!(InstallScript::new(good, None).is_ok(), "{good}");
    }
    for bad in ["", "https://fleet.example.com", "a b", "a'b", "$(id)", "-x", ":443", "a\nb", "a/b", &"x".repeat(256)] {
        assert!(InstallScript::new(bad, None).is_err(), "{bad}");
    }
    for bad in ["http://a.b", "/srv/packages", "https://", "https://a.b/'$(id)'", "https://a.b/c d", "https://u:p@a.b"]
    {
        let error = InstallScript::new("a.b", Some(bad)).unwrap_err();
        assert!(error.contains("https://") && !error.contains('\n'), "{error}");
    }
}

fn shells() -> impl Iterator<Item = &'static str> {
    ["sh", "dash", "bash", "busybox"].into_iter().filter(|shell| path_of(shell).is_some())
}

fn path_of(tool: &str) -> Option<PathBuf> {
    ["/bin", "/usr/bin"].into_iter().map(|directory| Path::new(directory).join(tool)).find(|path| path.exists())
}

/// A directory with stubs for what would change this host.
struct Bed(PathBuf);

impl Bed {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("fleet-wire-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("server")).unwrap();
        for tool in TOOLS {
            std::os::unix::fs::symlink(path_of(tool).unwrap(), root.join("bin").join(tool)).unwrap();
        }
        let bed = Self(root);
        bed.program("bin/id", "echo 0");
        bed.program("bin/uname", "echo Linux");
        // As the web server of the packages: -o FILE URL are the last words.
        bed.program(
            "bin/curl",
            "echo \"curl $*\" >>\"$BED/log\"; for word; do before=$last last=$url url=$word; done\n\
             [ -e \"$BED/server/${url##*/}\" ] || exit 22; cp \"$BED/server/${url##*/}\" \"$last\"",
        );
        bed
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The packages' directory, whose installer puts the updater into place.
    fn serve(&self, sum: Option<&str>) {
        let installer =
            "#!/bin/sh\necho \"install.sh $*\" >>\"$BED/log\"\ncp \"$BED/updater\" \"$BED/teleport-update\"\n";
        self.program("updater", "echo \"teleport-update $*\" >>\"$BED/log\"; exit \"${STATUS:-0}\"");
        fs::write(self.0.join("server/install.sh"), installer).unwrap();
        let sum = sum.map_or_else(|| protocol::Digest::of(installer.as_bytes()).to_string(), str::to_owned);
        let list = format!("{}  other-install.sh\n{sum}  install.sh\n", "0".repeat(64));
        fs::write(self.0.join("server/SHA256SUMS"), list).unwrap();
    }

    /// Pipes `text` into a shell, as `curl | sh` does; nothing of the real host is run or changed.
    fn run(&self, shell: &str, text: &str, variables: &[(&str, &str)]) -> Output {
        let installed = self.0.join("teleport-update");
        let text = text.replace(INSTALLED, installed.to_str().unwrap());
        let mut command = Command::new(path_of(shell).unwrap());
        if shell == "busybox" {
            command.arg("sh");
        }
        let _ = fs::remove_file(self.0.join("log"));
        let mut child = command
            .env_clear()
            .env("PATH", self.0.join("bin"))
            .env("BED", &self.0)
            .env("TMPDIR", &self.0)
            .envs(variables.iter().copied())
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A shell that ends early does not read on.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What was run, a line each; of curl the address alone.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let shown = |line: &str| match line.strip_prefix("curl ") {
            Some(words) => format!("curl {}", words.rsplit(' ').next().unwrap()),
            None => line.to_owned(),
        };
        text.lines().map(shown).collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn failed(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("install.sh: ") && said.contains(words) && said.lines().count() == 1, "{said}");
}

#[test]
fn it_installs_the_package_and_enables_updates_in_every_shell() {
    for shell in shells() {
        let bed = Bed::new(&format!("installs-{shell}"));
        bed.serve(None);
        let output = bed.run(shell, &script(Some(PACKAGES), "group=prod"), &[]);
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            bed.log(),
            [
                format!("curl {PACKAGES}/SHA256SUMS"),
                format!("curl {PACKAGES}/install.sh"),
                format!("install.sh --url {PACKAGES} --no-enable --yes"),
                "teleport-update enable --proxy fleet.example.com:8443 --group prod".to_owned(),
            ],
            "{shell}"
        );
        let left = fs::read_dir(&bed.0)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("teleport-update."));
        assert_eq!(left.count(), 0, "{shell}: files are left behind");
        // Again: it is installed, and only enabled.
        let output = bed.run(shell, &script(Some(PACKAGES), ""), &[]);
        assert!(output.status.success());
        assert_eq!(bed.log(), ["teleport-update enable --proxy fleet.example.com:8443"], "{shell}");
    }
}

#[test]
fn the_updaters_exit_status_is_the_scripts() {
    let bed = Bed::new("status");
    bed.serve(None);
    let output = bed.run("sh", &script(Some(PACKAGES), ""), &[("STATUS", "3")]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn where_the_updater_comes_from_can_be_said_when_it_is_run_and_must_be_said_somewhere() {
    let bed = Bed::new("nowhere");
    bed.serve(None);
    failed(&bed.run("sh", &script(None, ""), &[]), "set TELEPORT_UPDATE_URL to the https directory");
    assert!(bed.log().is_empty());
    let bad = bed.run("sh", &script(None, ""), &[("TELEPORT_UPDATE_URL", "http://user:secret@a.b")]);
    failed(&bad, "TELEPORT_UPDATE_URL is http://***@a.b: expected an https:// URL");
    let output = bed.run("sh", &script(Some(PACKAGES), ""), &[("TELEPORT_UPDATE_URL", "https://a.b/c/")]);
    assert!(output.status.success());
    assert_eq!(bed.log()[..2], ["curl https://a.b/c/SHA256SUMS", "curl https://a.b/c/install.sh"]);
}

#[test]
fn without_packages_an_updater_that_is_there_is_enabled() {
    let bed = Bed::new("present");
    bed.program("bin/teleport-update", "echo \"present $*\" >>\"$BED/log\"");
    assert!(bed.run("sh", &script(None, "group=a"), &[]).status.success());
    assert_eq!(bed.log(), ["present enable --proxy fleet.example.com:8443 --group a"]);
}

#[test]
fn what_does_not_match_its_sum_is_not_run() {
    let bed = Bed::new("sum");
    bed.serve(Some(&"1".repeat(64)));
    failed(&bed.run("sh", &script(Some(PACKAGES), ""), &[]), "another SHA-256");
    assert!(!bed.log().iter().any(|line| line.starts_with("install.sh")));
    bed.serve(Some("nonsense"));
    failed(&bed.run("sh", &script(Some(PACKAGES), ""), &[]), "does not name install.sh");
    fs::remove_file(bed.0.join("server/SHA256SUMS")).unwrap();
    failed(&bed.run("sh", &script(Some(PACKAGES), ""), &[]), "cannot download");
}

#[test]
fn only_root_on_linux_goes_on() {
    let bed = Bed::new("root");
    bed.serve(None);
    bed.program("bin/id", "echo 1000");
    failed(&bed.run("sh", &script(Some(PACKAGES), ""), &[]), "sudo sh");
    bed.program("bin/uname", "echo Darwin");
    failed(&bed.run("sh", &script(Some(PACKAGES), ""), &[]), "this is Darwin");
    assert!(bed.log().is_empty());
}

#[test]
fn a_script_that_was_cut_off_runs_nothing() {
    let bed = Bed::new("cut");
    bed.serve(None);
    let text = script(Some(PACKAGES), "group=prod");
    let lines = text.char_indices().filter(|(_, char)| *char == '\n').map(|(index, _)| index + 1);
    let last = text.len() - "{ main; exit; }\n".len();
    // The last line is whole without its line feed.
    for end in lines.filter(|end| *end <= last).chain(last..text.len() - 1) {
        for shell in ["dash", "bash"].into_iter().filter(|shell| path_of(shell).is_some()) {
            bed.run(shell, &text[..end], &[]);
            assert!(bed.log().is_empty(), "{shell} ran something of the first {end} bytes");
        }
    }
}

#[test]
fn shells_and_shellcheck_find_nothing_wrong() {
    let bed = Bed::new("check");
    let path = bed.0.join("script");
    fs::write(&path, script(Some(PACKAGES), "group=prod")).unwrap();
    let ok = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    };
    for shell in shells().filter(|shell| *shell != "busybox") {
        ok(Command::new(shell).arg("-n").arg(&path));
    }
    if let Some(shellcheck) = path_of("shellcheck") {
        ok(Command::new(shellcheck).arg(&path));
    }
}

proptest! {
    #[test]
    fn no_query_puts_anything_else_into_the_script(query in "(group=)?([a-z0-9%'\"$;&=+._-]{0,40}|.{0,20})") {
        let reply = InstallScript::new("a.b", None).unwrap().reply(&query);
        if reply.status == 200 {
            let text = String::from_utf8(reply.body.to_vec()).unwrap();
            let line = text.lines().find(|line| line.starts_with("    group=")).unwrap();
            let group = line.strip_prefix("    group='").and_then(|rest| rest.strip_suffix('\'')).unwrap();
            prop_assert!(group.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)));
            let empty = script(None, "").replace("fleet.example.com:8443", "a.b");
            prop_assert_eq!(text.replace(line, "    group=''"), empty);
        } else {
            prop_assert_eq!(reply.status, 400);
        }
    }
}
