//! Scripts as text, and their answers by key.

use serde_json::{Value, json};

/// A script in the making.
#[derive(Clone, Default)]
pub(crate) struct Script(String);

impl Script {
    /// Adds a line.
    pub(crate) fn line(mut self, at: &str, action: Value) -> Self {
        let mut line = json!({ "at": at });
        line.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        self.0.push_str(&line.to_string());
        self.0.push('\n');
        self
    }

    /// Its answers: a line each.
    pub(crate) fn run(&self) -> Vec<Value> {
        self.run_with(0)
    }

    /// The same with another seed.
    pub(crate) fn run_with(&self, seed: u64) -> Vec<Value> {
        let mut out = Vec::new();
        let done: Result<(), ()> = fleet_simulator::run(&self.0, seed, |line| {
            out.push(serde_json::from_str(line).unwrap());
            Ok(())
        });
        done.unwrap();
        out
    }
}

/// The group called `name` in the answer to `status`.
pub(crate) fn group<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let groups = answer["status"]["status"]["groups"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    groups.iter().find(|group| group["name"] == name).unwrap_or_else(|| panic!("no group {name}: {answer:#}"))
}

impl Script {
    /// Its lines, for whoever wants to run them again.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}
