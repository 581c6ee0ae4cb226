//! What holds for all resources together.

use std::collections::{BTreeMap, BTreeSet};

use super::{MOST_IN_CHANNEL, ResourceSet};
use crate::refusal::Refusal;
use crate::resource::{Channel, ChannelSource, Kind, Model, Release, Resource};
use crate::rollout_state::RolloutState;

impl ResourceSet {
    /// A version has one `fleet_release`: of two nobody could say which of them counts.
    pub(super) fn one_release_a_version(&self) -> Result<(), Refusal> {
        let mut names: BTreeMap<String, &str> = BTreeMap::new();
        for object in self.all().filter_map(Release::of) {
            let (version, name) = (object.model.version.to_string(), object.metadata.name.as_str());
            if let Some(other) = names.insert(version, name) {
                let version = &object.model.version;
                return Err(Refusal::conflict(format!(
                    "spec.version: {version} has the fleet_release {other:?} and would have {name:?}: write into one of them"
                )));
            }
        }
        Ok(())
    }

    /// The channels of the releases that are `news` have at most [`MOST_IN_CHANNEL`] releases each: the graph of a channel grows
    /// with their square. Channels that had more already take no further one.
    pub(super) fn room_in_channels(&self, news: &[(Kind, String)]) -> Result<(), Refusal> {
        let releases = news.iter().filter_map(|(kind, name)| self.get(*kind, name)?.model::<Release>());
        let touched: BTreeSet<&String> = releases.flat_map(|release| &release.channels).collect();
        if touched.is_empty() {
            return Ok(());
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for release in self.releases() {
            for channel in release.channels.iter().filter(|channel| touched.contains(channel)) {
                *counts.entry(channel).or_default() += 1;
            }
        }
        match counts.into_iter().find(|(_, count)| *count > MOST_IN_CHANNEL) {
            None => Ok(()),
            Some((channel, count)) => Err(Refusal::conflict(format!(
                "spec.channels: {channel:?} would have {count} releases, at most {MOST_IN_CHANNEL}: remove old ones with \
                 `rm fleet_release/NAME`, or take them out of the channel"
            ))),
        }
    }

    /// A `fleet_channel` that is `news` names no blocked version, and a group of the policy or of the rollout.
    pub(super) fn good_channels(&self, news: &[(Kind, String)], state: &RolloutState) -> Result<(), Refusal> {
        let known = state.group_names();
        for (kind, name) in news {
            let channel = self.get(*kind, name).and_then(Resource::model::<Channel>);
            let wrong = match channel.map(|channel| &channel.source) {
                Some(ChannelSource::Static(Some(version))) => {
                    self.refuse_blocked(version).err().map(|refusal| format!("static_version: {}", refusal.message))
                }
                Some(ChannelSource::Group(group)) if !known.contains(&group.as_str()) => {
                    Some(format!("group: there is no group {group:?}; known are {}", known.join(", ")))
                }
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(Refusal::conflict(format!("fleet_channel {name}: spec.{wrong}")));
            }
        }
        Ok(())
    }
}
