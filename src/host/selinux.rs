//! What the policy module (`selinux/`) leaves to the program. Without SELinux, or without the module, all of it is nothing.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::XattrFlags;

/// The attribute that holds a file's label.
pub const LABEL: &str = "security.selinux";
/// Longest label, bytes: more than policies have.
const MAX_LABEL: usize = 1024;
/// The updater's own domain, into which init starts it.
const UPDATER: &str = "teleport_update_t";
/// The domain in which a program runs that nobody has vouched for yet.
const CHECK: &str = "teleport_update_check_t";
/// The agent's data, and what it would be labelled without the module.
const DATA: (&str, &str) = ("teleport_var_lib_t", "var_lib_t");
/// The versions directory, labelled so by the policy as soon as it is made.
const VERSIONS: &str = "teleport_versions_t";

/// The context to ask for before an untrusted program is run; `None` unless we are in the updater's own domain.
///
/// Run by hand the updater has the domain of its caller, and the check too.
pub fn check_context() -> Option<String> {
    let own = std::fs::read_to_string("/proc/thread-self/attr/current").ok()?;
    with_type(own.trim_end_matches(['\0', '\n']), UPDATER, CHECK)
}

/// Asks the kernel to run the next program of this process in `context`. Between fork and exec: allocates nothing.
///
/// Errors: the policy refuses, and then the program must not run.
pub fn set_exec_context(context: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open("/proc/self/attr/exec")?.write_all(context.as_bytes())
}

/// Labels the new directory `state` as the agent's data, if the policy has labelled `versions` in it as ours.
///
/// The policy labels what is made by its name, and only the first installation has a name that is known beforehand.
/// Where that cannot be done the label stays as it is: `restorecon` puts it right, and so long only a confined agent minds.
pub fn label_state(state: &Path, versions: &Path) {
    let is_ours = type_of(versions).is_some_and(|found| found == VERSIONS);
    let Some(label) = read(state).filter(|_| is_ours) else { return };
    if let Some(label) = with_type(&label, DATA.1, DATA.0) {
        let _ = rustix::fs::lsetxattr(state, LABEL, format!("{label}\0").as_bytes(), XattrFlags::empty());
    }
}

fn read(path: &Path) -> Option<String> {
    let mut buffer = [0; MAX_LABEL];
    let length = rustix::fs::lgetxattr(path, LABEL, &mut buffer[..]).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}

fn type_of(path: &Path) -> Option<String> {
    read(path)?.split(':').nth(2).map(str::to_owned)
}

/// `context` (user:role:type[:level]) with `wanted` in the place of `present`; `None` if its type is another.
fn with_type(context: &str, present: &str, wanted: &str) -> Option<String> {
    let mut parts = context.splitn(4, ':');
    let (user, role, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let level = parts.next().map(|level| format!(":{level}")).unwrap_or_default();
    (kind == present).then(|| format!("{user}:{role}:{wanted}{level}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_of_a_context_changes_and_only_from_the_one_expected() {
        let own = "system_u:system_r:teleport_update_t:s0-s0:c0.c1023";
        let check = "system_u:system_r:teleport_update_check_t:s0-s0:c0.c1023";
        assert_eq!(with_type(own, UPDATER, CHECK).as_deref(), Some(check));
        assert_eq!(with_type("u:r:teleport_update_t", UPDATER, CHECK).as_deref(), Some("u:r:teleport_update_check_t"));
        for other in ["", "unconfined", "unconfined_u:unconfined_r:unconfined_t:s0", "docker-default (enforce)"] {
            assert_eq!(with_type(other, UPDATER, CHECK), None, "{other:?}");
        }
    }

    #[test]
    fn without_labels_nothing_is_asked_for_and_nothing_is_set() {
        let dir = tempfile::tempdir().unwrap();
        label_state(dir.path(), dir.path());
        if !Path::new("/sys/fs/selinux/enforce").exists() {
            assert_eq!(check_context(), None);
        }
    }
}
