//! What stands behind the arrow of a run.

use std::time::Duration;

use super::super::Ran;

/// The exit status, 0 if left out, `any` or `fails`; then, in any order:
///
/// * `code:` its error code; `prints:` on standard output; `either:A|B` one of these on standard error; `not:` on neither stream; `once:` on standard error and not again; any other text on standard error, with `[..]` for
///   anything within a line;
/// * `one-line`: on standard error, `quiet`: nothing there; `silent`: something there, and nothing on standard output;
/// * `within:` and `least:` so many seconds.
#[track_caller]
pub(super) fn check(ran: &Ran, took: Duration, args: &[&str], expected: &[&str]) {
    let status = match expected.first() {
        Some(&"fails") if ran.status != 0 => Some(ran.status),
        Some(&"any") => Some(ran.status),
        first => first.and_then(|word| word.parse().ok()),
    };
    assert_eq!(ran.status, status.unwrap_or(0), "{args:?}: {ran:#?}");
    for word in &expected[usize::from(status.is_some())..] {
        let is_so = match word.split_once(':') {
            Some(("code", code)) => ran.error_code() == code,
            Some(("prints", text)) => has(&ran.stdout, text),
            Some(("either", texts)) => texts.split('|').any(|text| has(&ran.stderr, text)),
            Some(("not", text)) => !ran.stdout.contains(text) && !ran.stderr.contains(text),
            Some(("once", text)) => ran.stderr.matches(text).count() == 1,
            Some(("within", seconds)) => took < Duration::from_secs(seconds.parse().unwrap()),
            Some(("least", seconds)) => took >= Duration::from_secs(seconds.parse().unwrap()),
            None if *word == "one-line" => ran.stderr.lines().count() == 1,
            None if *word == "quiet" => ran.stderr.is_empty(),
            None if *word == "silent" => ran.stdout.is_empty() && !ran.stderr.is_empty(),
            _ => has(&ran.stderr, word),
        };
        assert!(is_so, "{args:?}: {word:?} is not so of {ran:#?} after {took:?}");
    }
}

/// Whether `wanted` is in `text`, with anything of one line for each `[..]`.
fn has(text: &str, wanted: &str) -> bool {
    let parts =
        |line: &str| wanted.split("[..]").try_fold(0, |at, part| Some(at + line[at..].find(part)? + part.len()));
    if wanted.contains("[..]") { text.lines().any(|line| parts(line).is_some()) } else { text.contains(wanted) }
}
