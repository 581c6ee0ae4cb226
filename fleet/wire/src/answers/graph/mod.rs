//! `GET /v1/graph` and `GET /api/upgrades_info/v1/graph`: which versions lead to which (Cincinnati, and Fedora
//! CoreOS's dialect of it), from the `fleet_release` resources (FLEET §9, §12).

mod cache;
mod catalogue;
mod phase;
mod question;
#[cfg(test)]
mod tests;
mod view;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use catalogue::Catalogue;
pub use question::{GraphArch, GraphDialect, GraphFault, GraphQuestion};
pub use view::{GraphNode, UpdateGraph};

use crate::answers::reply::{JSON, Reply};
use crate::api::Code;

/// What the query behind the path (without its `?`) is answered at `now`. `accept`: the header of that name, where it was sent.
pub fn reply(catalogue: &Catalogue, query: &str, accept: Option<&str>, now: Timestamp) -> Reply {
    let dialect = GraphDialect::of(query);
    let graph = question::accepts_json(accept, dialect)
        .and_then(|()| GraphQuestion::read(query))
        .and_then(|asked| catalogue.written(&asked, now));
    match graph {
        Ok(Ok(body)) => Reply::ok(JSON, body),
        Ok(Err(error)) => Reply::error(Code::Internal, error.to_string()),
        Err(fault) => refused(dialect, &fault),
    }
}

/// What the line `{"graph":{channel,arch,version,node_uuid,rollout_wariness}}` of a script is answered (FLEET §12):
/// `{"nodes","edges"}`.
///
/// # Errors
/// What is wrong with the question.
pub fn script(catalogue: &Catalogue, question: &Value, now: Timestamp) -> Result<Value, GraphFault> {
    let graph = catalogue.graph(&GraphQuestion::from_json(question)?, now)?;
    serde_json::to_value(&graph).map_err(|error| GraphFault::InvalidParams(error.to_string()))
}

/// What is wrong with a question.
#[derive(Serialize, JsonSchema)]
pub struct GraphError {
    /// What kind of mistake.
    #[schemars(extend("enum" = ["missing_params", "invalid_params", "invalid_content_type"]))]
    kind: &'static str,
    /// A sentence.
    value: String,
}

/// Cincinnati names kind and value; Fedora CoreOS's server has an empty body.
fn refused(dialect: GraphDialect, fault: &GraphFault) -> Reply {
    match dialect {
        GraphDialect::OpenShift => {
            Reply::json(fault.status(), &GraphError { kind: fault.kind(), value: fault.to_string() })
        }
        GraphDialect::CoreOs => Reply::with(400, "", Vec::new()),
    }
}
