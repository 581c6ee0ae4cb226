//! Hosts of other updaters, as Teleport's inventory lists them.

use fleet_engine::plain::is_unsafe;
use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleet_answers::ids;
use fleet_api::{Code, CountOf, Import, Imported, Instance, MOST_INSTANCES, Omission, UpdaterStatus, Wrong};
use fleet_engine::host::HostId;
use fleet_engine::inventory::{Agent, Standing, Status, Updater};
use jiff::Timestamp;
use protocol::Version;
use serde_json::json;

use super::draft::Draft;
use super::{Actor, Keeper};

/// Most hosts that are known by imports.
const MOST_LISTED: usize = 1_000_000;
/// Longest name of a group, bytes: that of a report.
const MAX_GROUP: usize = 256;

/// What an import is about to do.
#[derive(Default)]
struct Plan {
    agents: Vec<(Agent, Standing)>,
    /// Where each host is among them.
    at: HashMap<HostId, usize>,
    passed_over: BTreeMap<&'static str, u64>,
}

impl Plan {
    fn pass_over(&mut self, why: &'static str) {
        *self.passed_over.entry(why).or_default() += 1;
    }

    /// One of several instances of a host counts: the one that was heard of last.
    fn add(&mut self, agent: Agent, standing: Standing) {
        match self.at.get(&agent.host).copied() {
            None => {
                self.at.insert(agent.host, self.agents.len());
                self.agents.push((agent, standing));
            }
            Some(at) => {
                self.pass_over("the same host is listed again");
                if let Some(known) = self.agents.get_mut(at).filter(|(known, _)| known.seen < agent.seen) {
                    *known = (agent, standing);
                }
            }
        }
    }
}

impl Keeper {
    /// Takes the hosts of an inventory: those that do not report by themselves.
    ///
    /// # Errors
    /// Why not; that is on record as well.
    pub(crate) fn import(&mut self, actor: &Actor, import: &Import) -> Result<Imported, Wrong> {
        let subject = format!("{} instances", import.instances.len());
        self.once(&import.id, &(&import.instances, import.dry_run), |keeper, request| {
            let now = keeper.now();
            let plan = match keeper.plan(&import.instances, now) {
                Ok(plan) => plan,
                Err(wrong) => return Err(keeper.refuse(actor, "import", &subject, wrong, import.dry_run)),
            };
            let imported = keeper.imported(&plan);
            if import.dry_run {
                return Ok(imported);
            }
            let rollout = keeper.book.rollout.clone();
            for (agent, standing) in &plan.agents {
                keeper.fleet.list(agent, *standing, rollout.as_ref(), now);
            }
            keeper.board.set_names(keeper.fleet.names.len());
            let mut draft = Draft::new(keeper.book.clone());
            draft.book.step(&mut keeper.fleet, now);
            keeper.record(&mut draft, actor, "import", &subject);
            if let Some(record) = draft.records.first_mut() {
                record.detail = json!(imported);
            }
            keeper.finish(draft, request, &imported)?;
            Ok(imported)
        })
    }

    fn plan(&self, instances: &[Instance], now: Timestamp) -> Result<Plan, Wrong> {
        if instances.len() > MOST_INSTANCES {
            let message = format!("a request has at most {MOST_INSTANCES} instances");
            return Err(Wrong::new(Code::TooLarge, message));
        }
        let mut plan = Plan::default();
        for instance in instances {
            let standing = agent(instance).and_then(|agent| {
                if self.members.has(agent.host) {
                    Err("reports by itself")
                } else {
                    let standing = agent.standing(&self.fleet, now).map_err(|passed| passed.reason())?;
                    Ok((agent, standing))
                }
            });
            match standing {
                Ok((agent, standing)) => plan.add(agent, standing),
                Err(why) => plan.pass_over(why),
            }
        }
        let new = plan.agents.iter().filter(|(agent, _)| self.fleet.listed(agent.host).is_none()).count();
        if self.fleet.count_listed() + new > MOST_LISTED {
            let message = format!("at most {MOST_LISTED} hosts are known by imports");
            return Err(Wrong::new(Code::Conflict, message));
        }
        Ok(plan)
    }

    fn imported(&self, plan: &Plan) -> Imported {
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut omitted: BTreeMap<&str, u64> = BTreeMap::new();
        for (agent, standing) in &plan.agents {
            let group = agent.updater.as_ref().map_or("", |updater| &updater.group);
            match standing.omission() {
                Some(reason) => *omitted.entry(reason).or_default() += 1,
                None => *counts.entry((group, &agent.version)).or_default() += 1,
            }
        }
        let count = |((group, version), count): ((&str, &str), u64)| CountOf {
            group: group.to_owned(),
            version: version.to_owned(),
            count,
        };
        let why = |(reason, count): (&str, u64)| Omission { count, reason: reason.to_owned() };
        let is_new = |(agent, _): &&(Agent, Standing)| self.fleet.host(agent.host).is_none();
        Imported {
            new: u64::try_from(plan.agents.iter().filter(is_new).count()).unwrap_or(u64::MAX),
            counts: counts.into_iter().map(count).collect(),
            omitted: omitted.into_iter().map(why).collect(),
            passed_over: plan.passed_over.iter().map(|(reason, count)| why((reason, *count))).collect(),
        }
    }
}

/// The agent that an instance is; or why it is none that can be known here.
fn agent(instance: &Instance) -> Result<Agent, &'static str> {
    let spec = &instance.spec;
    if instance.kind != "instance" {
        return Err("is no instance");
    }
    let host = ids::uuid(&instance.metadata.name).ok_or("its name is no UUID of a host")?;
    let version = spec.version.parse::<Version>().map_err(|_| "its version cannot be read")?;
    let seen = spec.last_seen.ok_or("does not say when Teleport heard of it")?;
    let updater = spec.updater_info.as_ref().map(|info| {
        let is_group = info.update_group.len() <= MAX_GROUP && !info.update_group.contains(is_unsafe);
        let group = is_group.then(|| info.update_group.clone()).ok_or("its group is no name of one")?;
        Ok::<_, &str>(Updater { group, id: id(&info.update_uuid), status: status(&info.updater_status) })
    });
    Ok(Agent {
        host,
        version: version.to_string(),
        services: spec.services.clone(),
        seen,
        upgrader: spec.external_upgrader.clone(),
        updater: updater.transpose()?,
    })
}

/// An updater's id: a UUID, or its bytes in base64; 0: none.
fn id(text: &str) -> u128 {
    let bytes = || STANDARD.decode(text).ok()?.try_into().ok().map(u128::from_be_bytes);
    ids::uuid(text).or_else(bytes).unwrap_or(0)
}

fn status(status: &UpdaterStatus) -> Status {
    match status {
        UpdaterStatus::Number(1) => Status::Ok,
        UpdaterStatus::Number(2) => Status::Disabled,
        UpdaterStatus::Number(3) => Status::Pinned,
        UpdaterStatus::Number(4) => Status::Unreadable,
        UpdaterStatus::Number(_) => Status::Unknown,
        UpdaterStatus::Name(name) => match name.to_ascii_uppercase().trim_start_matches("UPDATER_STATUS_") {
            "OK" => Status::Ok,
            "DISABLED" => Status::Disabled,
            "PINNED" => Status::Pinned,
            "UNREADABLE" => Status::Unreadable,
            _ => Status::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_updaters_id_is_its_uuid_or_the_bytes_of_it() {
        let number = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f;
        for text in ["00010203-0405-0607-0809-0a0b0c0d0e0f", "AAECAwQFBgcICQoLDA0ODw=="] {
            assert_eq!(id(text), number, "{text}");
        }
        for text in ["", "x", "AAECAwQFBgcICQoLDA0ODxA=", "AAECAwQFBgcICQoLDA0ODw"] {
            assert_eq!(id(text), 0, "{text}");
        }
    }

    #[test]
    fn a_status_is_a_number_or_a_name() {
        for (number, name, expected) in [
            (1, "UPDATER_STATUS_OK", Status::Ok),
            (2, "UPDATER_STATUS_DISABLED", Status::Disabled),
            (3, "updater_status_pinned", Status::Pinned),
            (4, "Unreadable", Status::Unreadable),
            (0, "UPDATER_STATUS_UNSPECIFIED", Status::Unknown),
            (-1, "", Status::Unknown),
        ] {
            assert_eq!(status(&UpdaterStatus::Number(number)), expected);
            assert_eq!(status(&UpdaterStatus::Name(name.to_owned())), expected, "{name}");
        }
    }
}
