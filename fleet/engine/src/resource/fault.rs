//! What is wrong with a resource, told so that it can be corrected without looking anything up.

use crate::plain::cleaned;
use std::cell::RefCell;
use std::fmt;

/// Most faults that are told at once: who wrote more of them wrote something else.
const MOST: usize = 20;
/// Most faults that are remembered while reading, so that a hostile text costs no memory.
const KEPT: usize = 1000;

/// One thing that is wrong, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceFault {
    /// The line of the whole text, from 1.
    pub line: usize,
    /// The key, such as `spec.agents.schedules.regular[1].start_hour`; empty where the fault is the whole document's.
    pub key: String,
    /// What was found, and what is allowed.
    pub what: String,
    /// The line where the same stands before, of which `what` is said.
    pub before: Option<usize>,
}

impl ResourceFault {
    /// The same of a text that was joined of several files: `place` is the file of a line of the whole, and its line there.
    pub fn in_files(&self, place: impl Fn(usize) -> (String, usize)) -> String {
        let (file, line) = place(self.line);
        let before = self.before.map(|line| {
            let (file, line) = place(line);
            format!("line {line} of {file}")
        });
        format!("{file}: line {line}: {}", self.after_line(before))
    }

    fn after_line(&self, before: Option<String>) -> String {
        let key = if self.key.is_empty() { String::new() } else { format!("{}: ", self.key) };
        let before = before.map(|before| format!(" in {before} as well")).unwrap_or_default();
        format!("{key}{}{before}", self.what)
    }
}

impl fmt::Display for ResourceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.before.map(|line| format!("line {line}"));
        write!(f, "line {}: {}", self.line, self.after_line(before))
    }
}

/// What is wrong with a text: at least one fault and at most 20, in the order of the text. Shown a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<ResourceFault>);

impl Faults {
    /// The faults, in the order of the text.
    pub fn list(&self) -> &[ResourceFault] {
        &self.0
    }
}

impl From<yaml::Fault> for Faults {
    fn from(fault: yaml::Fault) -> Self {
        // The parser may repeat what it found there as it is.
        let what = cleaned(&fault.what);
        Self(vec![ResourceFault { line: fault.line.max(1), key: String::new(), what, before: None }])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ResourceFault::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Faults {}

/// Where readers put what they find.
#[derive(Debug, Default)]
pub(super) struct FaultList(RefCell<Vec<ResourceFault>>);

impl FaultList {
    pub(super) fn add(&self, fault: ResourceFault) {
        let mut faults = self.0.borrow_mut();
        if faults.len() < KEPT {
            faults.push(fault);
        }
    }

    /// `value` if nothing was found.
    pub(super) fn end<T>(self, value: T) -> Result<T, Faults> {
        let mut faults = self.0.into_inner();
        if faults.is_empty() {
            return Ok(value);
        }
        faults.sort_by_key(|fault| fault.line);
        // An item that two checks look at.
        faults.dedup();
        faults.truncate(MOST);
        Err(Faults(faults))
    }
}
