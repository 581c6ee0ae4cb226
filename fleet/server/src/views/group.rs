//! `/groups/NAME`.

use askama::Template;
use fleet_engine::curve::RolloutCurve;
use fleet_wire::api::AuditEntry;
use fleet_wire::rollout::AgentRollout;

use super::audit::AuditRow;
use super::curve::Drawing;
use super::frame::Frame;
use super::rollout::Card;

/// A group: its state, its hosts, its failures, its history.
#[derive(Debug, Clone, Template)]
#[template(path = "group.html")]
pub(crate) struct GroupPage {
    /// What is around it.
    pub(crate) frame: Frame,
    card: Card,
    target: String,
    drawing: Option<Drawing>,
    failures: Vec<(Option<String>, u64)>,
    history: Vec<AuditRow>,
}

impl GroupPage {
    /// Of the group called `name`; `failures`: how many hosts failed by which error code, and how many timed out (`None`);
    /// `curve`: `None` if it has not begun; `history`: the newest first. `None`: the rollout has no such group.
    pub(crate) fn of(
        frame: Frame,
        rollout: &AgentRollout,
        name: &str,
        failures: Vec<(Option<String>, u64)>,
        curve: Option<&RolloutCurve>,
        history: &[AuditEntry],
    ) -> Option<Self> {
        let group = rollout.status.groups.iter().find(|group| group.name == name)?;
        let target = rollout.spec.target_version.clone();
        let history = history.iter().map(AuditRow::of).collect();
        let card = Card::of(group);
        let drawing = curve.and_then(|curve| Drawing::of(curve, group, &rollout.spec, card.all()));
        Some(Self { frame, card, target, drawing, failures, history })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_row_of_failures_leads_to_its_hosts() {
        let frame =
            Frame { user: None, build: String::new(), at: Timestamp::UNIX_EPOCH, summary: None, warnings: Vec::new() };
        let rollout = serde_json::from_value(json!({ "status": { "groups": [{ "name": "a b" }] } })).unwrap();
        let failures = vec![(Some("bad&code".to_owned()), 3), (None, 2), (Some(String::new()), 1)];
        let page = GroupPage::of(frame, &rollout, "a b", failures, None, &[]).unwrap().render().unwrap();
        for (row, path, count) in [
            ("bad&#38;code", "&amp;code=bad%26code", 3),
            ("(timed out)", "&amp;state=timed_out", 2),
            ("(none)", "&amp;code=", 1),
        ] {
            let row = page.lines().find(|line| line.contains(&format!("<th scope=\"row\">{row}</th>"))).unwrap();
            assert!(row.contains(&format!("href=\"/hosts?group=a%20b{path}\"")), "{row}");
            assert!(row.contains(&format!(">{count}</a>")), "{row}");
        }
    }
}
