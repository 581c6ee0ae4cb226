//! The SELinux policy module without a machine that enforces it: it compiles, it labels what it should, and no rule gives
//! the agent or an unchecked program what is the updater's. What the kernel makes of it: `tests/selinux/run.sh`.

use crate::support::*;

/// The compiled module and what can be read of it.
struct Module {
    dir: tempfile::TempDir,
    cil: String,
}

impl Module {
    /// The updater's.
    fn built() -> Option<Self> {
        Self::of("teleport-update")
    }

    /// Compiles that of `program`; `None`, with the reason on stderr, where the tools or the headers are missing.
    fn of(program: &str) -> Option<Self> {
        let tools = ["checkmodule", "semodule_package", "setfiles", "m4", "matchpathcon"];
        let missing =
            tools.iter().find(|tool| Command::new("which").arg(tool).output().is_ok_and(|o| !o.status.success()));
        let headers = Path::new("/usr/share/selinux/devel/include/support").exists();
        let (None, true) = (missing, headers) else {
            eprintln!("skipped: no tools or headers for SELinux policies ({missing:?}); tests/setup.sh selinux");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().join(format!("{program}.cil"));
        compile(&module);
        let cil = std::fs::read_to_string(module).unwrap();
        Some(Self { dir, cil })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The type that the module's contexts give to `path`, a file (`f`), directory (`d`) or link (`l`); `None`: none.
    fn type_of(&self, path: &str, kind: &str) -> Option<String> {
        let contexts = self.path("contexts");
        if !contexts.exists() {
            let lines: String = self.cil.lines().filter_map(context_line).collect();
            std::fs::write(&contexts, lines).unwrap();
        }
        let found =
            Command::new("matchpathcon").args(["-n", "-m", kind, "-f"]).arg(contexts).arg(path).output().unwrap();
        text(&found).trim().split(':').nth(2).map(str::to_owned)
    }

    /// The permissions that `from` has by a rule of the module on `to` and `class`.
    fn rights(&self, from: &str, to: &str, class: &str) -> BTreeSet<&str> {
        let head = format!("(allow {from} {to} ({class} (");
        self.cil
            .lines()
            .filter_map(|line| line.trim().strip_prefix(head.as_str()))
            .flat_map(|rest| rest.trim_end_matches(')').split(' '))
            .collect()
    }
}

/// `(filecon "PATH" KIND (USER ROLE TYPE ((LEVEL) (LEVEL))))` as the line of `file_contexts` that it becomes.
fn context_line(line: &str) -> Option<String> {
    let (path, rest) = line.trim().strip_prefix("(filecon \"")?.split_once("\" ")?;
    let (kind, context) = rest.split_once(' ').unwrap();
    let kind = match kind {
        "any" => "",
        "file" => "--",
        "dir" => "-d",
        "symlink" => "-l",
        other => panic!("not a kind: {other}"),
    };
    let parts: Vec<&str> = context.trim_matches(['(', ')']).split(' ').collect();
    let context = match parts[..] {
        [user, role, kind, ..] => format!("{user}:{role}:{kind}:s0"),
        _ => "<<none>>".to_owned(),
    };
    Some(format!("{path}\t{kind}\t{context}\n"))
}

fn checkout(path: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()))
        .join(path)
}

#[track_caller]
fn compile(module: &Path) {
    succeeded(Command::new(checkout("selinux/build.sh")).arg(module));
}

#[track_caller]
fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_module_compiles_and_twice_to_the_same_bytes() {
    let Some(module) = Module::built() else { return };
    std::fs::create_dir(module.path("again")).unwrap();
    let again = module.path("again/teleport-update.cil");
    compile(&again);
    assert!(std::fs::read(&again).unwrap() == std::fs::read(module.path("teleport-update.cil")).unwrap());
}

#[test]
fn every_path_of_the_layout_has_its_type() {
    let Some(module) = Module::built() else { return };
    for base in ["/var/lib/teleport", "/var/lib/teleport_dev", "/var/lib/teleport_a-1"] {
        for (path, kind, wanted) in [
            ("", "d", "teleport_var_lib_t"),
            ("/host_uuid", "f", "teleport_var_lib_t"),
            ("/proc/sqlite.db", "f", "teleport_var_lib_t"),
            ("/proc/.sqlite.db.teleport-update", "f", "teleport_var_lib_t"),
            ("/versions", "d", "teleport_versions_t"),
            ("/versions/updates.yaml", "f", "teleport_versions_t"),
            ("/versions/.credentials", "f", "teleport_versions_t"),
            ("/versions/.journal", "f", "teleport_versions_t"),
            ("/versions/.lock", "d", "teleport_versions_t"),
            ("/versions/15.1.1", "d", "teleport_versions_t"),
            ("/versions/15.1.1/sha256", "f", "teleport_versions_t"),
            ("/versions/15.1.1/bin", "d", "teleport_bin_t"),
            ("/versions/15.1.1/bin/tsh", "f", "teleport_bin_t"),
            ("/versions/15.1.1/bin/teleport", "f", "teleport_exec_t"),
            ("/versions/15.1.1_enterprise-fips/bin/teleport", "f", "teleport_exec_t"),
            ("/versions/.staging-15.1.1/bin/teleport", "f", "teleport_exec_t"),
            ("/versions/15.1.1/bin/teleport-update", "f", "teleport_update_exec_t"),
            ("/versions/15.1.1/bin/teleport-updater", "f", "teleport_update_exec_t"),
            ("/versions/15.1.1/etc/systemd/teleport.service", "f", "teleport_unit_t"),
            ("/bin", "d", "teleport_bin_t"),
            ("/bin/teleport", "l", "teleport_bin_t"),
            ("/versions/15.1.1/backup", "d", "teleport_backup_t"),
            ("/versions/15.1.1/.backup.new", "d", "teleport_backup_t"),
            ("/versions/15.1.1/backup/sqlite.db", "f", "teleport_var_lib_t"),
            ("/versions/15.1.1/backup-failed/sqlite.db", "f", "teleport_var_lib_t"),
        ] {
            let path = format!("{base}{path}");
            assert_eq!(module.type_of(&path, kind).as_deref(), Some(wanted), "{path}");
        }
        // What is kept for others keeps the label that it has.
        assert_eq!(module.type_of(&format!("{base}/versions/.unmanaged/teleport"), "f"), None);
        assert_eq!(module.type_of(&format!("{base}/versions/.taken-over/usr/local/bin/tsh"), "l"), None);
    }
    let bootstrap = "/usr/lib/teleport-update/teleport-update";
    assert_eq!(module.type_of(bootstrap, "f").as_deref(), Some("teleport_update_exec_t"));
    assert_eq!(module.type_of("/opt/teleport/dev/bin/tsh", "l").as_deref(), Some("usr_t"));
    // Others' paths are not ours: their own policy labels them.
    for other in ["/var/lib/teleport-update", "/var/lib/teleports", "/usr/bin/teleport-update", "/opt/teleport/default"]
    {
        assert_eq!(module.type_of(other, "d"), None, "{other}");
    }
}

#[test]
fn units_have_their_label_in_usr_local_where_the_policy_takes_all_of_it_for_libraries() {
    let Some(module) = Module::built() else { return };
    for (path, kind) in [("", "d"), ("/teleport.service", "l"), ("/other.service", "f")] {
        let path = format!("/usr/local/lib/systemd/system{path}");
        assert_eq!(module.type_of(&path, kind).as_deref(), Some("systemd_unit_file_t"), "{path}");
    }
    assert_eq!(module.type_of("/usr/local/lib/libc.so", "f"), None);
    // The other policy has no such type: a file context outside a block would keep the module from loading.
    let outside = |line: &&str| line.starts_with("(filecon") && !line.contains(" teleport_");
    let others: Vec<&str> = module.cil.lines().filter(outside).collect();
    for line in others {
        let known = ["bin_t", "usr_t"].iter().any(|kind| line.contains(&format!(" {kind} "))) || line.ends_with(" ())");
        assert!(known, "{line}");
    }
}

#[test]
fn a_name_in_the_directory_of_another_gives_no_label_of_ours() {
    let Some(module) = Module::built() else { return };
    let named = |line: &&str| line.starts_with("(typetransition ") && line.contains('"');
    let transitions: Vec<&str> = module.cil.lines().map(str::trim).filter(named).collect();
    assert!(transitions.len() > 20, "{transitions:?}");
    for rule in transitions {
        let mut words = rule.split(' ').skip(1);
        let (who, place) = (words.next().unwrap(), words.next().unwrap());
        assert!(who == "teleport_update_t" || place.starts_with("teleport_"), "{rule}");
    }
}

#[test]
fn the_unit_may_do_what_an_operator_does_by_hand_and_systemd_may_follow() {
    let Some(module) = Module::built() else { return };
    let updater = "teleport_update_t";
    let reads = ["getattr", "open", "read"];
    for (who, to, class, wanted) in [
        // Names by DNS: the resolver binds its socket.
        (updater, "node_type", "udp_socket", &["node_bind"][..]),
        // What tells the name server, where it is not in /etc itself.
        (updater, "systemd_resolved_runtime_t", "dir", &["search"]),
        (updater, "systemd_resolved_runtime_t", "file", &reads),
        (updater, "systemd_resolved_var_run_t", "dir", &["search"]),
        (updater, "NetworkManager_runtime_t", "file", &reads),
        (updater, "NetworkManager_var_run_t", "dir", &["search"]),
        (updater, "net_conf_t", "file", &reads),
        // A mirror on this host.
        (updater, "var_t", "file", &reads),
        (updater, "var_lib_t", "file", &reads),
        (updater, "nfs_t", "file", &reads),
        (updater, "nfs_t", "dir", &["search"]),
        (updater, "httpd_sys_content_t", "file", &reads),
        (updater, "public_content_t", "file", &reads),
        // Which instance of a cloud this is.
        (updater, "cloud_var_lib_t", "dir", &["search"]),
        (updater, "cloud_var_lib_t", "file", &reads),
        // The links of `--path /var/lib/teleport/bin`, and who follows them.
        (updater, "teleport_bin_t", "lnk_file", &["create", "rename", "unlink"]),
        ("init_t", "teleport_bin_t", "lnk_file", &["getattr", "read"]),
        ("userdomain", "teleport_bin_t", "lnk_file", &["read"]),
        // Links to units, whatever the policy calls those.
        (updater, "systemd_unit_t", "lnk_file", &["create", "rename", "unlink"]),
        (updater, "systemd_unit_file_t", "lnk_file", &["create", "rename", "unlink"]),
        // The new main process is found by its pid file.
        ("init_t", "teleport_runtime_t", "file", &["open", "read", "ioctl", "unlink"]),
        // By hand, too, the start of the new version is waited for.
        (updater, "teleport_exec_t", "file", &["watch", "watch_reads"]),
        ("unconfined_domain_type", "teleport_exec_t", "file", &["watch", "watch_reads"]),
    ] {
        let rights = module.rights(who, to, class);
        let lacks: Vec<_> = wanted.iter().filter(|right| !rights.contains(**right)).collect();
        assert!(lacks.is_empty(), "{who} {to} {class} lacks {lacks:?}, has {rights:?}");
    }
    // Read, and no more.
    for place in ["var_t", "var_lib_t", "mnt_t", "nfs_t", "cifs_t", "iso9660_t", "public_content_t", "cloud_var_lib_t"]
    {
        let rights = module.rights(updater, place, "file");
        assert!(rights.is_subset(&BTreeSet::from(reads)), "{place}: {rights:?}");
    }
}

#[test]
fn the_confined_agent_cannot_change_versions_nor_reach_copies_nor_run_the_updater() {
    let Some(module) = Module::built() else { return };
    for ours in ["teleport_versions_t", "teleport_bin_t"] {
        assert_eq!(module.rights("teleport_t", ours, "dir"), BTreeSet::from(["getattr", "search"]), "{ours}");
        assert!(module.rights("teleport_t", ours, "file").is_empty(), "{ours}");
    }
    assert!(module.rights("teleport_t", "teleport_backup_t", "dir").is_empty());
    assert!(module.rights("teleport_t", "teleport_update_exec_t", "file").is_empty());
    assert!(module.rights("teleport_t", "teleport_update_t", "process").is_empty());
    let own = module.rights("teleport_t", "teleport_exec_t", "file");
    assert!(own.contains("execute_no_trans") && !own.contains("write"), "{own:?}");
    // The rules that there are, are found at all.
    assert!(module.rights("teleport_update_t", "teleport_versions_t", "file").contains("write"));
}

#[test]
fn a_program_being_checked_may_run_and_print_and_nothing_else() {
    let Some(module) = Module::built() else { return };
    let harmless =
        BTreeSet::from(["ioctl", "read", "getattr", "map", "execute", "open", "entrypoint", "search", "lock"]);
    let rules =
        module.cil.lines().map(str::trim).filter_map(|line| line.strip_prefix("(allow teleport_update_check_t "));
    let mut count = 0;
    for rule in rules {
        count += 1;
        let (to, rest) = rule.split_once(" (").unwrap();
        let (class, rights) = rest.split_once(" (").unwrap();
        let rights: BTreeSet<&str> = rights.trim_end_matches(')').split(' ').collect();
        match (to, class) {
            ("self", "process" | "fifo_file") | ("teleport_update_t", "process" | "fd" | "fifo_file") => {}
            ("null_device_t", "chr_file") => {}
            (_, "file" | "dir" | "lnk_file" | "chr_file") => assert!(rights.is_subset(&harmless), "{rule}"),
            _ => panic!("not expected: {rule}"),
        }
    }
    assert!(count > 10, "{count} rules were found");
    for state in ["teleport_versions_t", "teleport_var_lib_t"] {
        assert!(module.rights("teleport_update_check_t", state, "file").is_empty(), "{state}");
    }
}

#[test]
fn no_domain_of_ours_is_unconfined_permissive_or_may_change_the_policy() {
    let Some(module) = Module::built() else { return };
    assert!(!module.cil.contains("typepermissive"));
    for line in module.cil.lines().map(str::trim) {
        let ours = ["teleport_update_t", "teleport_update_check_t", "teleport_t"];
        if let Some(members) = line.strip_prefix("(typeattributeset unconfined_domain_type ") {
            assert!(!ours.iter().any(|domain| members.contains(domain)), "{line}");
        }
        if ours.iter().any(|domain| line.starts_with(&format!("(allow {domain} "))) {
            for wide in [" file_type (file (write", "(security (", "sys_module", "mac_admin", "execmem", "ptrace)"] {
                assert!(!line.contains(wide), "{line}");
            }
        }
        // Only a request by name leads into the check's domain, so that nothing else ends there.
        assert!(!(line.starts_with("(typetransition") && line.ends_with(" teleport_update_check_t)")), "{line}");
    }
}

#[test]
fn outside_optional_blocks_only_names_are_needed_that_every_policy_has() {
    let Some(module) = Module::built() else { return };
    // In the reference policy and in Fedora's, by their sources. A name more is a host more where the module may not load.
    let known: BTreeSet<&str> = "can_change_object_identity domain entry_type exec_type file_type filesystem_type non_security_file_type port_type \
        unconfined_domain_type userdomain init_t bin_t cert_t cgroup_t device_t devpts_t etc_t ld_so_cache_t ld_so_t lib_t \
        locale_t net_conf_t null_device_t proc_t proc_net_t ptmx_t random_device_t root_t security_t selinux_config_t \
        shell_exec_t sysctl_t sysctl_kernel_t sysctl_net_t sysfs_t system_dbusd_t urandom_device_t usr_t var_lib_t \
        var_run_t var_t"
        .split_whitespace()
        .collect();
    let needed: BTreeSet<&str> = module
        .cil
        .lines()
        .filter_map(|line| line.strip_prefix("(typeattributeset cil_gen_require "))
        .map(|rest| rest.trim_end_matches(')'))
        .collect();
    assert_eq!(needed, known);
    // No block with types is put into another: what one distribution lacks must not take the next block with it.
    let nested = |line: &&str| line.starts_with("        ") && line.contains("cil_gen_require");
    assert_eq!(module.cil.lines().find(nested), None);
}

#[test]
fn what_is_the_servers_has_its_type_and_nothing_else_has() {
    let Some(module) = Module::of("teleport-fleet") else { return };
    for (path, kind, wanted) in [
        ("/usr/bin/teleport-fleet", "f", "teleport_fleet_exec_t"),
        ("/usr/lib/systemd/system/teleport-fleet.service", "f", "teleport_fleet_unit_t"),
        ("/etc/teleport-fleet.yaml", "f", "teleport_fleet_etc_t"),
        ("/etc/teleport-fleet/key.pem", "f", "teleport_fleet_etc_t"),
        ("/var/lib/teleport-fleet", "d", "teleport_fleet_var_lib_t"),
        ("/var/lib/teleport-fleet/fleet.db-wal", "f", "teleport_fleet_var_lib_t"),
        ("/run/teleport-fleet", "d", "teleport_fleet_runtime_t"),
        ("/run/teleport-fleet/admin.sock", "s", "teleport_fleet_runtime_t"),
    ] {
        assert_eq!(module.type_of(path, kind).as_deref(), Some(wanted), "{path}");
    }
    for other in ["/etc/teleport.yaml", "/var/lib/teleport", "/usr/bin/teleport-update", "/var/lib/teleport-fleets"] {
        assert_eq!(module.type_of(other, "d"), None, "{other}");
    }
}

#[test]
fn the_server_may_change_its_data_alone_and_run_nothing() {
    let Some(module) = Module::of("teleport-fleet") else { return };
    let server = "teleport_fleet_t";
    assert!(module.rights(server, "teleport_fleet_var_lib_t", "file").contains("write"));
    assert_eq!(module.rights(server, "self", "capability"), BTreeSet::from(["net_bind_service"]));
    let mut count = 0;
    for rule in module.cil.lines().filter_map(|line| line.trim().strip_prefix("(allow teleport_fleet_t ")) {
        count += 1;
        let (to, rest) = rule.split_once(" (").unwrap();
        let (class, rights) = rest.split_once(" (").unwrap();
        let rights: BTreeSet<&str> = rights.trim_end_matches(')').split(' ').collect();
        let own = ["teleport_fleet_var_lib_t", "teleport_fleet_runtime_t", "teleport_fleet_tmp_t", "tmp_t"];
        if ["file", "dir", "lnk_file"].contains(&class) && !own.contains(&to) {
            assert!(!rights.contains("write") && !rights.contains("execute_no_trans"), "{rule}");
        }
        assert!(!rights.contains("execmem") && !rights.contains("ptrace"), "{rule}");
    }
    assert!(count > 20, "{count} rules were found");
    assert!(!module.cil.contains("typepermissive") && !module.cil.contains("typeattributeset unconfined_domain_type"));
    let nested = |line: &&str| line.starts_with("        ") && line.contains("cil_gen_require");
    assert_eq!(module.cil.lines().find(nested), None);
}
