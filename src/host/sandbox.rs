//! A sandbox for the thread that parses bytes from outside: it may change files below one directory, and do nothing else.
//!
//! Landlock (from Linux 5.13 on) bounds which files, seccomp bounds which system calls. Both hold for the calling thread
//! and the threads that it starts, and can't be left. What the kernel lacks is left out and told: the parser has its own
//! guards, and an update must not depend on a kernel's options.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest rights that are known here; older kernels enforce those that they have.
const RIGHTS: ABI = ABI::V6;

/// Shuts the calling thread in: from now on it can read and write files and folders below `dir` alone, by any path and
/// any handle that it has yet to open, and can start threads but no program. Gives a line for the debug log for each part
/// that does not hold.
pub(crate) fn enter(dir: impl AsFd) -> Vec<String> {
    let landlock = match restrict_files(dir) {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => Some("this kernel supports only an older version".to_owned()),
        Ok(RulesetStatus::NotEnforced) => Some("this kernel does not support it".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let gaps = [("Landlock", landlock), ("seccomp", restrict_calls().err())];
    let told = |(part, why)| Some(format!("{part} does not fully restrict the unpacking thread: {}", why?));
    gaps.into_iter().filter_map(told).collect()
}

fn restrict_files(dir: impl AsFd) -> Result<RulesetStatus, landlock::RulesetError> {
    let forbidden: BitFlags<AccessFs> = AccessFs::Execute
        | AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeFifo
        | AccessFs::MakeSock
        | AccessFs::MakeSym
        | AccessFs::Refer
        | AccessFs::IoctlDev;
    let all = AccessFs::from_all(RIGHTS);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(RIGHTS))?
        .scope(Scope::from_all(RIGHTS))?
        .create()?
        .add_rule(PathBeneath::new(dir, all & !forbidden))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// What unpacking, syncing, memory, threads, the clock and an end by panic need. Anything else is answered with ENOSYS,
/// as by a kernel that does not have it: what a later C library tries first falls back to these.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CALLS: &[libc::c_long] = &[
    // Files: no link, no rename, no removal, no change of owner; for those with a mode see MODES.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_membarrier,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals, and a panic's abort.
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tkill,
    // Clock and random numbers.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
];

/// Calls that are allowed if of an argument (its place, from 0) the bits of a mask have a value.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const ARGUMENTS: &[(libc::c_long, u8, u32, u32)] = &[
    // A mode without set-id and sticky bits.
    (libc::SYS_openat, 3, 0o7000, 0),
    (libc::SYS_mkdirat, 2, 0o7000, 0),
    (libc::SYS_fchmod, 1, 0o7000, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2, 0o7000, 0),
    // A thread, no process.
    (libc::SYS_clone, 0, libc::CLONE_THREAD as u32, libc::CLONE_THREAD as u32),
];

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn restrict_calls() -> Result<(), String> {
    filter().and_then(|program| seccompiler::apply_filter(&program)).map_err(|error| error.to_string())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn filter() -> Result<seccompiler::BpfProgram, seccompiler::Error> {
    use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};
    let mut rules = BTreeMap::new();
    rules.extend(CALLS.iter().map(|&call| (call, Vec::new())));
    for &(call, argument, mask, value) in ARGUMENTS {
        let masked = SeccompCmpOp::MaskedEq(u64::from(mask));
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, masked, u64::from(value))?;
        rules.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    Ok(SeccompFilter::new(rules, absent, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()?)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn restrict_calls() -> Result<(), String> {
    Err("there is no system call filter for this architecture".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{ErrorKind, Write as _};
    use std::path::Path;

    /// Runs `work` in a thread that is shut into `dir`; `None` where this kernel has no such sandbox.
    fn sandboxed<T: Send>(dir: &Path, work: impl FnOnce() -> T + Send) -> Option<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let gaps = enter(File::open(dir).unwrap());
                if gaps.iter().any(|gap| gap.contains("does not support it") || gap.contains("seccomp")) {
                    eprintln!("skipped: {gaps:?}");
                    return None;
                }
                Some(work())
            });
            inside.join().unwrap()
        })
    }

    #[test]
    fn below_its_directory_files_and_folders_can_be_made_and_synced() {
        let dir = tempfile::tempdir().unwrap();
        sandboxed(dir.path(), || {
            std::fs::create_dir(dir.path().join("a")).unwrap_err();
            let top = File::open(dir.path()).unwrap();
            rustix::fs::mkdirat(&top, "bin", rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
            let set_id = rustix::fs::Mode::from_raw_mode(0o4755);
            rustix::fs::mkdirat(&top, "set-id", set_id).unwrap_err();
            rustix::fs::fchmod(&top, set_id).unwrap_err();
            let mut file = File::options().write(true).create_new(true).open(dir.path().join("bin/x")).unwrap();
            file.write_all(b"x").unwrap();
            file.sync_all().unwrap();
            std::thread::scope(|scope| scope.spawn(|| top.sync_all().unwrap()).join().unwrap());
        });
    }

    #[test]
    fn a_write_outside_fails_by_path_by_handle_and_through_a_link_that_lay_there() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("there"), "untouched").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
        let folder = File::open(outside.path()).unwrap();
        sandboxed(dir.path(), || {
            let denied =
                |result: std::io::Result<File>| assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
            let open = |path: &Path| File::options().write(true).create(true).truncate(false).open(path);
            denied(open(&outside.path().join("new")));
            denied(open(&outside.path().join("there")));
            denied(open(&dir.path().join("out/new")));
            denied(open(&dir.path().join("../escaped")));
            denied(File::open(outside.path().join("there")));
            denied(File::open("/etc/hostname"));
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
            let made = rustix::fs::openat(&folder, "new", flags, rustix::fs::Mode::RUSR);
            denied(made.map(File::from).map_err(Into::into));
        });
        let left: Vec<_> = std::fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["there"]);
        assert_eq!(std::fs::read_to_string(outside.path().join("there")).unwrap(), "untouched");
        // Who is not in the sandbox is not held by it.
        std::fs::write(outside.path().join("new"), "free").unwrap();
    }

    #[test]
    fn links_renames_removals_programs_and_sockets_are_no_longer_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        sandboxed(dir.path(), || {
            let at = |name: &str| dir.path().join(name);
            assert!(std::os::unix::fs::symlink("/etc", at("s")).is_err());
            assert!(std::fs::hard_link(at("f"), at("h")).is_err());
            assert!(std::fs::rename(at("f"), at("g")).is_err());
            assert!(std::fs::remove_file(at("f")).is_err());
            assert!(std::fs::set_permissions(at("f"), std::os::unix::fs::PermissionsExt::from_mode(0o4755)).is_err());
            assert!(std::process::Command::new("/bin/true").status().is_err());
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err());
            assert!(std::os::unix::net::UnixStream::pair().is_err());
        });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
