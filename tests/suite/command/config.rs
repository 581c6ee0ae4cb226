//! `updates.yaml`, names and editions, retention, usage (SPEC §1, §2, §5).

use crate::support::*;

const HEAD: &str = "version: v1\nkind: agent_versions\n";

/// The link of the agent, from below the versions directory.
fn agent_link(image: &Image) -> String {
    let link = std::fs::read_link(image.path("/usr/local/bin/teleport")).unwrap();
    link.strip_prefix("/var/lib/teleport/versions").unwrap().display().to_string()
}

/// The names in the versions directory that do not begin with a dot, but for `updates.yaml`.
fn versions(image: &Image) -> Vec<String> {
    let mut names = names(&image.path("/var/lib/teleport/versions"));
    names.retain(|name| !name.starts_with('.') && name != "updates.yaml");
    names
}

fn write_config(image: &Image, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(image.versions()).unwrap();
    std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
}

#[test]
fn keys_that_others_own_survive_every_rewrite_at_any_depth() {
    let image = Image::new("1.0.0");
    write_config(
        &image,
        format!(
            "# ours to keep\n{HEAD}future_top: {{a: [1, two, {{three: 0123}}]}}\nspec:\n  future_spec: 1.10\n  \
             health:\n    newer_wait: 7s\n  future_list:\n    - name: a\n      deep: [x, y]\nstatus:\n  newer_note: \
             \"yes\"\n"
        ),
    );
    let survives = |after: &str| {
        let config = teleport_update::testing::yaml::Node::parse(&image.config()).unwrap();
        let at = |path: &[&str]| config.at(path).and_then(|node| node.as_str()).map(str::to_owned);
        assert_eq!(at(&["spec", "future_spec"]).as_deref(), Some("1.10"), "{after}: {}", image.config());
        assert_eq!(at(&["spec", "health", "newer_wait"]).as_deref(), Some("7s"), "{after}");
        assert_eq!(at(&["status", "newer_note"]).as_deref(), Some("yes"), "{after}");
        let top = config.at(&["future_top", "a"]).and_then(|node| node.items()).unwrap();
        assert_eq!(top[2].get("three").and_then(|node| node.as_str()), Some("0123"), "{after}");
        let list = config.at(&["spec", "future_list"]).and_then(|node| node.items()).unwrap();
        assert_eq!(list[0].get("deep").and_then(|node| node.items()).map(<[_]>::len), Some(2), "{after}");
        assert!(image.config().contains("# ours to keep"), "{after}: {}", image.config());
    };
    image.enable(&[]).ok();
    survives("enable");
    image.update_to("2.0.0");
    survives("update");
    image.run(&["pin"]).ok();
    survives("pin");
    image.run(&["unpin"]).ok();
    image.run(&["rollback"]).ok();
    survives("rollback");
    image.run(&["disable"]).ok();
    survives("disable");
    assert!(image.config().contains("enabled: false"));
}

#[test]
fn booleans_are_read_as_people_and_go_write_them() {
    let image = Image::enabled("1.0.0");
    let config = image.config();
    for (word, follows) in
        [("yes", true), ("on", true), ("True", true), ("no", false), ("off", false), ("FALSE", false)]
    {
        write_config(&image, config.replace("enabled: true", &format!("enabled: {word}")));
        image.cluster.forget_requests();
        image.run(&["update"]).ok();
        assert_eq!(!image.cluster.requests().is_empty(), follows, "{word}");
        let status = image.status();
        assert_eq!(status["agent_updates_enabled"], follows, "{word}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_line_and_nothing_is_changed() {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    let good = image.config();
    let cases: Vec<(&str, Vec<u8>, usize)> = vec![
        ("no YAML", format!("{HEAD}spec:\n  proxy: [a\n").into_bytes(), 5),
        ("a tab", format!("{HEAD}spec:\n\tproxy: a\n").into_bytes(), 4),
        ("a tab after a colon", format!("{HEAD}spec:\n  enabled:\ttrue\n").into_bytes(), 4),
        ("another kind", good.replace("kind: agent_versions", "kind: tools").into_bytes(), 2),
        ("another format", good.replace("version: v1", "version: v9").into_bytes(), 1),
        ("no boolean", good.replace("enabled: true", "enabled: maybe").into_bytes(), line(&good, "enabled:")),
        (
            "no version",
            good.replace("active_version: 1.0.0", "active_version: ../../etc").into_bytes(),
            line(&good, "active_version:"),
        ),
        ("a key twice", format!("{HEAD}spec:\n  proxy: a\n  proxy: b\n").into_bytes(), 5),
        ("two documents", format!("{HEAD}---\n{HEAD}").into_bytes(), 3),
        ("no UTF-8", [HEAD.as_bytes(), b"spec:\n  proxy: \xff\xfe\n"].concat(), 4),
        ("a list", b"- version: v1\n".to_vec(), 1),
        ("empty", Vec::new(), 1),
    ];
    for (what, bytes, line) in cases {
        write_config(&image, &bytes);
        let before = image.tree();
        for command in
            [&["enable"][..], &["update"], &["update", "--now"], &["disable"], &["pin"], &["unpin"], &["rollback"]]
        {
            image.cluster.forget_requests();
            let ran = image.run(&[&["--log-format", "json"], command].concat());
            assert_eq!((ran.status, ran.error_code().as_str()), (1, "config_invalid"), "{what} {command:?}: {ran:#?}");
            assert!(ran.stderr.contains(&format!("updates.yaml line {line}:")), "{what} {command:?}: {ran:#?}");
            assert_eq!(image.tree(), before, "{what} {command:?}");
            assert!(image.cluster.requests().is_empty(), "{what} {command:?}");
        }
    }
    std::fs::remove_file(image.versions().join("updates.yaml")).unwrap();
    std::fs::create_dir(image.versions().join("updates.yaml")).unwrap();
    let ran = image.run(&["update"]);
    assert_eq!(ran.status, 1, "{ran:#?}");
    assert!(ran.stderr.contains("updates.yaml"), "{ran:#?}");
}

/// The number of the line that contains `text`.
fn line(config: &str, text: &str) -> usize {
    1 + config.lines().position(|line| line.contains(text)).unwrap()
}

#[test]
fn a_file_with_the_rfds_keys_alone_is_enough() {
    let image = Image::enabled("1.0.0");
    let network = format!(
        "  base_url: {}\n  ca: |\n    {}\n",
        image.cluster.base_url(),
        image.cluster.ca_pem().trim_end().replace('\n', "\n    ")
    );
    let rfd =
        format!("{HEAD}spec:\n  proxy: {}\n  enabled: true\n  active_version: 1.0.0\n{network}", image.cluster.addr());
    write_config(&image, &rfd);
    // Neither the file nor the cluster names an edition: the one on disk is meant.
    let answer = serde_json::json!({"agent_version": "1.0.0", "agent_auto_update": true});
    image.cluster.set_find_body(Some(answer.to_string().as_bytes()));
    image.run(&["update"]).ok();
    let status = image.status();
    assert_eq!(status["agent_version_installed"], "1.0.0");
    assert_eq!(status["agent_edition_installed"], "oss");
    let answer = serde_json::json!({"agent_version": "2.0.0", "agent_auto_update": true});
    image.cluster.set_find_body(Some(answer.to_string().as_bytes()));
    image.cluster.publish(&Archive::simple("2.0.0"));
    image.run(&["update"]).ok();
    assert_eq!(agent_link(&image), "2.0.0/bin/teleport");
    assert!(image.config().contains("active_edition: oss"), "{}", image.config());
    let status = image.status();
    assert_eq!(status["agent_version_previous"], "1.0.0");
}

#[test]
fn neither_cluster_nor_host_knows_the_edition() {
    let image = Image::new("1.0.0");
    image.cluster.set_find_body(Some(br#"{"agent_version": "1.0.0", "agent_auto_update": true}"#));
    let args = image.enable_args();
    let args: Vec<&str> = ["--log-format", "json"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let ran = image.run(&args).refused("edition_unknown");
    assert!(ran.stderr.contains("--edition"), "{ran:#?}");
    assert!(!image.versions().exists());
    image.enable(&["--edition", "oss"]).ok();
    assert!(image.config().contains("active_edition: oss"));
}

#[test]
fn min_version_is_a_floor_that_no_cluster_undercuts() {
    let image = Image::new("2.0.0");
    image.enable(&["--min-version", "v2.0.0-rc.1"]).ok();
    let before = image.tree_but_status();
    assert!(image.config().contains("min_version: 2.0.0-rc.1"), "{}", image.config());
    image.release("1.9.9");
    for command in [&["update"][..], &["update", "--now"], &["enable"], &["pin", "--force-version", "1.9.9"]] {
        let ran = image.run(&[&["--log-format", "json"], command].concat());
        assert_eq!((ran.status, ran.error_code().as_str()), (1, "below_min_version"), "{command:?}: {ran:#?}");
        assert_eq!(image.tree_but_status(), before, "{command:?}");
    }
    assert!(image.cluster.requests_to("1.9.9").is_empty());
    // As semver says: a pre-release comes before its release.
    image.release("2.0.0-rc.0");
    image.run(&["update"]).fails(1, "min_version");
    image.update_to("2.0.1");
    assert_eq!(agent_link(&image), "2.0.1/bin/teleport");
}

#[test]
fn settings_that_would_be_too_long_to_be_read_are_not_committed() {
    let image = Image::enabled("1.0.0");
    // What others keep in the file leaves no room for what an update writes down.
    let text = image.config();
    let theirs = |bytes| format!("theirs: {}\n{text}", "x".repeat(bytes));
    let full = theirs((1 << 20) - theirs(0).len());
    std::fs::write(image.versions().join("updates.yaml"), &full).unwrap();
    image.release("1.1.0");
    let ran = image.run(&["--log-format", "json", "update"]).refused("config_invalid");
    assert!(ran.stderr.contains("would be larger than 1048576 bytes"), "{ran:#?}");
    assert_eq!((agent_link(&image).as_str(), image.config() == full), ("1.0.0/bin/teleport", true));
    image.run(&["status"]).ok();
    std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
    image.run(&["update"]).ok();
    assert_eq!(agent_link(&image), "1.1.0/bin/teleport");
}

#[test]
fn keep_says_how_many_versions_stay() {
    for (keep, expected) in [
        ("", &["3.0.0", "4.0.0"][..]),
        ("1", &["4.0.0"]),
        ("2", &["3.0.0", "4.0.0"]),
        ("3", &["2.0.0", "3.0.0", "4.0.0"]),
    ] {
        let image = Image::new("1.0.0");
        image.enable(&["--keep", keep][if keep.is_empty() { 2 } else { 0 }..]).ok();
        for version in ["2.0.0", "3.0.0", "4.0.0"] {
            image.update_to(version);
        }
        // An image has no watch that could need the version left.
        image.run(&["update"]).ok();
        assert_eq!(versions(&image), expected, "keep {keep}");
    }
}

#[test]
fn only_the_components_asked_for_are_unpacked_and_linked() {
    let image = Image::new("1.0.0");
    image.enable(&["--components", "tsh, tbot"]).ok();
    let names = |dir: &str| names(&image.path(dir));
    assert_eq!(names("/var/lib/teleport/versions/1.0.0/bin"), ["tbot", "teleport", "tsh"]);
    assert_eq!(names("/usr/local/bin"), ["tbot", "teleport", "tsh"]);
    image.run(&["verify"]).ok();
    image.update_to("2.0.0");
    assert_eq!(names("/usr/local/bin"), ["tbot", "teleport", "tsh"]);
    image.run(&["verify"]).ok();
    image.release("3.0.0");
    image.enable(&["--components", "all"]).ok();
    assert_eq!(names("/usr/local/bin"), ["fdpass-teleport", "tbot", "tctl", "teleport", "tsh"]);
    // A link that a smaller set has no use for goes.
    image.release("4.0.0");
    image.enable(&["--components", "tctl"]).ok();
    assert_eq!(names("/usr/local/bin"), ["tctl", "teleport"]);
    image.run(&["verify"]).ok();
}

#[test]
fn another_selection_of_components_holds_for_the_installed_version_too() {
    let image = Image::new("1.0.0");
    let linked = || names(&image.path("/usr/local/bin"));
    let archives = || image.cluster.requests().iter().filter(|request| request.path.ends_with(".tar.gz")).count();
    image.enable(&["--components", "tbot"]).ok();
    let agent = || std::fs::metadata(image.path("/var/lib/teleport/versions/1.0.0/bin/teleport")).unwrap().ino();
    let first = agent();
    image.enable(&["--components", "tbot,tsh"]).ok();
    assert_eq!(linked(), ["tbot", "teleport", "tsh"]);
    assert_eq!(agent(), first, "the agent runs from this file");
    image.run(&["verify"]).ok();

    let asked = archives();
    image.enable(&["--components", "tsh"]).ok();
    assert_eq!(linked(), ["teleport", "tsh"]);
    assert_eq!(names(&image.path("/var/lib/teleport/versions/1.0.0/bin")), ["tbot", "teleport", "tsh"]);
    image.run(&["verify"]).ok();
    assert_eq!(archives(), asked, "nothing is fetched for less");

    image.release("2.0.0");
    image.enable(&["--components", "all"]).ok();
    let all = ["fdpass-teleport", "tbot", "tctl", "teleport", "tsh"];
    assert_eq!(linked(), all);
    // The way back asks nobody, and takes what is there; the rest comes once the host stays.
    let asked = archives();
    image.run(&["rollback"]).ok();
    assert_eq!(archives(), asked);
    assert_eq!(linked(), ["tbot", "teleport", "tsh"]);
    image.run(&["verify"]).fails(1, "1 difference");
    image.release("1.0.0");
    image.run(&["update", "--now"]).ok();
    assert_eq!(linked(), all);
    assert_eq!(agent(), first);
    image.run(&["verify"]).ok();
}

#[test]
fn two_editions_of_one_version_stand_side_by_side_and_roll_back() {
    let image = Image::enabled("1.0.0");
    image.release_edition("1.0.0", "enterprise");
    image.run(&["update"]).ok();
    assert_eq!(versions(&image), ["1.0.0", "1.0.0_enterprise"]);
    assert_eq!(agent_link(&image), "1.0.0_enterprise/bin/teleport");
    assert!(image.config().contains("active_version: 1.0.0\n"), "{}", image.config());
    assert!(image.config().contains("active_edition: enterprise\n"), "{}", image.config());
    image.run(&["verify"]).ok();
    let status = image.status();
    assert_eq!(status["agent_edition_installed"], "enterprise");
    assert_eq!(status["agent_edition_previous"], "oss");
    image.run(&["rollback"]).ok();
    assert_eq!(agent_link(&image), "1.0.0/bin/teleport");
    assert!(image.config().contains("active_edition: oss\n"), "{}", image.config());
    image.run(&["verify"]).ok();
}

#[test]
fn a_fips_archive_has_its_own_name_and_the_enterprise_prefix() {
    let image = Image::new("1.0.0");
    image.release_edition("1.0.0", "enterprise-fips");
    image.cluster.set_dialect(testing::cluster::Dialect::Today);
    image.enable(&[]).ok();
    let name = "/cdn/teleport-ent-v1.0.0-linux-amd64-fips-bin.tar.gz";
    assert!(!image.cluster.requests_to(&format!("{name}$")).is_empty());
    assert!(image.config().contains("active_edition: enterprise-fips\n"), "{}", image.config());
    assert_eq!(agent_link(&image), "1.0.0/bin/teleport");
    // The name alone does not make an edition: the prefix must fit.
    let image = Image::new("1.0.0");
    let oss = Archive::simple("1.0.0").bytes();
    image.cluster.publish_bytes("teleport-ent-v1.0.0-linux-amd64-bin.tar.gz", &oss);
    image.cluster.set_directive(Find { edition: "enterprise".into(), ..Find::version("1.0.0") });
    image.enable(&["--log-format", "json"]).refused("archive_invalid");
}

#[test]
fn an_archive_of_another_edition_under_the_right_name_is_not_published() {
    for (wanted, served) in [("enterprise-fips", "enterprise"), ("enterprise", "enterprise-fips")] {
        let image = Image::new("1.0.0");
        let fips = if wanted == "enterprise-fips" { "-fips" } else { "" };
        let name = format!("teleport-ent-v1.0.0-linux-amd64{fips}-bin.tar.gz");
        let bytes = Archive::new("1.0.0", served, "amd64").agent(&agent_program(), "healthy", 1).bytes();
        image.cluster.publish_bytes(&name, &bytes);
        image.cluster.set_directive(Find { edition: wanted.into(), ..Find::version("1.0.0") });
        let ran = image.enable(&["--log-format", "json"]);
        assert_eq!((ran.status, ran.error_code().as_str()), (1, "version_mismatch"), "{wanted}: {ran:#?}");
        assert!(ran.stderr.contains(&format!("has edition {served}, expected {wanted}")), "{ran:#?}");
        assert!(!image.versions().join("1.0.0").exists());
    }
}

#[test]
fn a_cluster_alone_does_not_lead_a_host_out_of_fips() {
    let image = Image::new("1.0.0");
    image.release_edition("1.0.0", "enterprise-fips");
    image.enable(&[]).ok();
    image.release_edition("2.0.0", "enterprise-fips");
    image.release_edition("2.0.0", "enterprise");
    for dialect in [testing::cluster::Dialect::Today, testing::cluster::Dialect::Rfd] {
        image.cluster.set_dialect(dialect);
        let status = image.status();
        assert_eq!(status["agent_edition_desired"], "enterprise-fips");
    }
    // It follows the version, and stays what it is: also by hand, where nothing is said of editions.
    image.run(&["update", "--now"]).ok();
    image.enable(&[]).ok();
    assert!(image.config().contains("active_edition: enterprise-fips\n"), "{}", image.config());
    assert!(image.config().contains("active_version: 2.0.0\n"), "{}", image.config());
    image.enable(&["--edition", "enterprise"]).ok();
    assert!(image.config().contains("active_edition: enterprise\n"), "{}", image.config());
    image.run(&["update", "--now"]).ok();
    assert!(image.config().contains("active_edition: enterprise\n"), "{}", image.config());
    // Into it by a word of the operator's, too.
    image.enable(&["--edition", "enterprise-fips"]).ok();
    assert!(image.config().contains("active_edition: enterprise-fips\n"), "{}", image.config());
}

#[test]
fn build_metadata_makes_another_version_and_no_newer_one() {
    let image = Image::new("1.0.0+a");
    let database = image.path("/var/lib/teleport/proc/sqlite.db");
    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    image.enable(&["--min-version", "1.0.0+b"]).ok();
    for (version, other) in [("1.0.0+b", "1.0.0+a"), ("1.0.0+a", "1.0.0+b")] {
        image.release(version);
        std::fs::remove_dir_all(image.versions().join(other).join("backup")).ok();
        image.run(&["update"]).ok().says(&format!("{version} (oss): done"));
        assert_eq!(agent_link(&image), format!("{version}/bin/teleport"));
        image.run(&["update"]).ok();
    }
}

#[test]
fn comments_of_the_operators_stay_where_they_were_written() {
    let image = Image::new("1.0.0");
    image.settings(
        "  # our ticket: 42\n  enabled: true # until the freeze\n  group: \"dev\" # not prod\n  service: # no systemd\n    \
         start: a # one\n    stop: b\n    reload: c\n    pid_file: /d # the agent's\n  x-ours: [1, 2] # both\n  \
         # group: \"prod\"\n",
    );
    image.run(&["disable"]).ok();
    let config = image.config();
    for line in [
        "  # our ticket: 42\n  enabled: false # until the freeze\n",
        "  group: \"dev\" # not prod\n  service: # no systemd\n    start: a # one\n",
        "    pid_file: /d # the agent's\n",
        "  x-ours: # both\n    - 1\n    - 2\n  # group: \"prod\"\n",
    ] {
        assert!(config.contains(line), "{line} is not in {config}");
    }
}

#[test]
fn a_version_that_is_named_and_would_not_be_installed_is_refused() {
    let image = Image::new("1.0.0");
    let what = "--force-version has no effect on a host that only tells updates";
    image.enable(&["--notify-only", "-f", "1.0.0"]).fails(2, what);
    assert_eq!(image.tree(), ["etc/ 755"]);
    image.enable(&["--notify-only"]).ok();
    let before = image.tree();
    let ran = image.run_with(&["pin"], &[("TELEPORT_UPDATE_VERSION", "2.0.0")]);
    ran.fails(2, what);
    assert_eq!(image.tree(), before);
    image.release("2.0.0");
    image.enable(&["-f", "1.0.0", "--edition", "oss"]).ok();
    assert_eq!(agent_link(&image), "1.0.0/bin/teleport");
}

#[test]
fn what_is_no_version_never_becomes_a_path() {
    let image = Image::enabled("1.0.0");
    let before = image.tree();
    image.cluster.forget_requests();
    for bad in
        ["../../etc", "/etc", "1.0", "1", "01.0.0", "1.0.0/..", "1.0.0+../x", "latest", "1.0.0 ", "vv1.0.0", "1.0.0\n"]
    {
        for command in ["pin", "enable"] {
            let ran = image.run(&["--log-format", "json", command, "--force-version", bad, "--edition", "oss"]);
            assert_eq!((ran.status, ran.error_code().as_str()), (2, "usage"), "{command} {bad:?}: {ran:#?}");
        }
    }
    let too_long = format!("1.0.0-{}", "a".repeat(300));
    image.run(&["pin", "--force-version", &too_long]).fails(2, "is not a version");
    assert_eq!(image.tree(), before);
    assert!(image.cluster.requests().is_empty());
}

#[test]
fn an_environment_variable_without_a_value_says_nothing() {
    let image = Image::new("1.0.0");
    image.enable(&["--group", "g"]).ok();
    let before = image.config();
    let names = ["TELEPORT_PROXY", "TELEPORT_UPDATE_GROUP", "TELEPORT_CDN_BASE_URL", "TELEPORT_UPDATE_VERSION"];
    let env: Vec<(&str, &str)> =
        names.into_iter().chain(["HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"]).map(|name| (name, "")).collect();
    image.run_with(&["enable"], &env).ok();
    assert_eq!(image.config(), before);
}

#[test]
fn bad_usage_ends_with_2_and_changes_nothing() {
    let image = Image::new("1.0.0");
    let addr = image.cluster.addr();
    for args in [
        &[][..],
        &["frobnicate"],
        &["update", "--bogus"],
        &["enable", "--frobnicate"],
        &["enable", "--keep", "0"],
        &["enable", "--keep", "many"],
        &["enable", "--proxy", &addr, "-f", "latest"],
        &["enable", "--proxy", &addr, "--min-version", "15"],
        &["enable", "--proxy", &addr, "--edition", "platinum"],
        &["pin", "-f", "v1"],
        &["pin", "--min-version", "1.0"],
        &["enable", "--proxy", "not a host"],
        &["enable", "--proxy", "host:99999"],
        &["enable", "--proxy", &addr, "--base-url", "ftp://mirror"],
        &["enable", "--proxy", &addr, "--base-url", "mirror"],
        &["enable", "--proxy", &addr, "--base-url", "file://relative"],
        &["enable", "--proxy", &addr, "--path", "relative"],
        &["status", "--format", "xml"],
        &["--install-suffix", "../x", "status"],
        &["--install-suffix", "", "status"],
        &["--log-format", "xml", "status"],
        &["update", "now"],
    ] {
        let ran = image.run(args);
        assert_eq!(ran.status, 2, "{args:?}: {ran:#?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}: {ran:#?}");
    }
    assert!(image.cluster.requests().is_empty());
    assert_eq!(image.tree(), ["etc/ 755"]);
}

#[test]
fn of_a_file_of_authorities_only_the_certificates_are_kept() {
    let image = Image::new("1.0.0");
    let file = image.path("/ca.pem");
    let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
    let ca = std::fs::read_to_string(image.cluster.ca_file()).unwrap();
    std::fs::create_dir_all(image.root()).unwrap();
    let named = file.display().to_string();
    for text in [
        format!("{key}{ca}"),
        format!("# ours\n{ca}{key}{ca}"),
        format!("{ca}{}", key.replace("PRIVATE", "EC PRIVATE")),
    ] {
        std::fs::write(&file, &text).unwrap();
        image.enable_from(&image.cluster.base_url(), &["--ca-file", &named]).ok();
        let config = image.config();
        assert!(!config.contains("c2VjcmV0") && config.matches("BEGIN CERTIFICATE").count() == 1, "{config}");
        image.run(&["update"]).ok();
        // What the environment names goes beside it, and only once.
        let args = image.enable_args();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        image.run_with(&args[..args.len() - 2], &[("SSL_CERT_FILE", &named)]).ok();
        let config = image.config();
        assert!(!config.contains("c2VjcmV0") && config.matches("BEGIN CERTIFICATE").count() == 1, "{config}");
    }
}

#[test]
fn a_port_that_cannot_be_one_is_refused_and_is_not_the_default_one() {
    let image = Image::new("1.0.0");
    for (args, env) in [
        (["--base-url", "https://localhost:99999/x"], None),
        (["--base-url", "https://localhost:0/x"], None),
        (["--source", "channel+https://localhost:65536/x"], None),
        (["--source", "cincinnati+https://localhost:4x/x"], None),
        (["--source", "https://localhost:99999"], None),
        (["--proxy", "localhost:99999"], None),
        (["--group", "a"], Some(("HTTPS_PROXY", "http://127.0.0.1:99999"))),
        (["--group", "a"], Some(("HTTPS_PROXY", "127.0.0.1:65536"))),
        (["--group", "a"], Some(("ALL_PROXY", "http://me:pw@[::1]:70000"))),
    ] {
        let mut all = image.enable_args();
        all.extend(args.map(str::to_owned));
        // The last of a flag counts.
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let all: Vec<&str> = match all.iter().position(|arg| *arg == args[0]) {
            Some(at) if at + 2 < all.len() => [&all[..at], &all[at + 2..]].concat(),
            _ => all,
        };
        let ran = image.run_with(&all, &env.into_iter().collect::<Vec<_>>());
        assert!(
            matches!(ran.status, 1 | 2) && ran.stderr.contains("port") | ran.stderr.contains("proxy"),
            "{args:?}: {ran:#?}"
        );
        assert!(!ran.stderr.contains("cannot reach"), "{args:?}: {ran:#?}");
    }
}

#[test]
fn a_pinned_version_that_a_hand_wrote_is_not_passed_over_in_silence() {
    let image = Image::enabled("1.0.0");
    image.run(&["pin"]).ok();
    assert!(!image.run(&["update"]).ok().stderr.contains("pinned_version"));
    let text = image.config();
    assert!(text.contains("pinned_version: 1.0.0"), "{text}");
    write_config(&image, text.replace("pinned_version: 1.0.0", "pinned_version: 1.1.0"));
    image.run(&["update"]).ok().says("has pinned_version: 1.1.0, and is not active");
}

#[test]
fn long_versions_that_semver_allows_are_versions() {
    let image = Image::enabled("1.0.0");
    for pre in ["a".repeat(100), "7".repeat(60)] {
        let version = format!("1.0.1-{pre}");
        image.update_to(&version);
        assert!(agent_link(&image).contains(&version));
        image.run(&["verify"]).ok();
        image.cluster.set_directive(Find::version("1.0.0"));
        image.run(&["rollback"]).ok();
    }
}

#[test]
fn what_a_killed_download_left_goes_also_from_a_host_that_installs_nothing_more() {
    let image = Image::enabled("1.0.0");
    let left = image.versions().join(".staging-9.9.9");
    for command in [&["disable"][..], &["pin"]] {
        image.run(command).ok();
        std::fs::create_dir_all(left.join("bin")).unwrap();
        image.run(&["update"]).ok();
        assert!(!left.exists(), "{command:?}");
    }
}

#[test]
fn uninstall_finds_the_links_that_are_left_where_the_versions_were_removed() {
    let image = Image::enabled("1.0.0");
    std::fs::remove_dir_all(image.versions()).unwrap();
    image.run(&["uninstall"]).ok();
    for link in ["/usr/local/bin/teleport", "/usr/local/lib/systemd/system/teleport.service"] {
        assert!(std::fs::symlink_metadata(image.path(link)).is_err(), "{link}");
    }
    let ran = image.run(&["uninstall"]).ok();
    assert!(format!("{ran:?}").contains("nothing is installed"), "{ran:#?}");
}
