//! A dry run of a plan on a host (DIRECTIVES §3): what a rollout server asks a host to try, and what the host says of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Version;
use crate::find::fleet;
use crate::installer::{InstallerOrder, attributes};

/// What a host reports whose dry run found nothing wrong, in place of the code of an error.
pub const PREPARED: &str = "prepared";
/// Longest code that is taken.
const MAX_CODE: usize = 64;

/// `fleet.dry_run`: the host prepares this version as if it were to install it, and removes it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryRunOrder {
    /// The UUID of the plan. A host does it once.
    pub plan: String,
    /// The version.
    pub version: Version,
    /// What would install it, where that is not the updater's usual way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installer: Option<InstallerOrder>,
    /// What else is known of the version; absent: nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

impl DryRunOrder {
    /// Reads `fleet.dry_run` of a find answer; `None`: there is none, or it is not understood.
    pub fn parse(body: &[u8]) -> Option<Self> {
        // Not by serde's code for this type, which is larger in the updater than all else of dry runs.
        let order = &fleet(body)?["dry_run"];
        Some(Self {
            plan: order["plan"].as_str()?.to_owned(),
            version: order["version"].as_str()?.parse().ok()?,
            installer: InstallerOrder::read(order.get("installer").cloned()).ok()?,
            attributes: attributes(&order["attributes"]),
        })
    }
}

/// What came of a dry run, as a report has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryRunResult {
    /// The UUID of the plan.
    pub plan: String,
    /// `prepared`, or the code of the error that an update would have ended with.
    pub code: String,
}

impl DryRunResult {
    /// Of a text of both, with a blank between.
    pub fn of(text: &str) -> Option<Self> {
        let (plan, code) = text.split_once(' ')?;
        Some(Self { plan: plan.to_owned(), code: code.to_owned() })
    }

    /// Whether the code may be one: letters `a-z`, digits and `_`, at most 64.
    pub fn has_code(&self) -> bool {
        let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        (1..=MAX_CODE).contains(&self.code.len()) && self.code.bytes().all(is_usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_is_read_as_it_is_written_or_not_at_all() {
        let order = r#"{"plan":"p","version":"1.2.0","attributes":{"length":"7"}}"#;
        let answer = format!(r#"{{"agent_version":"1.0.0","fleet":{{"rollout":1,"dry_run":{order}}}}}"#);
        let read = DryRunOrder::parse(answer.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), order);
        for none in
            ["", "{}", r#"{"fleet":{}}"#, r#"{"fleet":{"dry_run":null}}"#, r#"{"fleet":{"dry_run":{"plan":"p"}}}"#]
        {
            assert_eq!(DryRunOrder::parse(none.as_bytes()), None, "{none}");
        }
        let code = |code: &str| DryRunResult { code: code.to_owned(), ..DryRunResult::default() }.has_code();
        assert!(code(PREPARED) && code("no_space") && !code("") && !code("a b") && !code(&"a".repeat(65)));
    }
}
