//! Why a host waits for its rollout server: the words of each reason's code. Both programs say these (FLEET §6): a host knows the code
//! alone, the server fills in names and numbers.

use serde_json::Value;

use crate::Version;
use crate::find::fleet;

/// Longest code that is read, bytes.
const MAX_CODE: usize = 40;

/// Code, words, and what stands in place of their `{}` where names and numbers are not known.
pub const WORDS: [(&str, &str, &str); 43] = [
    ("no_rollout", "there is no rollout", ""),
    ("disabled", "the mode is disabled: no host is allowed to update", ""),
    ("suspended", "the mode is suspended: no group starts, and no host is allowed to update", ""),
    ("outside_window", "its window is closed", ""),
    ("rollout_changed_during_window", "the rollout began in its window: it waits for the next window", ""),
    ("previous_groups_not_done", "{}", "a group before it is not done"),
    ("wait_hours", "its wait_hours since the start of {} are not over", "the group before it"),
    ("soak_hours", "its soak_hours since {} was done are not over", "the group before it"),
    ("blackout", "a freeze period lasts{}", ""),
    ("approval", "it needs the approval of {}", "a person"),
    ("gate", "its external check {}", "has not said go"),
    ("waiting_for_canaries", "{}", "not all canaries of its group updated"),
    ("max_in_flight", "{}", "max_in_flight allows no more hosts at the same time"),
    ("rate", "its rate allows {}", "no more hosts in this hour"),
    ("update_in_progress", "{} updated", "not all of its hosts"),
    ("nobody_on_the_way", "no host is on its way: {}, too few updated", "others failed or timed out"),
    ("no_reports", "{} and none reports: who is updated cannot be counted", "its hosts ask"),
    ("fleet_silent", "most of the fleet stopped asking at once{}", ""),
    ("empty", "the group has no hosts: it is done without any", ""),
    ("shrunk", "{}: it waits for 90 %", "too few of the hosts that were there at its start are left"),
    ("halted", "halted{}", ""),
    ("rolled_back", "rolled back: its hosts go back to the start version", ""),
    ("done", "done", ""),
    ("let_go", "it may update now", ""),
    ("updated", "it runs the target", ""),
    ("sent_back", "it goes back to the start version", ""),
    ("went_back", "it went back to the start version", ""),
    ("not_yet", "it may not update yet", ""),
    ("next_pass", "it came after this pass through its group began: it may update in the next one", ""),
    ("pinned", "its updater is pinned to a version", ""),
    ("host_disabled", "its updater is disabled, or it has none", ""),
    ("held", "an operator holds it", ""),
    ("failed_here", "{}", "this version failed here"),
    ("timed_out", "its update took too long", ""),
    ("unassigned", "it belongs to no group", ""),
    ("version_blocked", "the start version is blocked by its fleet_release{}", ""),
    ("store_unavailable", "the server does not reach its store: until it does, no host is allowed to update", ""),
    ("no_target", "no target of its entry fits this host{}", ""),
    ("no_installer", "no installer of its entry may act on this host{}", ""),
    ("recommended", "its entry recommends a version, and installs nothing", ""),
    ("directive_disabled", "the version-directive is disabled", ""),
    ("not_before", "the version-directive lets nobody go yet", ""),
    ("directive_over", "the version-directive lets nobody go any more", ""),
];

/// The words of `code`, with `details` in their place; `None`: names and numbers are not known. Empty for a code that is none.
pub fn words(code: &str, details: Option<&str>) -> String {
    let row = WORDS.iter().find(|(known, ..)| *known == code);
    row.map_or_else(String::new, |(_, words, general)| words.replacen("{}", details.unwrap_or(general), 1))
}

/// Why the asking host is told what it is told: what is read of `fleet` in a find answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The version that waits, where another one is named meanwhile.
    pub target: Option<Version>,
    /// One of [`WORDS`], or a newer server's: letters, digits and `_`, at most 40.
    pub code: String,
    /// The earliest time at which that could change, as the server writes it; not checked.
    pub until: Option<String>,
}

impl Told {
    /// Reads a find answer; `None`: it has no reason. What is not understood of it is not there.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let fleet = fleet(body)?;
        let text = |place: &str| fleet.pointer(place).and_then(Value::as_str);
        let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '_';
        let code: String = text("/why/code")?.chars().filter(is_plain).take(MAX_CODE).collect();
        let target = text("/target").and_then(|target| target.parse().ok());
        (!code.is_empty()).then(|| Self { target, code, until: text("/until").map(str::to_owned) })
    }

    /// The server's words for the code; of a code that this program does not know the code itself.
    pub fn sentence(&self) -> String {
        match words(&self.code, None) {
            unknown if unknown.is_empty() => self.code.clone(),
            words if words == self.code => words,
            words => format!("{words} ({})", self.code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_answer_the_reason_is_read_and_nothing_that_moves_a_terminal() {
        let read = |fleet: &str| Told::parse(format!(r#"{{"agent_version":"1.0.0","fleet":{fleet}}}"#).as_bytes());
        let told = read(r#"{"why":{"code":"halted","x":[1]},"until":"u","target":"1.1.0"}"#).unwrap();
        assert_eq!((told.sentence(), told.target), ("halted".to_owned(), "1.1.0".parse().ok()));
        let odd = read(r#"{"why":{"code":"moon\u001b[2J_phase"},"until":7,"target":"x/y"}"#).unwrap();
        assert_eq!(odd, Told { target: None, code: "moon2J_phase".to_owned(), until: None });
        assert_eq!(odd.sentence(), "moon2J_phase");
        assert_eq!(read(&format!(r#"{{"why":{{"code":"{}"}}}}"#, "a".repeat(900))).unwrap().code.len(), MAX_CODE);
        for none in ["{}", "7", r#"{"why":"halted"}"#, r#"{"why":{"code":7}}"#, r#"{"why":{"code":"\n"}}"#] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn every_code_has_words_that_are_whole() {
        for (code, template, general) in WORDS {
            assert!(template.contains("{}") || general.is_empty(), "{code}");
            let words = words(code, None);
            assert!(!words.is_empty() && !words.contains(['{', '}']) && code.len() <= MAX_CODE, "{code}: {words}");
        }
        assert_eq!(words("moon_phase", Some("full")), "");
    }
}
