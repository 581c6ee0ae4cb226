//! The SELinux policy module without a machine that enforces it: it compiles, it labels what it should, and no rule gives
//! the agent or an unchecked program what is the updater's. What the kernel makes of it: `tests/selinux/run.sh`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves tests")]
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where distributions keep the translator of compiled modules.
const TRANSLATORS: [&str; 2] = ["/usr/libexec/selinux/hll/pp", "/usr/lib/selinux/hll/pp"];

/// The compiled module and what can be read of it.
struct Module {
    dir: tempfile::TempDir,
    cil: String,
}

impl Module {
    /// Compiles it; `None`, with the reason on stderr, where the tools or the headers are missing.
    fn built() -> Option<Self> {
        let tools = ["checkmodule", "semodule_package", "semodule_unpackage", "m4", "matchpathcon"];
        let missing =
            tools.iter().find(|tool| Command::new("which").arg(tool).output().is_ok_and(|o| !o.status.success()));
        let translator = TRANSLATORS.into_iter().find(|path| Path::new(path).exists());
        let headers = Path::new("/usr/share/selinux/devel/include/support").exists();
        let (None, Some(translator), true) = (missing, translator, headers) else {
            eprintln!("skipped: no tools or headers for SELinux policies ({missing:?}); tests/setup.sh selinux");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().join("teleport-update.pp");
        compile(&module);
        let cil = text(&succeeded(Command::new(translator).arg(&module)));
        Some(Self { dir, cil })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The type that the module's contexts give to `path`, a file (`f`), directory (`d`) or link (`l`); `None`: none.
    fn type_of(&self, path: &str, kind: &str) -> Option<String> {
        let contexts = self.path("contexts");
        if !contexts.exists() {
            let (module, rest) = (self.path("teleport-update.pp"), self.path("rest"));
            succeeded(Command::new("semodule_unpackage").arg(module).arg(rest).arg(&contexts));
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
    let again = module.path("again.pp");
    compile(&again);
    assert!(std::fs::read(&again).unwrap() == std::fs::read(module.path("teleport-update.pp")).unwrap());
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
            ("/versions/.lock", "f", "teleport_versions_t"),
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
