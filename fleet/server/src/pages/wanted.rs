//! What a form asks for, and how that is said before it is done.

use axum::extract::Query;
use fleet_engine::command::Command;
use fleet_engine::host::HostId;
use fleet_wire::answers::ids;
use fleet_wire::api::{ApiError, Code, Decision, HostsQuery, ManyDecision, Role};

use super::access::FormFields;
use super::directives::DirectiveAction;
use crate::core::release::NextRelease;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FormAction {
    /// To groups.
    Command(Command),
    /// To a host.
    Host(HostId, Decision),
    /// To begin a rollout.
    Release(NextRelease),
    /// To a draft or plan of a directive.
    Directive(DirectiveAction),
    /// To all hosts that a question finds; with what was shown of them.
    Many(Box<HostsQuery>, ManyDecision, Option<String>),
}

/// The names of the form's values by which [`FormAction::read`] knows what is asked for.
const FIELDS: [&str; 13] = [
    "do",
    "group",
    "host",
    "hosts",
    "force",
    "ignore_blackout",
    "at_once",
    "digest",
    "target",
    "start",
    "draft",
    "plan",
    "reason",
];

impl FormAction {
    /// Of a form.
    ///
    /// # Errors
    /// It names nothing that can be done.
    pub(super) fn read(fields: &FormFields) -> Result<Self, ApiError> {
        let bad = |message: String| ApiError::new(Code::BadRequest, message);
        let (verb, group, host) = (fields.get("do"), fields.get("group"), fields.get("host"));
        let groups: Vec<String> = Some(group.to_owned()).filter(|group| !group.is_empty()).into_iter().collect();
        let all = groups.is_empty();
        if let Some(action) = DirectiveAction::read(fields) {
            return Ok(Self::Directive(action));
        }
        if matches!(verb, "hold" | "release" | "assign") {
            let id = ids::uuid(host).ok_or_else(|| bad(format!("{host:?} is no UUID of a host")))?;
            let decision = match verb {
                "hold" => Decision::Hold,
                "release" => Decision::Release,
                _ => Decision::Assign(groups.into_iter().next()),
            };
            return Ok(Self::Host(id, decision));
        }
        if verb == "begin" {
            let text = |name: &str| fields.get(name).trim().to_owned();
            let (target, start, revision) = (text("target"), text("start"), text("revision"));
            return Ok(Self::Release(NextRelease { target, start, revision }));
        }
        if matches!(verb, "accept_all" | "assign_all") {
            let query = format!("/hosts?{}", fields.get("hosts")).parse().ok();
            let query = query.and_then(|uri| Query::<HostsQuery>::try_from_uri(&uri).ok());
            let Query(query) = query.ok_or_else(|| bad("the form does not say which hosts".to_owned()))?;
            let assign = || ManyDecision::Assign(groups.into_iter().next());
            let decision = if verb == "accept_all" { ManyDecision::Accept } else { assign() };
            let shown = Some(fields.get("shown").to_owned()).filter(|shown| !shown.is_empty());
            return Ok(Self::Many(Box::new(query), decision, shown));
        }
        if all && matches!(verb, "start" | "mark_done" | "approve") {
            return Err(bad(format!("{verb} needs a group")));
        }
        let is_yes = |name: &str| fields.get(name) == "yes";
        Ok(Self::Command(match verb {
            "start" => Command::Start { groups, force: is_yes("force"), ignore_blackout: is_yes("ignore_blackout") },
            "mark_done" => Command::MarkDone { groups },
            "approve" => {
                let digest = Some(fields.get("digest").to_owned()).filter(|digest| !digest.is_empty());
                Command::Approve { groups, digest }
            }
            "halt" => Command::Halt { groups, all },
            "run" => Command::Run { groups, all },
            "rollback" => Command::Rollback { groups, all_started: all, at_once: is_yes("at_once") },
            _ => return Err(bad(format!("there is nothing called {verb:?} to do"))),
        }))
    }

    /// Who may ask for it: a voice on a plan may be a viewer's (`promotion.role`).
    pub(super) fn needs(fields: &FormFields) -> Role {
        match DirectiveAction::read(fields) {
            Some(DirectiveAction::Review { .. }) => Role::Viewer,
            _ => Role::Operator,
        }
    }

    /// The values that say the same in the next form.
    pub(super) fn fields(fields: &FormFields) -> Vec<(&'static str, String)> {
        let said =
            |name: &&'static str| Some((*name, fields.get(name).to_owned())).filter(|(_, value)| !value.is_empty());
        FIELDS.iter().filter_map(said).collect()
    }

    /// It stops or takes back.
    pub(super) fn is_stop(&self) -> bool {
        let is_denial = matches!(self, Self::Directive(DirectiveAction::Review { approve: false, .. }));
        let is_command = matches!(self, Self::Command(Command::Halt { .. } | Command::Rollback { .. }));
        is_denial || is_command || matches!(self, Self::Host(_, Decision::Hold))
    }

    /// It stops groups.
    pub(super) fn is_halt(&self) -> bool {
        matches!(self, Self::Command(Command::Halt { .. }))
    }

    /// Not refused because another rollout began meanwhile: a stop never is, and a release has the revision that was looked at, and a
    /// plan the nonce.
    pub(super) fn holds_for_every_rollout(&self) -> bool {
        self.is_halt() || matches!(self, Self::Host(..) | Self::Many(..) | Self::Release(_) | Self::Directive(_))
    }

    /// Where it leads back to.
    pub(super) fn back(fields: &FormFields) -> String {
        let encode =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
        match (fields.get("host"), fields.get("group")) {
            _ if !fields.get("plan").is_empty() => format!("/version-control/{}", encode(fields.get("plan"))),
            _ if !fields.get("draft").is_empty() => "/version-control".to_owned(),
            _ if !fields.get("hosts").is_empty() => format!("/hosts?{}", fields.get("hosts")),
            ("", "") => "/".to_owned(),
            ("", group) => format!("/groups/{}", encode(group)),
            (host, _) => format!("/hosts/{}", encode(host)),
        }
    }

    /// `Halt group prod`; `host` is what the host is called.
    pub(super) fn title(&self, host: &str) -> String {
        let of = |groups: &[String]| format!("group {}", groups.join(", "));
        match self {
            Self::Command(command) => match command {
                Command::Start { groups, .. } => format!("Start {} now", of(groups)),
                Command::MarkDone { groups } => format!("Mark {} done", of(groups)),
                Command::Approve { groups, .. } => format!("Approve {}", of(groups)),
                Command::Halt { all: true, .. } => "Stop everything".to_owned(),
                Command::Halt { groups, .. } => format!("Halt {}", of(groups)),
                Command::Run { all: true, .. } => "End the stop of everything".to_owned(),
                Command::Run { groups, .. } => format!("Run {}", of(groups)),
                Command::Rollback { all_started: true, .. } => "Roll back all started groups".to_owned(),
                Command::Rollback { groups, .. } => format!("Roll back {}", of(groups)),
                Command::Gate { group, .. } => format!("Answer for group {group}"),
            },
            Self::Directive(action) => action.title(),
            Self::Release(release) => format!("Begin the rollout of {}", release.target),
            Self::Many(_, decision, _) => match decision {
                ManyDecision::Accept => "Accept the keys of these hosts".to_owned(),
                ManyDecision::Assign(None) => "Give these hosts back to the groups that they declare".to_owned(),
                ManyDecision::Assign(Some(group)) => format!("Put these hosts in group {group}"),
            },
            Self::Host(_, decision) => match decision {
                Decision::Hold => format!("Hold host {host}"),
                Decision::Release => format!("Release host {host}"),
                Decision::Assign(None) => format!("Give host {host} back to the group that it declares"),
                Decision::Assign(Some(group)) => format!("Put host {host} in group {group}"),
                Decision::Accept(_) => format!("Accept the key of host {host}"),
                Decision::Forget => format!("Strike host {host} off"),
            },
        }
    }

    /// What happens, a sentence.
    pub(super) fn means(&self) -> &'static str {
        match self {
            Self::Command(command) => match command {
                Command::Start { force: true, .. } => {
                    "The group starts before its time, without canaries, and in spite of a freeze. Its limit of hosts at the same time holds."
                }
                Command::Start { ignore_blackout: true, .. } => {
                    "The group starts in spite of the freeze. Its limits hold: so many hosts at the same time, canaries first."
                }
                Command::Start { .. } => {
                    "The group starts before its time. Its limits hold: so many hosts at the same time, canaries first."
                }
                Command::MarkDone { .. } => "The group counts as done, and groups after it may start.",
                Command::Approve { .. } => "The group may start, once nothing else keeps it.",
                Command::Halt { all: true, .. } => {
                    "From now on no host is allowed to update, in rollouts to come too, until somebody ends the stop. Hosts that are updating go on."
                }
                Command::Halt { .. } => {
                    "No further host of the group is allowed to update until somebody runs it again. Hosts that are updating go on."
                }
                Command::Run { .. } => {
                    "The stop ends. What failed before counts no more, and these hosts are allowed to update again."
                }
                Command::Rollback { .. } => "Hosts that were allowed to update are sent back to the start version.",
                Command::Gate { .. } => "",
            },
            Self::Directive(action) => action.means(),
            Self::Release(_) => {
                "A new rollout begins with its first group: each host gets the version when its group's turn comes."
            }
            Self::Many(_, ManyDecision::Accept, _) => "What they report with the keys that wait counts from now on.",
            Self::Many(_, ManyDecision::Assign(_), _) => {
                "Hosts that were allowed to update stay in their groups for this rollout."
            }
            Self::Host(_, Decision::Hold) => "The host is not allowed to update until somebody releases it.",
            Self::Host(_, Decision::Release) => "The host is allowed to update when its turn comes.",
            Self::Host(_, Decision::Forget) => "If the host comes back it is new, and enrols as new hosts do.",
            Self::Host(_, Decision::Accept(_)) => "What the host reports with the key that waits counts from now on.",
            Self::Host(_, Decision::Assign(_)) => {
                "A host that was allowed to update stays in its group for this rollout."
            }
        }
    }
}
