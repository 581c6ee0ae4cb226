//! `find` and `ping` in both dialects: RFD 0169's flat keys, and those of today's proxies below `auto_update` (FLEET §4).
//!
//! An answer is written straight into its bytes: this is the hot path. That its keys are those of
//! [`protocol::find::Directive::write`] is held by tests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fleet_engine::answer::{HostAnswer, Question};
use fleet_engine::reason::{WaitReason, Why};
use fleet_engine::resource::{Config, VersionSpec};
use fleet_engine::resource_set::ResourceSet;
use jiff::Timestamp;
use protocol::dry_run::DryRunOrder;
use protocol::find::{IMAGE, MAX_JITTER_SECONDS};
use protocol::installer::InstallerOrder;
use protocol::report::Wanted;
use protocol::{Arch, Digest, Edition, Version};
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::answers::query::Query;
use crate::answers::reply::{JSON, Reply};
use crate::api::Code;
use crate::ids;

/// Room for a usual answer, bytes.
const USUAL: usize = 512;

/// Which of the paths is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `/v1/webapi/find`: RFD 0169's keys at the top.
    Flat,
    /// `/webapi/find`: as today's proxies.
    Nested,
    /// `/webapi/ping`: the same, and what clients of proxies read besides.
    Ping,
}

/// What is said of the cluster, the same to everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// `cluster_name`; empty: not said.
    pub name: String,
    /// `server_version`: the version of the Teleport servers, where it is configured.
    pub server_version: Option<Version>,
    /// The edition, where it is configured.
    pub edition: Option<Edition>,
    /// What clients such as `tsh` update to.
    pub tools: Tools,
    /// Where hosts are asked for reports.
    pub reports: Option<Wanted>,
}

/// What clients such as `tsh` update to (`spec.tools` of `autoupdate_version` and `autoupdate_config`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tools {
    /// `tools_version`; `None`: the servers' version (FLEET §2).
    pub version: Option<Version>,
    /// `tools_auto_update`; `None`: not configured.
    pub auto_update: Option<bool>,
}

impl Tools {
    /// As the resources have them.
    pub fn of(shelf: &ResourceSet) -> Self {
        let version = shelf.only::<VersionSpec>().and_then(|version| version.tools.clone());
        Self { version, auto_update: shelf.only::<Config>().map(|config| config.tools) }
    }
}

/// What a `fleet_release` says of its version's bytes; empty: not known.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReleaseDigests<'a> {
    /// Of archives, by edition and architecture (`spec.digests`).
    pub archives: &'a [((Edition, Arch), Digest)],
    /// Of container images, by the last part of their repository's name (`spec.image_digests`).
    pub images: &'a [(String, Digest)],
}

/// A question as it came.
#[derive(Debug, Clone)]
pub struct FindQuestion {
    /// Who asks.
    pub question: Question,
    /// Nobody updates by the answer: it is the same, and nothing is noted of it.
    pub is_dry_run: bool,
}

/// Who asks, by the query behind the path (without its `?`). Nothing in it is an error: an updater gets an answer whatever it
/// sends. What is no UUID counts as no host, and as no updater's id.
pub fn question(query: &str) -> FindQuestion {
    let [host, group, update_id, dry_run] = Query::lenient(query).firsts(["host", "group", "update_id", "dry_run"]);
    let id = |text: Option<Cow<'_, str>>| ids::uuid(&text?);
    let question = Question {
        host: id(host),
        group: group.map(Cow::into_owned).unwrap_or_default(),
        update_id: id(update_id).unwrap_or(0),
    };
    FindQuestion { question, is_dry_run: dry_run.is_some_and(|text| text == "true") }
}

/// The answer to a host, in the form of the path that it asked.
pub fn reply(
    form: Form,
    answer: &HostAnswer,
    cluster: &Cluster,
    digests: ReleaseDigests<'_>,
    dry_run: Option<&DryRunOrder>,
) -> Reply {
    let mut body = Vec::with_capacity(USUAL);
    let fleet = Ours { dry_run, ..Ours::of(answer, cluster, digests) };
    let written = match form {
        Form::Flat => serde_json::to_writer(&mut body, &Flat { fleet, ..Flat::of(answer, cluster, digests) }),
        Form::Nested | Form::Ping => {
            serde_json::to_writer(&mut body, &Nested::of(answer, cluster, fleet, form == Form::Ping))
        }
    };
    match written {
        Ok(()) => Reply::ok(JSON, body),
        // Writing into memory does not fail.
        Err(error) => Reply::error(Code::Internal, error.to_string()),
    }
}

/// The answer where no rollout ever named a version: 404 `no_rollout`.
pub fn no_rollout() -> Reply {
    let message = "there is no rollout, and none was done before: write an autoupdate_version";
    Reply::error(Code::NoRollout, message)
}

/// The answer of a server that has not reached its store since `since`: the same version, without an
/// update (FLEET §4).
pub fn stale(answer: HostAnswer, since: Timestamp) -> HostAnswer {
    HostAnswer { update: false, reason: WaitReason { why: Why::StoreUnavailable, since, until: None }, ..answer }
}

/// RFD 0169's answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindFlat")]
pub struct Flat<'a> {
    /// What to run, or to install.
    agent_version: &'a Version,
    /// Whether to update now.
    agent_auto_update: bool,
    /// Longest random wait before the update.
    #[schemars(range(max = MAX_JITTER_SECONDS))]
    agent_update_jitter_seconds: u32,
    /// Absent: not configured.
    #[schemars(extend("enum" = ["oss", "enterprise", "enterprise-fips"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    server_edition: Option<&'static str>,
    /// What RFD 0169 does not have.
    fleet: Ours<'a>,
}

impl<'a> Flat<'a> {
    /// Of the engine's answer.
    pub fn of(answer: &'a HostAnswer, cluster: &'a Cluster, digests: ReleaseDigests<'a>) -> Self {
        Self {
            agent_version: &answer.version,
            agent_auto_update: answer.update,
            agent_update_jitter_seconds: answer.jitter.min(MAX_JITTER_SECONDS),
            server_edition: cluster.edition.map(Edition::as_str),
            fleet: Ours::of(answer, cluster, digests),
        }
    }
}

/// The answer of today's proxies.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindNested")]
pub struct Nested<'a> {
    /// Of `/webapi/ping` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<Nothing>,
    /// Of `/webapi/ping` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<Nothing>,
    /// The version of the Teleport servers; absent: not configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<&'a Version>,
    /// Absent: not configured.
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster_name: &'a str,
    /// Absent: not configured.
    #[schemars(extend("enum" = ["oss", "ent"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    edition: Option<&'static str>,
    /// The edition is `enterprise-fips`.
    fips: bool,
    /// Of `/webapi/ping` alone: the mode is not `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    automatic_upgrades: Option<bool>,
    /// What to run.
    auto_update: AutoUpdate<'a>,
    /// What proxies do not have.
    fleet: Ours<'a>,
}

/// This server is neither an auth server nor a proxy, and says nothing of theirs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindNothing")]
struct Nothing {}

/// What to run, as today's proxies say it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindAutoUpdate")]
struct AutoUpdate<'a> {
    /// What clients such as `tsh` update to; absent: not configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_version: Option<&'a Version>,
    /// Whether they do; absent: not configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_auto_update: Option<bool>,
    /// What to run, or to install.
    agent_version: &'a Version,
    /// Whether to update now.
    agent_auto_update: bool,
    /// Longest random wait before the update.
    #[schemars(range(max = MAX_JITTER_SECONDS))]
    agent_update_jitter_seconds: u32,
}

impl<'a> Nested<'a> {
    fn of(answer: &'a HostAnswer, cluster: &'a Cluster, fleet: Ours<'a>, is_ping: bool) -> Self {
        Self {
            auth: is_ping.then_some(Nothing {}),
            proxy: is_ping.then_some(Nothing {}),
            server_version: cluster.server_version.as_ref(),
            cluster_name: &cluster.name,
            edition: cluster.edition.map(|edition| if edition == Edition::Oss { "oss" } else { "ent" }),
            fips: cluster.edition == Some(Edition::EnterpriseFips),
            automatic_upgrades: is_ping.then_some(answer.reason.why != Why::Disabled),
            auto_update: AutoUpdate {
                tools_version: cluster.tools.version.as_ref().or(cluster.server_version.as_ref()),
                tools_auto_update: cluster.tools.auto_update,
                agent_version: &answer.version,
                agent_auto_update: answer.update,
                agent_update_jitter_seconds: answer.jitter.min(MAX_JITTER_SECONDS),
            },
            fleet,
        }
    }
}

/// What is ours, in an object that other updaters disregard. To strangers a reason is a code and a time: no names, no counts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindFleet")]
struct Ours<'a> {
    /// Reports are wanted; absent: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Wanted>,
    /// Number of the rollout; it grows.
    rollout: u64,
    /// After a new attempt, updaters forget that they refused this target.
    attempt: u32,
    /// The version that waits; absent: it is `agent_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a Version>,
    /// Why.
    why: BareCode,
    /// The earliest time at which that could change; null: the clock changes nothing.
    #[schemars(with = "Option<Timestamp>")]
    until: Option<Second>,
    /// SHA-256 of the archives, by edition and architecture (`oss/amd64`), and of the container images, by the last part of
    /// their repository's name (`image/teleport-distroless`); absent: not known.
    #[serde(skip_serializing_if = "ReleaseDigests::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    digests: ReleaseDigests<'a>,
    /// What installs the version, where that is not the updater's usual way.
    #[serde(skip_serializing_if = "Option::is_none")]
    installer: Option<&'a InstallerOrder>,
    /// What else is known of the version that is to be installed; absent: nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: &'a BTreeMap<String, String>,
    /// What the host is to try and not to install, for a plan that somebody makes; absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<&'a DryRunOrder>,
}

impl<'a> Ours<'a> {
    fn of(answer: &'a HostAnswer, cluster: &'a Cluster, digests: ReleaseDigests<'a>) -> Self {
        Self {
            report: cluster.reports.as_ref(),
            rollout: answer.rollout,
            attempt: answer.attempt,
            target: answer.target.as_ref(),
            why: BareCode { code: answer.reason.why.code() },
            until: answer.reason.until.map(Second),
            digests,
            installer: answer.installer.as_ref(),
            attributes: &answer.attributes,
            dry_run: None,
        }
    }
}

/// A reason without its numbers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindReason")]
struct BareCode {
    /// That of `Why`.
    #[schemars(schema_with = "crate::reason::codes")]
    code: &'static str,
}

/// A time without a fraction.
struct Second(Timestamp);

impl Serialize for Second {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Timestamp::from_second(self.0.as_second()).unwrap_or(self.0))
    }
}

impl ReleaseDigests<'_> {
    fn is_empty(&self) -> bool {
        self.archives.is_empty() && self.images.is_empty()
    }
}

/// A mapping of `oss/amd64`, `image/teleport-distroless` and the like.
impl Serialize for ReleaseDigests<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.archives.len() + self.images.len()))?;
        for ((edition, arch), digest) in self.archives {
            map.serialize_entry(&format_args!("{edition}/{arch}"), digest)?;
        }
        for (repository, digest) in self.images {
            map.serialize_entry(&format_args!("{IMAGE}{repository}"), digest)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
