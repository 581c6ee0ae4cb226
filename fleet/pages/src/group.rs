//! `/groups/NAME`.

use askama::Template;
use fleet_api::Entry;
use fleet_words::rollout as words;

use crate::Frame;
use crate::audit::Line;
use crate::rollout::Card;

/// A group: its state, its hosts, its failures, its history.
#[derive(Debug, Clone, Template)]
#[template(path = "group.html")]
pub struct Group {
    /// What is around it.
    pub frame: Frame,
    card: Card,
    target: String,
    failures: Vec<(String, u64)>,
    history: Vec<Line>,
}

impl Group {
    /// Of the group called `name`; `failures`: how many hosts failed by which error code; `history`: the newest first. `None`:
    /// the rollout has no such group.
    pub fn of(
        frame: Frame,
        rollout: &words::Rollout,
        name: &str,
        failures: Vec<(String, u64)>,
        history: &[Entry],
    ) -> Option<Self> {
        let group = rollout.status.groups.iter().find(|group| group.name == name)?;
        let target = rollout.spec.target_version.clone();
        let history = history.iter().map(Line::of).collect();
        Some(Self { frame, card: Card::of(group), target, failures, history })
    }
}
