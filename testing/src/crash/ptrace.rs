//! The few system calls of a tracer, each wrapped once. All unsafe code of these suites is here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{c_int, c_long, pid_t};

use crate::crash::syscalls::{Known, When};

/// Not in musl's headers; the same for all machines.
const PTRACE_GET_SYSCALL_INFO: c_int = 0x420e;
const SYSCALL_INFO_SECCOMP: u8 = 3;

/// Most arguments that a call has.
pub(crate) const ARGUMENTS: usize = 6;

/// A stopped call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped {
    pub number: i64,
    pub arguments: [u64; ARGUMENTS],
}

/// The kernel's `struct ptrace_syscall_info`, of which only the part of a seccomp stop is read.
#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    op: u8,
    padding: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    number: u64,
    arguments: [u64; ARGUMENTS],
    ret_data: u32,
}

/// One `ptrace` request.
fn request(request: c_int, pid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: each caller passes as `address` and `data` what its request wants: numbers, or pointers to memory that
    // lives until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, c_long::from(request), pid, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Starts `command` stopped behind its `execve`, traced by this thread, with `filter` stopping it from then on. `asks`: it asks for the
/// time by calls alone.
pub(crate) fn spawn(command: &mut Command, filter: Vec<libc::sock_filter>, asks: bool) -> io::Result<pid_t> {
    let install = move || {
        let program = libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
        request(libc::PTRACE_TRACEME as c_int, 0, 0, 0)?;
        let set = || {
            // SAFETY: `program` points to `filter`, and both live until the call returns; the kernel copies them.
            let set = unsafe {
                libc::syscall(libc::SYS_seccomp, c_long::from(libc::SECCOMP_SET_MODE_FILTER), 0, &raw const program)
            };
            if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        set().or_else(|_| {
            // Who is not root may filter only what can gain nothing.
            // SAFETY: numbers only.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            set()
        })
    };
    // SAFETY: the closure only makes system calls, allocates nothing and takes no lock: it may run after fork.
    let child = unsafe { command.pre_exec(install) }.spawn()?;
    let pid = pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: `status` is a place for an int.
    if unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0 || !libc::WIFSTOPPED(status) {
        return Err(io::Error::other(format!("the program did not stop behind its start: {status:#x}")));
    }
    let options = libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS as c_int, pid, 0, options as usize)?;
    if asks {
        hide_functions(pid)?;
    }
    go_on(pid, 0)?;
    Ok(pid)
}

/// The memory of a stopped process.
pub(crate) fn memory(pid: pid_t) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// Hides from a program that has not begun yet where the kernel's functions are that need no call (the vDSO).
fn hide_functions(pid: pid_t) -> io::Result<()> {
    const WORD: usize = size_of::<u64>();
    let known = std::fs::read(format!("/proc/{pid}/auxv"))?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let stack =
        maps.lines().find(|line| line.ends_with("[stack]")).and_then(|line| line.split(' ').next()?.split_once('-'));
    let (from, to) = stack.ok_or(io::ErrorKind::NotFound)?;
    let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap_or_default());
    let (memory, mut bytes) = (memory(pid)?, vec![0; (to - from) as usize]);
    memory.read_exact_at(&mut bytes, from)?;
    let at = bytes.windows(known.len()).position(|part| part == known).ok_or(io::ErrorKind::NotFound)?;
    let is_it = |pair: &[u8]| pair.starts_with(&libc::AT_SYSINFO_EHDR.to_ne_bytes());
    let entry = known.chunks(2 * WORD).position(is_it).ok_or(io::ErrorKind::NotFound)?;
    memory.write_all_at(&libc::AT_IGNORE.to_ne_bytes(), from + (at + entry * 2 * WORD) as u64)
}

/// Lets a stopped thread run, with a signal if it is not 0.
pub(crate) fn go_on(pid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_CONT as c_int, pid, 0, signal as usize).map(drop)
}

/// The next change of a traced thread; `None` when there are no more. Children of other threads are not ours to wait
/// for.
pub(crate) fn wait() -> io::Result<Option<(pid_t, c_int)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a place for an int.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid > 0 {
            return Ok(Some((pid, status)));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Sends a signal to a whole process.
pub(crate) fn kill(pid: pid_t, signal: c_int) {
    // SAFETY: numbers only.
    unsafe { libc::kill(pid, signal) };
}

/// The call that the filter stopped.
pub(crate) fn stopped(pid: pid_t) -> io::Result<Stopped> {
    let mut info = SyscallInfo::default();
    request(PTRACE_GET_SYSCALL_INFO, pid, size_of::<SyscallInfo>(), (&raw mut info) as usize)?;
    if info.op != SYSCALL_INFO_SECCOMP {
        return Err(io::Error::other(format!("not stopped by the filter: {}", info.op)));
    }
    Ok(Stopped { number: info.number as i64, arguments: info.arguments })
}

/// Lets the stopped call not happen, and return `-error`.
pub(crate) fn skip(pid: pid_t, error: c_int) -> io::Result<()> {
    let mut registers = registers::get(pid)?;
    registers::set_result(&mut registers, -i64::from(error));
    registers::put(pid, &registers)?;
    registers::set_number(pid, -1)
}

/// Changes an argument of the stopped call.
pub(crate) fn set_argument(pid: pid_t, index: usize, value: u64) -> io::Result<()> {
    let mut registers = registers::get(pid)?;
    registers::set_argument(&mut registers, index, value);
    registers::put(pid, &registers)
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{c_int, io, pid_t, request};

    pub(super) type Registers = libc::user_regs_struct;

    pub(super) fn get(pid: pid_t) -> io::Result<Registers> {
        // SAFETY: plain numbers, for which zeros are a value.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS as c_int, pid, 0, (&raw mut registers) as usize)?;
        Ok(registers)
    }

    pub(super) fn put(pid: pid_t, registers: &Registers) -> io::Result<()> {
        request(libc::PTRACE_SETREGS as c_int, pid, 0, std::ptr::from_ref(registers) as usize).map(drop)
    }

    pub(super) fn set_result(registers: &mut Registers, value: i64) {
        registers.rax = value as u64;
    }

    pub(super) fn set_number(pid: pid_t, number: c_int) -> io::Result<()> {
        let mut registers = get(pid)?;
        registers.orig_rax = i64::from(number) as u64;
        put(pid, &registers)
    }

    pub(super) fn set_argument(registers: &mut Registers, index: usize, value: u64) {
        match index {
            0 => registers.rdi = value,
            1 => registers.rsi = value,
            2 => registers.rdx = value,
            3 => registers.r10 = value,
            4 => registers.r8 = value,
            _ => registers.r9 = value,
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use super::{c_int, io, pid_t, request};

    /// Not in musl's headers.
    const NT_ARM_SYSTEM_CALL: usize = 0x404;

    pub(super) type Registers = libc::user_regs_struct;

    pub(super) fn get(pid: pid_t) -> io::Result<Registers> {
        // SAFETY: plain numbers, for which zeros are a value.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        let part = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of::<Registers>() };
        request(libc::PTRACE_GETREGSET as c_int, pid, libc::NT_PRSTATUS as usize, (&raw const part) as usize)?;
        Ok(registers)
    }

    pub(super) fn put(pid: pid_t, registers: &Registers) -> io::Result<()> {
        let base = std::ptr::from_ref(registers).cast_mut().cast();
        let part = libc::iovec { iov_base: base, iov_len: size_of::<Registers>() };
        request(libc::PTRACE_SETREGSET as c_int, pid, libc::NT_PRSTATUS as usize, (&raw const part) as usize).map(drop)
    }

    pub(super) fn set_result(registers: &mut Registers, value: i64) {
        registers.regs[0] = value as u64;
    }

    pub(super) fn set_number(pid: pid_t, number: c_int) -> io::Result<()> {
        let mut number = number;
        let part = libc::iovec { iov_base: (&raw mut number).cast(), iov_len: size_of::<c_int>() };
        request(libc::PTRACE_SETREGSET as c_int, pid, NT_ARM_SYSTEM_CALL, (&raw const part) as usize).map(drop)
    }

    pub(super) fn set_argument(registers: &mut Registers, index: usize, value: u64) {
        registers.regs[index] = value;
    }
}

/// A filter that stops these calls and lets every other one pass at full speed.
pub(crate) fn filter(calls: &[&Known]) -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const HAS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // struct seccomp_data: number, machine, instruction, six arguments of eight bytes, the low half first.
    let load = |offset: usize| libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: offset as u32 };
    let jump = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let give = |k| libc::sock_filter { code: RETURN, jt: 0, jf: 0, k };
    let makes = (libc::O_CREAT | libc::O_TRUNC) as u32;
    let (stop, pass) = (give(libc::SECCOMP_RET_TRACE), give(libc::SECCOMP_RET_ALLOW));
    let mut program = Vec::new();
    for call in calls {
        program.push(load(0));
        let number = call.number as u32;
        match call.when {
            When::Always => program.extend([jump(EQUAL, number, 0, 1), stop]),
            When::Creates(flags) | When::OnlyOpens(flags) => {
                let is_making = matches!(call.when, When::Creates(_));
                let (jt, jf) = if is_making { (0, 1) } else { (1, 0) };
                program.extend([jump(EQUAL, number, 0, 3), load(16 + 8 * flags), jump(HAS, makes, jt, jf), stop]);
            }
        }
    }
    program.push(pass);
    program
}
