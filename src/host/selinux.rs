//! What the policy module (`selinux/`) leaves to the program. Without SELinux, or without the module, all of it is nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::report::{Error, IoContext, Result, code_of_io};

/// The attribute that holds a file's label.
const LABEL: &str = "security.selinux";
/// Longest label, bytes: more than policies have.
const MAX_LABEL: usize = 1024;
/// The updater's own domain, into which init starts it.
const UPDATER: &str = "teleport_update_t";
/// The domain in which a program runs that nobody has vouched for yet.
const CHECK: &str = "teleport_update_check_t";
/// The agent's data, and what it would be labelled without the module.
const DATA: (&str, &str) = ("teleport_var_lib_t", "var_lib_t");
/// The kernel's word on a context: written to it, one that the loaded policy does not know is an error.
const KNOWN: &str = "/sys/fs/selinux/context";

/// The context to ask for before an untrusted program is run; `None` unless we are in the updater's own domain.
///
/// Run by hand the updater has the domain of its caller, and the check too.
pub(crate) fn check_context() -> Option<String> {
    let own = std::fs::read_to_string("/proc/thread-self/attr/current").ok()?;
    with_type(own.trim_end_matches(['\0', '\n']), UPDATER, CHECK)
}

/// Asks the kernel to run the next program of this process in `context`. Between fork and exec: allocates nothing.
///
/// Errors: the policy refuses, and then the program must not run.
pub(crate) fn set_exec_context(context: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open("/proc/self/attr/exec")?.write_all(context.as_bytes())
}

/// Whether `state`, the directory of an installation, has the label of any directory in its place although the module is
/// loaded: it was made just now, or by somebody else. `restorecon` puts it and what is in it right.
///
/// The policy could do that by name, and then every directory of that name, whoever's it is, would be ours. In the
/// updater's own domain it does, and there `restorecon` cannot be run.
pub(crate) fn awaits_label(state: &Path) -> bool {
    let Some(wanted) = read(state).and_then(|label| with_type(&label, DATA.1, DATA.0)) else { return false };
    check_context().is_none() && is_known(&wanted)
}

/// Whether the loaded policy has `context`. Asked, for who may do anything can also set a label that means nothing.
fn is_known(context: &str) -> bool {
    let file = OpenOptions::new().read(true).write(true).open(KNOWN);
    file.and_then(|mut file| file.write_all(format!("{context}\0").as_bytes())).is_ok()
}

/// The label of `path`, a link's own; `None` where there are no labels, or nothing is there. Errors: `permission`, `io`.
pub(crate) fn label(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut label = vec![0; MAX_LABEL];
    match rustix::fs::lgetxattr(path, LABEL, &mut label[..]) {
        Ok(length) => label.truncate(length),
        Err(Errno::NOTSUP | Errno::NODATA | Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error).at("cannot read the SELinux label of", path),
    }
    Ok(Some(label))
}

/// Gives the file at `path` the label `label`. Errors: also where there are no labels.
#[expect(clippy::disallowed_methods, reason = "the place where it is done; the caller syncs the file")]
pub(crate) fn set_label(path: &Path, label: &[u8]) -> Result<()> {
    rustix::fs::setxattr(path, LABEL, label, XattrFlags::empty()).at("cannot label", path)
}

/// Gives the open file `file`, which is `to`, the label of `from`, where there are labels and `from` is there.
#[expect(clippy::disallowed_methods, reason = "the place where it is done; the caller syncs the file")]
pub(crate) fn copy_label(from: &Path, to: &Path, file: &File) -> Result<()> {
    let Some(label) = label(from)? else { return Ok(()) };
    match rustix::fs::fsetxattr(file, LABEL, &label, XattrFlags::empty()) {
        Ok(()) | Err(Errno::NOTSUP) => Ok(()),
        Err(error) => {
            let what = format!("cannot set the SELinux label of {}: {error}", to.display());
            Err(Error::new(code_of_io(&error.into()), what))
        }
    }
}

fn read(path: &Path) -> Option<String> {
    let label = label(path).ok()??;
    let text = std::str::from_utf8(&label).ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}

/// `context` (`user:role:type[:level]`) with `wanted` in the place of `present`; `None` if its type is another.
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
    fn without_selinux_nothing_is_asked_for_and_no_directory_awaits_a_label() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!awaits_label(dir.path()));
        if !Path::new("/sys/fs/selinux/enforce").exists() {
            assert_eq!(check_context(), None);
            // Labels of a disk whose kernel does not use them are nobody's business.
            let label = b"system_u:object_r:var_lib_t:s0\0";
            let set = rustix::fs::lsetxattr(dir.path(), LABEL, label, XattrFlags::empty());
            assert!(!awaits_label(dir.path()), "{set:?}");
        }
    }
}
