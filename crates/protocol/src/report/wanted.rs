//! What a rollout server adds to its find answer: `fleet`.

use serde::{Deserialize, Serialize};

use super::MAX_NUMBER;
use crate::find::fleet;

/// Reports are wanted: `fleet.report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wanted {
    /// The epoch in which they are numbered; at most 2⁵³ - 1.
    pub epoch: u64,
    /// How often a host reports that has nothing new to say, seconds.
    pub interval_seconds: u32,
}

/// Of which rollout an answer is: what is read of `fleet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Rollout {
    /// Reports are wanted; `None`: this server does not ask for any.
    #[serde(default)]
    pub report: Option<Wanted>,
    /// Its number.
    #[serde(default)]
    pub rollout: u64,
    /// The attempt of the host's group: a new one forgets that the host refused this version.
    #[serde(default)]
    pub attempt: u32,
}

impl Rollout {
    /// Reads `fleet` of a find answer; `None`: the server is no rollout server, or what it says is not understood.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let fleet: Self = serde_json::from_value(fleet(body)?).ok()?;
        let is_known = fleet.report.is_none_or(|wanted| wanted.epoch <= MAX_NUMBER);
        (is_known && fleet.rollout <= MAX_NUMBER).then_some(fleet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_answer_only_what_is_understood_is_read() {
        let read = |text: &str| Rollout::parse(text.as_bytes());
        let plain = Rollout { report: None, rollout: 7, attempt: 2 };
        assert_eq!(
            read(r#"{"agent_version":"1.0.0","fleet":{"rollout":7,"attempt":2,"why":{"code":"x"}}}"#),
            Some(plain)
        );
        let wanted = Wanted { epoch: 9, interval_seconds: 900 };
        let asked = read(r#"{"fleet":{"report":{"epoch":9,"interval_seconds":900},"rollout":7,"attempt":2}}"#);
        assert_eq!(asked, Some(Rollout { report: Some(wanted), ..plain }));
        for odd in [
            "",
            "[]",
            "{}",
            r#"{"fleet":"x"}"#,
            r#"{"fleet":{"rollout":-1}}"#,
            r#"{"fleet":{"report":{"epoch":9007199254740992,"interval_seconds":1}}}"#,
            r#"{"fleet":{"report":{"epoch":1,"interval_seconds":"1"}}}"#,
        ] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }
}
