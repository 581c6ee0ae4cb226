//! `test-crash UPDATER`: every flow, once, without a crash.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(updater) = std::env::args_os().nth(1) else {
        eprintln!("usage: test-crash UPDATER");
        return ExitCode::from(2);
    };
    let updater = test_crash::Updater::new(updater.as_ref());
    for name in test_crash::NAMES {
        let flow = test_crash::flow(name, &updater);
        println!("{name}: {}", flow.args.join(" "));
    }
    ExitCode::SUCCESS
}
