//! `packaging/install.sh` with every shell and every way to download that this machine has, against true and hostile
//! servers; in beds with the real packages.

mod desk;
mod hosts;

use desk::{Desk, FETCHERS, SHELLS};

use crate::support::*;

const NEWEST: &str = "teleport-update_1.10.0_amd64.deb";

#[test]
fn every_shell_installs_the_newest_release_once_and_then_has_nothing_to_do() {
    for shell in SHELLS {
        let Some(desk) = Desk::new(shell, "curl") else { continue };
        desk.publish(&["1.2.0", "1.10.0", "1.9.9", "2.0.0~rc.1"]);
        let ran = desk.run(&[]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST], "{shell:?}: {ran:#?}");
        assert!(ran.stdout.contains(&format!("download {}/{NEWEST} with curl", desk.url())), "{ran:#?}");
        desk.pretend_installed("1.10.0");
        let ran = desk.run(&[]).ok();
        assert!(ran.stdout.contains("nothing to do"), "{shell:?}: {ran:#?}");
        desk.pretend_installed("1.11.0");
        desk.run(&[]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST], "a newer one is not replaced");
        desk.pretend_installed("1.10.0~rc.1");
        let ran = desk.run(&[]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST, "-i", NEWEST], "a pre-release comes before its release: {ran:#?}");
        assert_eq!(desk.left(), Vec::<String>::new(), "{shell:?}");
    }
}

#[test]
fn every_way_to_download_brings_the_same_bytes() {
    for fetcher in FETCHERS {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        desk.run(&[]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST], "{fetcher}");
        // What dpkg was given is what was published.
        assert_eq!(desk.installed_bytes(), std::fs::read(desk.cluster.cdn().join(NEWEST)).unwrap(), "{fetcher}");
        assert_eq!(desk.left(), Vec::<String>::new(), "{fetcher}");
    }
}

#[test]
fn every_way_to_download_tells_of_a_bad_answer_in_one_line_and_installs_nothing() {
    type Case = (&'static str, Misbehaviour, &'static str);
    let cases: [Case; 6] = [
        ("SHA256SUMS$", Misbehaviour::Status(404, None), "cannot download"),
        ("SHA256SUMS$", Misbehaviour::WrongType, "is not a list of checksums"),
        (".deb$", Misbehaviour::Status(404, None), "cannot download"),
        (".deb$", Misbehaviour::WrongType, "has the SHA-256"),
        (".deb$", Misbehaviour::CutEvery { bytes: 1000 }, ""),
        ("/cdn/", Misbehaviour::BadTls, "cannot download"),
    ];
    for fetcher in FETCHERS {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        for (path, how, says) in &cases {
            desk.cluster.behave();
            desk.cluster.misbehave(path, how.clone());
            let ran = desk.run(&[]).fails(1, "install.sh: ");
            assert!(ran.stderr.contains(says), "{fetcher} {how:?}: {ran:#?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{fetcher} {how:?}: {ran:#?}");
            assert_eq!(desk.installed(), Vec::<String>::new(), "{fetcher} {how:?}");
            assert_eq!(desk.left(), Vec::<String>::new(), "{fetcher} {how:?}");
        }
    }
}

#[test]
fn every_way_to_download_follows_redirections_to_https_alone() {
    for fetcher in FETCHERS {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        let elsewhere = format!("{}/copy.deb", desk.url());
        std::fs::copy(desk.cluster.cdn().join(NEWEST), desk.cluster.cdn().join("copy.deb")).unwrap();
        desk.cluster.misbehave(&format!("{NEWEST}$"), Misbehaviour::Redirect(elsewhere));
        desk.run(&[]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST], "{fetcher}");
        desk.cluster.behave();
        desk.cluster.misbehave(
            &format!("{NEWEST}$"),
            Misbehaviour::Redirect(format!("{}/copy.deb", desk.cluster.plain_base_url())),
        );
        desk.run(&[]).fails(1, "which is not https");
        desk.cluster.behave();
        desk.cluster.misbehave(&format!("{NEWEST}$"), Misbehaviour::RedirectLoop);
        desk.run(&[]).fails(1, "redirections");
        assert_eq!(desk.installed(), ["-i", NEWEST], "{fetcher}");
    }
}

#[test]
fn a_server_whose_certificate_nobody_vouches_for_is_not_believed() {
    for fetcher in FETCHERS {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        desk.run_with(&["--url", &desk.url(), "--no-enable"]).fails(1, "install.sh: cannot download");
        let ran = desk.run_with(&["--url", &desk.url(), "--no-enable", "--insecure"]).ok();
        assert!(ran.stdout.contains("warning: --insecure"), "{ran:#?}");
        assert_eq!(desk.installed(), ["-i", NEWEST], "{fetcher}");
    }
}

#[test]
fn plain_http_needs_the_word_insecure() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    let plain = desk.cluster.plain_base_url();
    desk.run_with(&["--url", &plain, "--no-enable"]).fails(1, "is not https");
    desk.run_with(&["--url", &plain, "--no-enable", "--insecure"]).ok();
    assert_eq!(desk.installed(), ["-i", NEWEST]);
}

#[test]
fn with_a_public_key_only_its_signature_counts() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    let key = desk.file("key.pem", &Signer::fixed(7).public_key_pem());
    desk.run(&["--public-key", &key]).fails(1, "SHA256SUMS.sig");
    desk.sign(&Signer::fixed(8));
    desk.run(&["--public-key", &key]).fails(1, "does not carry a valid signature");
    desk.sign(&Signer::fixed(7));
    desk.run(&["--public-key", &key]).ok();
    assert_eq!(desk.installed(), ["-i", NEWEST]);
    // The list was changed after it was signed.
    desk.publish(&["1.11.0"]);
    desk.run(&["--public-key", &key]).fails(1, "does not carry a valid signature");
    assert_eq!(desk.installed(), ["-i", NEWEST]);
    std::fs::remove_file(desk.bin("openssl")).unwrap();
    desk.run(&["--public-key", &key]).fails(1, "--public-key needs openssl");
}

#[test]
fn a_wget_that_cannot_check_certificates_is_used_only_with_a_signature() {
    let Some(desk) = Desk::new(&["busybox", "ash"], "busybox") else { return };
    desk.publish(&["1.10.0"]);
    desk.sign(&Signer::fixed(7));
    let key = desk.file("key.pem", &Signer::fixed(7).public_key_pem());
    // Without openssl, which would be preferred: then there is no signature either.
    desk.run(&[]).fails(1, "does not check certificates");
    let ran =
        desk.run_with(&["--url", &desk.cluster.plain_base_url(), "--no-enable", "--insecure", "--public-key", &key]);
    ran.fails(1, "--public-key needs openssl");
    desk.link("openssl");
    desk.run_with(&["--url", &desk.cluster.plain_base_url(), "--no-enable", "--insecure", "--public-key", &key]).ok();
    assert_eq!(desk.installed(), ["-i", NEWEST]);
}

#[test]
fn a_host_without_anything_to_download_or_check_with_is_told_the_other_way() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    for tool in ["sha256sum", "openssl"] {
        std::fs::remove_file(desk.bin(tool)).unwrap();
    }
    desk.run(&[]).fails(1, "no sha256sum, shasum, openssl, busybox, python3 or perl");
    for tool in ["openssl", "shasum", "python3", "busybox"] {
        if !desk.link(tool) {
            continue;
        }
        desk.run(&[]).ok();
        std::fs::remove_file(desk.bin(tool)).unwrap();
    }
    std::fs::remove_file(desk.bin("curl")).unwrap();
    desk.run(&[]).fails(1, "copy the package here and use --file");
}

#[test]
fn a_version_can_be_chosen_and_one_that_is_not_there_is_an_error() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.2.0", "1.10.0", "2.0.0~rc.1"]);
    desk.run(&["--version", "v1.2.0"]).ok();
    desk.run(&["--version", "2.0.0-rc.1"]).ok();
    desk.run(&["--version", "3.0.0"]).fails(1, "names no version 3.0.0 of the deb package for amd64");
    desk.run(&["--version", "../x"]).fails(2, "is no version");
    assert_eq!(
        desk.installed(),
        ["-i", "teleport-update_1.2.0_amd64.deb", "-i", "teleport-update_2.0.0~rc.1_amd64.deb"]
    );
}

#[test]
fn a_local_package_is_checked_and_installed() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    std::fs::remove_file(desk.bin("curl")).unwrap();
    for tool in ["dpkg-deb", "tar"] {
        desk.link(tool);
    }
    let package = desk.cluster.cdn().join(NEWEST).display().to_string();
    let ran = desk.run_with(&["--file", &package, "--no-enable"]).ok();
    assert!(ran.stdout.contains("against the SHA256SUMS beside it"), "{ran:#?}");
    assert_eq!(desk.installed(), ["-i", NEWEST]);
    let directory = format!("file://{}", desk.cluster.cdn().display());
    desk.run_with(&["--url", &directory, "--no-enable"]).ok();
    desk.run_with(&["--url", &desk.cluster.cdn().display().to_string(), "--no-enable"]).ok();
    assert_eq!(desk.installed(), ["-i", NEWEST].repeat(3));
    let list = std::fs::read_to_string(desk.cluster.cdn().join("SHA256SUMS")).unwrap();
    let changed: String = list.lines().map(|line| format!("{}{}\n", "0".repeat(64), &line[64..])).collect();
    std::fs::write(desk.cluster.cdn().join("SHA256SUMS"), changed).unwrap();
    desk.run_with(&["--file", &package, "--no-enable"]).fails(1, "has the SHA-256");
    let other = desk.file("other.deb", "not a package");
    desk.run_with(&["--file", &other, "--no-enable"]).fails(1, "is damaged");
    desk.run_with(&["--file", "/nowhere.deb", "--no-enable"]).fails(1, "cannot read /nowhere.deb");
    desk.run_with(&["--file", "/etc/passwd", "--no-enable"]).fails(1, "is not a deb package");
}

#[test]
fn a_dry_run_says_all_and_does_nothing() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    desk.pretend_installed("1.0.0");
    let ran = desk.run_with(&[
        "--url",
        &desk.url(),
        "--ca-file",
        &desk.ca(),
        "--proxy",
        "p:443",
        "--group",
        "blue",
        "--dry-run",
        "--",
        "--keep",
        "3",
    ]);
    for line in [
        "install teleport-update 1.10.0 with dpkg over 1.0.0",
        "run `teleport-update enable --proxy p:443 --group blue --keep 3`",
    ] {
        assert!(ran.stdout.contains(line), "{ran:#?}");
    }
    ran.ok();
    assert_eq!(desk.installed(), Vec::<String>::new());
    assert!(desk.cluster.requests_to("deb").is_empty());
}

#[test]
fn misuse_is_told_and_changes_nothing() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    for (args, says) in [
        (&["--no-enable"][..], "give --url or --file"),
        (&["--url"], "--url needs a value"),
        (&["--url", ""], "--url needs a value"),
        (&["--frobnicate"], "unknown option --frobnicate"),
    ] {
        desk.run_with(args).fails(2, says);
    }
    desk.run_with(&["--url", "ftp://x", "--no-enable"]).fails(1, "neither https://");
    desk.run_with(&["--url", "https://x", "--ca-file", "/nowhere"]).fails(1, "cannot read /nowhere");
    desk.fake("id", "echo 1000");
    desk.run(&[]).fails(1, "only root can install packages");
    desk.fake("id", "echo 0");
    desk.fake("uname", "echo FreeBSD");
    desk.run(&[]).fails(1, "this is FreeBSD");
    assert_eq!(desk.installed(), Vec::<String>::new());
}

#[test]
fn an_architecture_without_a_package_and_a_host_without_a_package_manager_are_errors() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    desk.fake("dpkg", "echo i386");
    desk.run(&[]).fails(1, "there is no package for i386");
    std::fs::remove_file(desk.bin("dpkg")).unwrap();
    desk.run(&[]).fails(1, "neither dpkg nor rpm");
}

#[test]
fn a_package_manager_that_is_at_work_is_waited_for_and_one_that_fails_is_heard() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    let count = desk.file("count", "");
    desk.fake("sleep", "exit 0");
    desk.fake(
        "dpkg",
        &format!(
            "[ \"$1\" = -i ] || {{ echo amd64; exit; }}\necho x >>{count}\n\
             [ $(wc -l <{count}) -ge 3 ] || {{ echo 'dpkg: error: dpkg frontend lock was locked by another process with pid 7' >&2; exit 2; }}"
        ),
    );
    let ran = desk.run(&[]).ok();
    assert_eq!(ran.stdout.matches("waiting for another package manager").count(), 1, "{ran:#?}");
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 3);
    // rpm's words.
    std::fs::write(&count, "").unwrap();
    let theirs = "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)";
    desk.fake(
        "dpkg",
        &format!(
            "[ \"$1\" = -i ] || {{ echo amd64; exit; }}\necho x >>{count}\n\
             [ $(wc -l <{count}) -ge 3 ] || {{ echo \"{theirs}\" >&2; exit 1; }}"
        ),
    );
    desk.run(&[]).ok();
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 3);
    desk.fake("dpkg", "[ \"$1\" = -i ] || { echo amd64; exit; }\necho 'no space left on device' >&2; exit 1");
    desk.run(&[]).fails(1, "dpkg could not install").says("no space left on device");
    assert_eq!(desk.left(), Vec::<String>::new());
}

#[test]
fn a_system_whose_root_is_sealed_is_not_taken_for_a_busy_one() {
    for shell in SHELLS {
        let Some(desk) = Desk::new(shell, "curl") else { continue };
        desk.publish(&["1.10.0"]);
        // Who waits is seen.
        desk.fake("sleep", "echo waited >&2");
        let theirs = "error: can't create transaction lock on /usr/lib/sysimage/rpm/.rpm.lock (Read-only file system)";
        desk.fake("dpkg", &format!("[ \"$1\" = -i ] || {{ echo amd64; exit; }}\necho \"{theirs}\" >&2; exit 1"));
        let ran = desk.run(&[]).fails(1, "this host's root is read-only");
        assert!(!format!("{ran:?}").contains("wait"), "{ran:#?}");
        desk.fake("transactional-update", "exit 1");
        let ran = desk.run(&[]).fails(1, "`transactional-update pkg install");
        assert!(!format!("{ran:?}").contains("wait"), "{ran:#?}");
        assert_eq!(desk.installed(), Vec::<String>::new());
    }
}

#[test]
fn no_space_for_the_download_is_told_and_nothing_is_installed() {
    for fetcher in FETCHERS {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        let Some(_mount) = desk.small_tmp() else { return };
        let ran = desk.run(&[]).fails(1, "install.sh: cannot download");
        assert_eq!(ran.stderr.lines().count(), 1, "{fetcher}: {ran:#?}");
        assert_eq!(desk.installed(), Vec::<String>::new());
        assert_eq!(desk.left(), Vec::<String>::new(), "{fetcher}");
        let directory = desk.cluster.cdn().display().to_string();
        let ran = desk.run_with(&["--url", &directory, "--no-enable"]).fails(1, "No space left on device");
        assert_eq!(ran.stderr.lines().count(), 1, "{fetcher}: {ran:#?}");
    }
}

#[test]
fn a_script_that_was_cut_off_on_its_way_does_nothing() {
    let script = std::fs::read(desk::script()).unwrap();
    for shell in SHELLS {
        let Some(desk) = Desk::new(shell, "curl") else { continue };
        desk.publish(&["1.10.0"]);
        let ends = (1..script.len() - 60).step_by(397).chain(script.len() - 60..script.len() - 1);
        for end in ends {
            desk.run_text(&script[..end], &["--url", &desk.url(), "--ca-file", &desk.ca(), "--no-enable"]);
            assert_eq!(desk.installed(), Vec::<String>::new(), "{shell:?} {end}");
            assert!(desk.cluster.requests().is_empty(), "{shell:?} {end}");
        }
        // The harness can tell: all of it does something.
        desk.run_text(&script, &["--url", &desk.url(), "--ca-file", &desk.ca(), "--no-enable"]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST]);
    }
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    // One that Ctrl-C reaches itself, and one in the background.
    for fetcher in ["curl", "openssl"] {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        desk.cluster.misbehave(".deb$", Misbehaviour::Stall { after_bytes: 100 });
        let mut child = desk.spawn(&[]);
        desk.until("the download", || !desk.cluster.requests_to("deb").is_empty());
        // As a terminal's Ctrl-C: to the whole group.
        desk::interrupt(&child);
        assert!(!child.wait().unwrap().success());
        let group = format!("-g{}", child.id());
        desk.until("no process of it", || !Command::new("pgrep").arg(&group).status().unwrap().success());
        assert_eq!(desk.left(), Vec::<String>::new(), "{fetcher}");
        assert_eq!(desk.installed(), Vec::<String>::new(), "{fetcher}");
    }
}

#[test]
fn nothing_is_loaded_from_the_directory_that_root_happens_to_be_in() {
    for fetcher in ["python3", "perl"] {
        let Some(desk) = Desk::new(&["dash"], fetcher) else { continue };
        desk.publish(&["1.10.0"]);
        let mark = desk.at("was-run");
        let mark = mark.display();
        for name in ["ssl.py", "shutil.py", "hashlib.py", "urllib.py"] {
            desk.file(name, &format!("open('{mark}', 'w')\nraise SystemExit\n"));
        }
        std::fs::create_dir_all(desk.at("HTTP")).unwrap();
        desk.file("HTTP/Tiny.pm", &format!("BEGIN {{ open(my $f, '>', '{mark}'); exit }} 1;\n"));
        if fetcher == "perl" {
            // A perl as before 5.26, with the current directory in @INC; first, where it shadows everything.
            let real = std::fs::read_link(desk.bin("perl")).unwrap();
            desk.fake("perl", &format!("exec {} -I. \"$@\"", real.display()));
        } else {
            // The digest by it, too.
            std::fs::remove_file(desk.bin("sha256sum")).unwrap();
        }
        desk.run(&[]).ok();
        assert_eq!(desk.installed(), ["-i", NEWEST], "{fetcher}");
        assert!(!desk.at("was-run").exists(), "{fetcher}");
    }
}

#[test]
fn a_configuration_file_that_was_changed_on_the_host_is_no_question() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    desk.run(&[]).ok();
    let words = std::fs::read_to_string(desk.at("words")).unwrap();
    assert!(words.starts_with("-i --force-confdef --force-confold /"), "{words}");
}

#[test]
fn a_list_of_checksums_may_be_written_by_other_tools() {
    for shell in SHELLS {
        let Some(desk) = Desk::new(shell, "curl") else { continue };
        desk.publish(&["1.10.0"]);
        let package = desk.cluster.cdn().join(NEWEST);
        let sum = protocol::Digest::of(&std::fs::read(&package).unwrap()).to_string();
        let capital = sum.to_uppercase();
        for tool in ["dpkg-deb", "tar"] {
            desk.link(tool);
        }
        for text in [
            format!("{sum}  {NEWEST}"),
            format!("{sum}  {NEWEST}\r\n"),
            format!("{sum}  ./{NEWEST}\n"),
            format!("{sum} *./{NEWEST}\r\n"),
            format!("{capital}  {NEWEST}\n"),
        ] {
            std::fs::write(desk.cluster.cdn().join("SHA256SUMS"), &text).unwrap();
            desk.run(&[]).ok();
            let ran = desk.run_with(&["--file", package.to_str().unwrap(), "--no-enable"]).ok();
            assert!(ran.stdout.contains("against the SHA256SUMS beside it"), "{shell:?} {text:?} {ran:#?}");
        }
        assert_eq!(desk.installed().len(), 2 * 2 * 5);
        std::fs::write(desk.cluster.cdn().join("SHA256SUMS"), format!("{sum}  other.deb\n")).unwrap();
        let ran = desk.run_with(&["--file", package.to_str().unwrap(), "--no-enable"]);
        let ran = ran.fails(1, &format!("SHA256SUMS does not name {NEWEST}"));
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:#?}");
        assert_eq!(desk.installed().len(), 2 * 2 * 5);
    }
}

#[test]
fn a_server_that_says_no_more_is_not_waited_for_without_end() {
    for (fetcher, shells) in [("openssl", &SHELLS[..]), ("busybox", &SHELLS[..1])] {
        for shell in shells {
            let Some(desk) = Desk::new(shell, fetcher) else { continue };
            desk.publish(&["1.10.0"]);
            desk.fake("sleep", "exit 0");
            desk.cluster.misbehave("SHA256SUMS$", Misbehaviour::Stall { after_bytes: 10 });
            let url = if fetcher == "busybox" { desk.cluster.plain_base_url() } else { desk.url() };
            let ran = desk.run_with(&["--url", &url, "--ca-file", &desk.ca(), "--insecure", "--no-enable"]);
            let ran = ran.fails(1, "cannot download");
            assert!(ran.stderr.contains("not done after 120 s"), "{fetcher} {shell:?}: {ran:#?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{fetcher} {shell:?}: {ran:#?}");
            assert_eq!(desk.left(), Vec::<String>::new());
        }
    }
}

#[test]
fn a_directory_may_be_given_by_a_relative_path() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    let relative = desk.cluster.cdn().strip_prefix(desk.at("")).unwrap().display().to_string();
    for url in [relative.clone(), format!("./{relative}/")] {
        desk.run_with(&["--url", &url, "--no-enable"]).ok();
    }
    assert_eq!(desk.installed(), ["-i", NEWEST].repeat(2));
    desk.run_with(&["--url", "nowhere/at/all", "--no-enable"]).fails(1, "neither https://, file:// nor a path");
}

#[test]
fn a_password_in_an_address_is_not_shown() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    let url = desk.url().replace("://", "://me:secret@");
    let more = ["--", "--base-url", &url];
    let ran =
        desk.run_with(&[&["--url", &url, "--ca-file", &desk.ca(), "--proxy", "p", "--dry-run"], &more[..]].concat());
    let ran = ran.ok();
    assert!(ran.stdout.contains("://***@") && !ran.stdout.contains("secret"), "{ran:#?}");
    let ran = desk.run_with(&["--url", &format!("{url}/nowhere"), "--ca-file", &desk.ca(), "--no-enable"]);
    let ran = ran.fails(1, "cannot download https://***@");
    assert!(!format!("{ran:?}").contains("secret"), "{ran:#?}");
}

#[test]
fn a_path_that_looks_like_a_pattern_or_an_option_is_given_to_the_package_manager_under_another_name() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    for tool in ["dpkg-deb", "tar"] {
        desk.link(tool);
    }
    let bytes = std::fs::read(desk.cluster.cdn().join(NEWEST)).unwrap();
    for name in ["a[1] *.deb", "-i.deb"] {
        std::fs::write(desk.at(name), &bytes).unwrap();
        desk.run_with(&["--file", name, "--no-enable"]).ok();
        assert!(desk.installed().ends_with(&["-i".to_owned(), "package.deb".to_owned()]), "{:?}", desk.installed());
        assert!(desk.installed_bytes() == bytes);
    }
    assert_eq!(desk.left(), Vec::<String>::new());
}

#[test]
fn an_agent_that_came_in_by_itself_is_kept_from_autoremove() {
    let Some(desk) = Desk::new(&["dash"], "curl") else { return };
    desk.publish(&["1.10.0"]);
    desk.fake(
        "dpkg-query",
        "for last; do :; done\ncase $last in teleport-ent*) printf 'install ok installed 17.0.0' ;; *) exit 1 ;; esac",
    );
    let marked = desk.file("marked", "");
    desk.fake("apt-mark", &format!("case $1 in showauto) echo teleport-ent ;; *) echo \"$*\" >>{marked} ;; esac"));
    let ran = desk.run(&[]).ok();
    assert!(ran.stdout.contains("marked teleport-ent as installed by hand"), "{ran:#?}");
    assert_eq!(std::fs::read_to_string(marked).unwrap(), "manual teleport-ent\n");
}
