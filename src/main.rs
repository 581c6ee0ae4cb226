//! args → host → re-exec → command → exit status; nothing else.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser;
use protocol::handover::{FAILED, GUARD};
use teleport_update::cli::Cli;
use teleport_update::{Context, Host, Report, signal};

fn main() -> ExitCode {
    signal::begin_anew();
    // A panic is a bug of ours: end by a signal, so that the older updater takes over (SPEC §5).
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("teleport-update: internal error, please report it: {panic}");
        std::process::abort();
    }));
    let host = Host::current();
    let cli = match Cli::try_parse_from(&host.args) {
        Ok(cli) => cli,
        Err(said) => return tell(&said),
    };

    let voice = Report::new(|name| host.var(name), &cli.global);
    let is_child = host.var(GUARD).is_some();
    let ran = Context::new(host, &cli.global).and_then(|mut context| teleport_update::run(&cli, &mut context));
    let status = ran.unwrap_or_else(|error| {
        voice.error(&error);
        error.exit_status()
    });
    // Status 1 can be a loader's: the updater that handed over must know that this is ours.
    ExitCode::from(if is_child && status == 1 { FAILED } else { status })
}

/// Help, the version, or what is wrong with the arguments. Whoever keeps that in a file is told if it is not all there.
fn tell(said: &clap::Error) -> ExitCode {
    match said.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // The same standard error may be what is full.
            let _ = writeln!(std::io::stderr(), "error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)),
    }
}

/// What the standard library walks a stack with. Nothing does here: a panic aborts, and no tables are linked (`build/unwind.ld`). Its
/// own would bring 250 KB that read them, and debug information, in vain.
#[cfg(panic = "abort")]
mod unwinding {
    /// `_URC_END_OF_STACK`: there is nothing to be walked.
    #[unsafe(no_mangle)]
    extern "C" fn _Unwind_Backtrace() -> i32 {
        5
    }

    macro_rules! never_called {
        ($($name:ident)*) => {
            $(#[unsafe(no_mangle)]
            extern "C" fn $name() {
                std::process::abort()
            })*
        };
    }

    never_called! {
        _Unwind_GetDataRelBase _Unwind_GetIP _Unwind_GetIPInfo _Unwind_GetLanguageSpecificData _Unwind_GetRegionStart
        _Unwind_GetTextRelBase _Unwind_Resume _Unwind_SetGR _Unwind_SetIP
    }
}
