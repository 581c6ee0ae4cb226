//! The places that an operator names, by a flag or by hand: those that cannot be, and those of another installation.

use crate::support::*;

/// Replaces `from`, which must be there, in `updates.yaml`.
#[track_caller]
fn edit(image: &Image, from: &str, to: &str) {
    let text = image.config();
    assert!(text.contains(from), "{from:?} is not in {text}");
    std::fs::write(image.versions().join("updates.yaml"), text.replace(from, to)).unwrap();
}

/// An image that runs 1.0.0, and a release of 2.0.0.
fn with_a_release() -> Image {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    image
}

#[test]
fn a_path_that_systemd_could_not_start_a_program_from_is_refused() {
    let image = Image::new("1.0.0");
    for path in
        ["/opt/a b", "/opt/100%", "/opt/$HOME", "/opt/\"x\"", "/opt/it's", "/opt/a\\b", "/opt/a\tb", "/opt/a\nb"]
    {
        let ran = image.enable(&["--path", path]).fails(2, "systemd cannot start a program from a path with blanks");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:#?}");
    }
    assert_eq!(image.tree(), ["etc/ 755"]);
    image.enable(&["--path", "/opt/ä-1.2_x+y@z:~/bin"]).ok();
    image.run(&["verify"]).ok();
}

#[test]
fn what_a_hand_wrote_is_held_to_the_rules_of_the_flags() {
    for (line, what) in [
        ("  enabled: true\n  proxy: not a host\n", "spec.proxy in updates.yaml: "),
        ("  enabled: true\n  source: nonsense\n", "spec.source in updates.yaml: "),
        ("  enabled: true\n  proxy: x\n  ca: x\n", "spec.ca in updates.yaml: no PEM certificate is in it"),
        ("  path: relative\n", "line 4: spec.path is not an absolute path"),
        ("  path: \"/opt/a b\"\n", "line 4: spec.path is not an absolute path without blanks, quotes, $, % or \\"),
        ("  data_dir: relative\n", "line 4: spec.data_dir is not an absolute path"),
        (
            "  service: {start: a, stop: b, reload: c, pid_file: d}\n",
            "line 4: spec.service.pid_file is not an absolute path",
        ),
        ("  window_length: 8d\n", "line 4: spec.window_length is not 7d or shorter"),
    ] {
        let image = Image::new("1.0.0");
        image.settings(line);
        let commands = if line.contains("enabled") { &["update", "plan"][..] } else { &["update", "status", "verify"] };
        for command in commands {
            image.run(&[command]).fails(1, what);
        }
    }
}

#[test]
fn links_are_not_put_among_versions_data_or_units() {
    let image = Image::new("1.0.0");
    std::fs::create_dir_all(image.path("/opt")).unwrap();
    symlink(VERSIONS, image.path("/opt/link")).unwrap();
    let before = image.tree();
    for (path, what) in [
        ("/", "the root directory"),
        ("/opt/..", "the root directory"),
        ("/var/lib/teleport", "the agent's data directory"),
        (VERSIONS, "in the versions directory"),
        ("/var/lib/teleport/versions/bin", "in the versions directory"),
        ("/opt/link", "in the versions directory"),
        ("/etc/systemd/system", "a directory of systemd's units"),
        ("/usr/local/lib/systemd/system/x", "a directory of systemd's units"),
        ("/usr/lib/systemd/system", "a directory of systemd's units"),
    ] {
        image.enable(&["--path", path]).fails(2, &format!("it is {what}"));
    }
    image.enable(&["--path", "/srv/agent", "--data-dir", "/srv/agent"]).fails(2, "it is the agent's data directory");
    assert_eq!(image.tree(), before);
    assert!(image.cluster.requests().is_empty());
    image.enable(&["--path", "/var/lib/teleport/bin"]).ok();
}

#[test]
fn a_place_among_versions_that_a_hand_wrote_is_told_of_and_left_again() {
    let image = with_a_release();
    edit(&image, "  proxy:", &format!("  path: {VERSIONS}\n  proxy:"));
    let what = "the links to the binaries cannot be in /var/lib/teleport/versions";
    let links = || std::fs::read_link(image.path("/usr/local/bin/teleport")).unwrap();
    let before = links();
    image.run(&["verify"]).fails(1, what);
    image.run(&["plan"]).fails(1, what);
    image.run(&["update"]).fails(1, what);
    assert_eq!(links(), before);
    image.enable(&["--path", "/usr/local/bin"]).ok();
    assert_eq!(links(), Path::new(VERSIONS).join("2.0.0/bin/teleport"));
    image.run(&["verify"]).ok();
}

#[test]
fn links_in_a_directory_that_a_hand_replaced_in_the_settings_go_with_the_next_update() {
    for (before, after) in [("", "/opt/a/bin"), ("/opt/a/bin", "/opt/b/bin"), ("/opt/a/bin", "")] {
        let dir = |path: &str| if path.is_empty() { "/usr/local/bin" } else { path }.to_owned();
        let image = Image::new("1.0.0");
        let place = dir(before);
        image.enable(&["--path", &place]).ok();
        let line = |path: &str| if path.is_empty() { String::new() } else { format!("  path: {path}\n") };
        let text = image.config().replace(&line(before), "");
        std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
        edit(&image, "  proxy:", &format!("{}  proxy:", line(after)));
        image.run(&["verify"]).fails(1, &format!("{place}/teleport is a link of an earlier directory"));
        image.update_to("2.0.0");
        assert_eq!(std::fs::read_dir(image.path(&place)).unwrap().count(), 0, "{before:?} {after:?}");
        let target = std::fs::read_link(image.path(&dir(after)).join("teleport")).unwrap();
        assert_eq!(target, Path::new(VERSIONS).join("2.0.0/bin/teleport"));
        image.run(&["verify"]).ok();
    }
}

#[test]
fn a_data_directory_that_is_none_is_not_taken_for_an_agent_without_a_database() {
    type Put = fn(&Path);
    let put: [(Put, &str); 3] = [
        (|path| symlink("data", path).unwrap(), "agent's data directory"),
        (|path| std::fs::write(path, "").unwrap(), "/srv/data: it is not a directory"),
        (|path| symlink("/etc/teleport.yaml/data", path).unwrap(), "Not a directory"),
    ];
    for (put, what) in put {
        let image = with_a_release();
        std::fs::create_dir_all(image.path("/srv")).unwrap();
        std::fs::write(image.path("/etc/teleport.yaml"), "teleport:\n  data_dir: /srv/data\n").unwrap();
        put(&image.path("/srv/data"));
        image.run(&["update"]).fails(1, what);
        image.run(&["verify"]).fails(1, "cannot use the agent's data directory");
        std::fs::remove_file(image.path("/srv/data")).unwrap();
        image.run(&["update"]).ok();
    }
}

#[test]
fn another_installations_link_and_database_are_not_taken() {
    let image = Image::enabled("1.0.0");
    let before = image.tree();
    let dev = |more: &[&str]| image.enable(&[&["--install-suffix", "dev"], more].concat());
    dev(&["--path", "/usr/local/bin"])
        .fails(2, "/usr/local/bin/teleport is a link of the installation that teleport.service starts");
    std::fs::write(image.path("/etc/teleport_dev.yaml"), "teleport:\n  data_dir: /var/lib/teleport\n").unwrap();
    dev(&[]).fails(1, "/var/lib/teleport is also the data directory of the installation that teleport.service starts");
    std::fs::remove_file(image.path("/etc/teleport_dev.yaml")).unwrap();
    let ours = |tree: Vec<String>| tree.into_iter().filter(|line| !line.contains("teleport_dev")).collect::<Vec<_>>();
    assert_eq!(ours(image.tree()), ours(before));
    dev(&[]).ok();
    // And the other way round.
    image
        .enable(&["--path", "/opt/teleport/dev/bin"])
        .fails(2, "is a link of the installation that teleport_dev.service starts");
    image
        .enable(&["--data-dir", "/var/lib/teleport_dev"])
        .fails(1, "the installation that teleport_dev.service starts");
    image.run(&["verify"]).ok();
}

#[test]
fn what_another_installation_has_is_not_taken_by_a_hand_or_behind_a_link() {
    let image = Image::enabled("1.0.0");
    let dev = |more: &[&str]| image.enable(&[&["--install-suffix", "dev"], more].concat());
    dev(&[]).ok();
    std::fs::create_dir_all(image.path("/srv")).unwrap();
    symlink("/var/lib/teleport", image.path("/srv/link")).unwrap();
    for (args, what) in [
        (
            ["--path", "/var/lib/teleport/versions/1.0.0/bin"],
            "a directory of the installation that teleport.service starts",
        ),
        (["--path", "/var/lib/teleport"], "a directory of the installation that teleport.service starts"),
        (["--path", "/srv/link"], "a directory of the installation that teleport.service starts"),
    ] {
        dev(&args).fails(2, what);
    }
    dev(&["--data-dir", "/var/lib/teleport/versions/1.0.0"]).fails(1, "it is in a versions directory");
    dev(&["--data-dir", "/srv/link"])
        .fails(1, "is also the data directory of the installation that teleport.service starts");
    // Teleport's own default, which the agent of this configuration takes.
    std::fs::write(image.path("/etc/teleport_dev.yaml"), "teleport: {}\n").unwrap();
    dev(&[]).fails(1, "/var/lib/teleport is also the data directory of the installation that teleport.service starts");
    let both = |args: &[&str]| image.run(&[&["--install-suffix", "dev"], args].concat());
    both(&["verify"]).ok();
    assert!(both(&["verify"]).stderr.contains("is also the data directory of"));
    std::fs::remove_file(image.path("/etc/teleport_dev.yaml")).unwrap();
    // By hand, without a word to `enable`.
    edit(&image, "  proxy:", "  path: /opt/teleport/dev/bin\n  proxy:");
    image.release("2.0.0");
    let link = || std::fs::read_link(image.path("/opt/teleport/dev/bin/teleport")).unwrap();
    let before = link();
    for command in [&["update"][..], &["verify"], &["verify", "--repair"], &["plan"]] {
        image
            .run(command)
            .fails(1, "/opt/teleport/dev/bin/teleport is a link of the installation that teleport_dev.service starts");
    }
    assert_eq!(link(), before);
    image.enable(&["--path", "/usr/local/bin"]).ok();
    assert_eq!(link(), before);
}

#[test]
fn no_move_saves_or_restores_the_database_of_another_installation() {
    let image = Image::new("1.0.0");
    let dev = ["--install-suffix", "dev"];
    let run = |args: &[&str]| image.run(&[&dev, args].concat());
    let [database, _] = ["teleport", "teleport_dev"].map(|name| {
        let database = image.path(&format!("/var/lib/{name}/proc/sqlite.db"));
        std::fs::create_dir_all(database.parent().unwrap()).unwrap();
        rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE rows (note TEXT)").unwrap();
        database
    });
    image.enable(&[]).ok();
    image.enable(&dev).ok();
    // A copy of the first one's configuration, after `enable`.
    let (config, shared) = (image.path("/etc/teleport_dev.yaml"), "teleport:\n  data_dir: /var/lib/teleport\n");
    std::fs::write(&config, shared).unwrap();
    let refusal = "/var/lib/teleport is also the data directory of the installation that teleport.service starts";
    image.release("2.0.0");
    // Its way back would be refused, too.
    run(&["update"]).fails(1, refusal);
    std::fs::remove_file(&config).unwrap();
    run(&["update"]).ok();
    std::fs::write(&config, shared).unwrap();
    rusqlite::Connection::open(&database).unwrap().execute("INSERT INTO rows VALUES ('theirs')", []).unwrap();
    run(&["rollback"]).fails(1, refusal);
    assert_eq!(sql_of(&database, "SELECT note FROM rows"), ["theirs"]);
}

#[test]
fn a_link_directory_that_cannot_be_made_is_refused_before_the_first_step() {
    for by_hand in [false, true] {
        let image = with_a_release();
        std::fs::create_dir_all(image.path("/opt")).unwrap();
        std::fs::write(image.path("/opt/file"), "").unwrap();
        symlink("loop", image.path("/opt/loop")).unwrap();
        for (path, what) in [
            ("/opt/file", "no link can be made in /opt/file: it is not a directory"),
            ("/opt/file/bin", "no link can be made in /opt/file/bin: Not a directory"),
            ("/opt/loop", "no link can be made in /opt/loop: its symlinks lead in a circle"),
        ] {
            if by_hand {
                let text = image.config();
                edit(&image, "  proxy:", &format!("  path: {path}\n  proxy:"));
                for command in [&["update"][..], &["verify", "--repair"], &["plan"], &["pin", "-f", "2.0.0"]] {
                    image.run(command).fails(1, what);
                }
                std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
            } else {
                image.enable(&["--path", path]).fails(2, what);
            }
            assert!(!image.versions().join(".journal").exists());
        }
        image.run(&["update"]).ok();
        image.run(&["verify"]).ok();
        image.run(&["uninstall"]).ok();
    }
}

/// By the flag and by a hand, whoever can write there: root starts the agent from it.
#[test]
fn a_link_directory_of_others_is_refused() {
    let image = with_a_release();
    let chmod = |path: &str, mode| {
        std::fs::create_dir_all(image.path(path)).unwrap();
        std::fs::set_permissions(image.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (dir, open, mode) in [
        ("/opt/bin", "/opt/bin", 0o777),
        ("/opt/bin", "/opt/bin", 0o1777),
        ("/opt/a/bin", "/opt/a", 0o757),
        ("/opt/a/not/there/yet", "/opt/a", 0o777),
        ("/opt/link", "/opt/bin", 0o777),
    ] {
        chmod("/opt/a/bin", 0o755);
        chmod(open, mode);
        let _ = symlink("bin", image.path("/opt/link"));
        image.enable(&["--path", dir]).fails(2, "can be changed by users other than root").says("--path DIR");
        let text = image.config();
        edit(&image, "  enabled: true\n", &format!("  enabled: true\n  path: {dir}\n"));
        image.run(&["update"]).fails(1, "can be changed by users other than root");
        assert_eq!(image.last_result()["error_code"], "permission");
        std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
        chmod(open, 0o755);
    }
    image.enable(&["--path", "/opt/bin"]).ok();
    // Of the usual one the distribution decides: Debian's is its group `staff`'s.
    chmod("/usr/local/bin", 0o777);
    image.enable(&["--path", "/usr/local/bin"]).ok();
}

#[test]
fn settings_with_which_nothing_is_updated_are_told_by_the_status() {
    let image = with_a_release();
    for (line, code, what) in [
        ("  path: /etc/systemd/system\n", "path_taken", "cannot be in /etc/systemd/system"),
        ("  data_dir: /etc/teleport.yaml\n", "config_invalid", "cannot use the agent's data directory"),
        ("  source: channel+http://h/x\n", "config_invalid", "http"),
        ("  base_url: http://h/x\n", "config_invalid", "is not encrypted"),
    ] {
        let text = image.config();
        std::fs::write(image.path("/etc/teleport.yaml"), "").unwrap();
        edit(&image, "  enabled: true\n", &format!("  enabled: true\n{line}"));
        if line.contains("base_url") {
            let without: String =
                text.lines().filter(|line| !line.contains("base_url")).map(|line| format!("{line}\n")).collect();
            std::fs::write(image.versions().join("updates.yaml"), without).unwrap();
            edit(&image, "  enabled: true\n", &format!("  enabled: true\n{line}"));
        }
        let ran = image.run(&["update"]);
        assert_eq!(ran.status, 1, "{line} {ran:#?}");
        let last = image.last_result();
        assert_eq!(last["error_code"], code, "{line} {last}");
        assert!(last["message"].as_str().unwrap().contains(what), "{line} {last}");
        std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
    }
}

#[test]
fn advice_names_the_installation_that_it_is_for() {
    let image = Image::new("1.0.0");
    image.enable(&["--install-suffix", "dev"]).ok();
    let ran = image.run(&["--install-suffix", "dev", "rollback"]).fails(1, "");
    let options = format!("`teleport-update --root {} --install-suffix dev status`", image.root().display());
    assert!(ran.stderr.contains(&options), "{ran:#?}");
}

#[test]
fn a_root_that_is_not_there_is_not_an_empty_host() {
    let image = Image::new("1.0.0");
    std::fs::write(image.path("/file"), "").unwrap();
    for (inside, what) in [("absent", "there is no such directory"), ("file", "this is not a directory")] {
        let root = image.path(inside).display().to_string();
        for command in [&["status"][..], &["verify"], &["update"], &["enable", "--proxy", &image.cluster.addr()]] {
            let output = Command::new(updater()).env_clear().args(["--root", &root]).args(command).output().unwrap();
            Ran::of(&output).fails(2, &format!("--root {root}: {what}"));
        }
    }
    assert_eq!(image.tree().len(), 2);
}
