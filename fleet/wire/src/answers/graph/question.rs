//! What a client asks, in either dialect.

use std::borrow::Cow;
use std::fmt;

use protocol::{Arch, Version};
use serde_json::Value;

use crate::answers::query::{self, Query};

/// What only Fedora CoreOS's clients send.
const CORE_OS: [&str; 9] =
    ["stream", "basearch", "rollout_wariness", "node_uuid", "os_version", "os_checksum", "group", "platform", "oci"];

/// Whose client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphDialect {
    /// OpenShift's: `channel`, `arch`, `version`, `id`.
    OpenShift,
    /// Fedora CoreOS's: `stream`, `basearch`, and what concerns the node.
    CoreOs,
}

impl GraphDialect {
    /// Whose client sent this query: `channel` is OpenShift's whatever stands beside it; without it any of Fedora CoreOS's
    /// parameters is enough.
    pub fn of(query: &str) -> Self {
        let query = Query::lenient(query);
        let is_core_os = !query.has("channel") && CORE_OS.iter().any(|name| query.has(name));
        if is_core_os { Self::CoreOs } else { Self::OpenShift }
    }
}

/// Which graph, for whom.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphQuestion {
    /// Whose client asks: its metadata is written.
    pub dialect: GraphDialect,
    /// The channel, or the stream.
    pub channel: String,
    /// The architecture.
    pub arch: GraphArch,
    /// How late the node wants to be, from 0 (among the first, and before all others) to 1, where it says so.
    pub wariness: Option<f64>,
    /// What tells the node from others: its UUID or a cluster's id; `None`: it does not say.
    pub node: Option<String>,
}

/// Which architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphArch {
    /// Any: it is not said.
    Any,
    /// This one.
    Arch(Arch),
    /// One that nothing is built for.
    Other,
}

/// Why a question is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphFault {
    /// Parameters are missing.
    MissingParams(&'static str),
    /// A parameter is malformed, or not what it should be.
    InvalidParams(String),
    /// The client does not take JSON.
    NotAcceptable,
}

impl GraphFault {
    /// Cincinnati's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::MissingParams(_) => "missing_params",
            Self::InvalidParams(_) => "invalid_params",
            Self::NotAcceptable => "invalid_content_type",
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        if *self == Self::NotAcceptable { 406 } else { 400 }
    }
}

impl fmt::Display for GraphFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingParams(names) => write!(f, "mandatory client parameters missing: {names}"),
            Self::InvalidParams(what) => f.write_str(what),
            Self::NotAcceptable => {
                f.write_str("the answer is application/json, which the Accept header does not allow")
            }
        }
    }
}

impl std::error::Error for GraphFault {}

impl From<query::QueryFault> for GraphFault {
    fn from(fault: query::QueryFault) -> Self {
        Self::InvalidParams(fault.to_string())
    }
}

impl GraphQuestion {
    /// Reads a query. Parameters that neither dialect documents are ignored: clients keep those that an operator wrote into
    /// their address. Documented ones must be right, and the same where they are repeated.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn read(query: &str) -> Result<Self, GraphFault> {
        let dialect = GraphDialect::of(query);
        let query = Query::strict(query)?;
        let given = |name| -> Result<_, GraphFault> { Ok(query.only(name)?.filter(|value| !value.is_empty())) };
        let node = given("node_uuid")?;
        let wariness = given("rollout_wariness")?;
        match dialect {
            GraphDialect::OpenShift => {
                let channel = given("channel")?.ok_or(GraphFault::MissingParams("channel"))?;
                let id = given("id")?;
                check_version(given("version")?.as_deref())?;
                Self::new(dialect, channel, given("arch")?.as_deref(), wariness.as_deref(), node.or(id))
            }
            GraphDialect::CoreOs => {
                let stream = given("stream")?.ok_or(GraphFault::MissingParams("stream"))?;
                let basearch = given("basearch")?.ok_or(GraphFault::MissingParams("basearch"))?;
                let asked = Self::new(dialect, stream, Some(&basearch), wariness.as_deref(), node)?;
                match asked.arch {
                    GraphArch::Other => Err(GraphFault::InvalidParams(format!("basearch {basearch:?} is unknown"))),
                    GraphArch::Any | GraphArch::Arch(_) => Ok(asked),
                }
            }
        }
    }

    /// Reads what a line of a script asks: texts, and a number or a text as `rollout_wariness`.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn from_json(question: &Value) -> Result<Self, GraphFault> {
        let known = ["channel", "arch", "version", "node_uuid", "rollout_wariness"];
        let keys =
            question.as_object().ok_or_else(|| GraphFault::InvalidParams("graph is not an object".to_owned()))?;
        if let Some(other) = keys.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(GraphFault::InvalidParams(format!(
                "graph.{other:?} is unknown: expected one of {}",
                known.join(", ")
            )));
        }
        let given = |name: &str| match question.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(Cow::Borrowed(text.as_str())).filter(|text| !text.is_empty())),
            Some(Value::Number(number)) if name == "rollout_wariness" => Ok(Some(Cow::Owned(number.to_string()))),
            Some(_) => Err(GraphFault::InvalidParams(format!("graph.{name} is not a text"))),
        };
        let channel = given("channel")?.ok_or(GraphFault::MissingParams("channel"))?;
        check_version(given("version")?.as_deref())?;
        let wariness = given("rollout_wariness")?;
        Self::new(GraphDialect::OpenShift, channel, given("arch")?.as_deref(), wariness.as_deref(), given("node_uuid")?)
    }

    fn new(
        dialect: GraphDialect,
        channel: Cow<'_, str>,
        arch: Option<&str>,
        wariness: Option<&str>,
        node: Option<Cow<'_, str>>,
    ) -> Result<Self, GraphFault> {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if !channel.bytes().all(is_usual) {
            let what = format!("channel {channel:?} is malformed: expected letters, digits, `.`, `_`, `-` and `/`");
            return Err(GraphFault::InvalidParams(what));
        }
        Ok(Self {
            dialect,
            channel: channel.into_owned(),
            arch: arch.map_or(GraphArch::Any, wanted),
            wariness: wariness.map_or(Ok(None), read_wariness)?,
            node: node.map(Cow::into_owned),
        })
    }
}

/// An architecture by Go's name, or by that of the kernel, as Fedora has it.
fn wanted(name: &str) -> GraphArch {
    let name = match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armhfp" => "arm",
        "i386" | "i686" => "386",
        other => other,
    };
    name.parse().map_or(GraphArch::Other, GraphArch::Arch)
}

/// As Fedora CoreOS's server reads it: cut to 0 to 1, and what is no number counts as not given. What is a number but not a
/// finite one is refused: no comparison with NaN holds, so such a client would never be throttled.
fn read_wariness(text: &str) -> Result<Option<f64>, GraphFault> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number.clamp(0.0, 1.0))),
        Ok(_) => {
            Err(GraphFault::InvalidParams(format!("rollout_wariness {text:?} is no finite number: expected 0 to 1")))
        }
        Err(_) => Ok(None),
    }
}

/// The node's own version is not needed: the client finds itself in the graph. What is no version is a mistake all the same.
fn check_version(version: Option<&str>) -> Result<(), GraphFault> {
    let Some(text) = version else { return Ok(()) };
    let parsed: Result<Version, _> = text.parse();
    parsed.map(|_| ()).map_err(|error| GraphFault::InvalidParams(format!("version: {error}")))
}

/// Whether the header allows JSON. Fedora CoreOS's server does not look at it.
pub(super) fn accepts_json(accept: Option<&str>, dialect: GraphDialect) -> Result<(), GraphFault> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty() && dialect == GraphDialect::OpenShift) else {
        return Ok(());
    };
    let allows = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let is_json = ["application/json", "application/*", "*/*"].iter().any(|it| media.eq_ignore_ascii_case(it));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        is_json && weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0))
    };
    if accept.split(',').any(allows) { Ok(()) } else { Err(GraphFault::NotAcceptable) }
}
