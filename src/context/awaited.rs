//! Since when the lock is not to be had (SPEC §7): a run of the timer that ends with 75 leaves no other trace.

use jiff::{SignedDuration, Timestamp};
use yaml::scalar::time_text;

use crate::context::Context;
use crate::host::{durable, lock};
use crate::report::Error;

/// In the versions directory: the pid of the run that holds the lock, and when another first waited for it in vain.
const FILE: &str = ".awaited";
/// A pid and a time, bytes.
const LIMIT: u64 = 100;
/// From now on it is worth an operator's look: twice the longest honest download would be longer, and holds no lock.
const LONG: SignedDuration = SignedDuration::from_hours(1);

/// Since when the run that holds the lock now is waited for.
pub(crate) fn since(context: &Context) -> Option<Timestamp> {
    let text = durable::read_limited(&context.layout.versions.join(FILE), LIMIT).ok()??;
    let text = String::from_utf8_lossy(&text).into_owned();
    let (pid, time) = text.trim_end().split_once(' ')?;
    let holder = lock::run_of(&context.lock_path()).ok()??;
    (pid.parse() == Ok(holder)).then(|| time.parse().ok())?
}

/// Whether `since` is so long ago that nobody can mean it.
pub(crate) fn is_long(context: &Context, since: Timestamp) -> bool {
    context.host.now().duration_since(since) >= LONG
}

/// Notes that the lock was not to be had; `error` then tells since when, if that is long.
pub(crate) fn note(context: &Context, error: Error) -> Error {
    let Ok(Some(holder)) = lock::run_of(&context.lock_path()) else { return error };
    match since(context) {
        Some(since) if is_long(context, since) => {
            let since = since.to_string();
            error.advise(format!(
                "no run has been able to start since {since}: check what process {holder} is doing, and stop it if \
                 it hangs"
            ))
        }
        Some(_) => error,
        None => {
            let text = format!("{holder} {}\n", time_text(context.host.now()));
            // Who may not write waits for nobody.
            let _ = durable::write(&context.layout.versions.join(FILE), text.as_bytes(), durable::FILE_MODE);
            error
        }
    }
}

/// The lock was to be had.
pub(crate) fn over(context: &Context) {
    let file = context.layout.versions.join(FILE);
    if durable::exists(&file).unwrap_or(false) {
        let _ = durable::remove_file(&file);
    }
}
