//! `POST /control/…`: how the demo and the benches lead a cluster in another process. Bodies are JSON.
//!
//! | path | body |
//! |---|---|
//! | `/control/directive` | `{"version", "edition"?, "auto_update"?, "jitter"?, "dialect"?: "rfd"\|"today"}` |
//! | `/control/publish` | `{"version", "edition"?, "arch"?, "behaviour"?, "schema"?, "padding"?, "writes"?, "updater"?: false, "rfd_layout"?}` |
//! | `/control/misbehave` | `{"path", "how", "value"?, "times"?}`; `how` in kebab case, `value` a number or text |
//! | `/control/behave` | nothing |
//! | `/control/requests` | nothing; answers a line for each request and forgets them |

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::archive::Archive;
use crate::cluster::directive::{Dialect, Find};
use crate::cluster::misbehaviour::{Misbehaviour, Rule};
use crate::cluster::reply::Reply;
use crate::cluster::request::Request;
use crate::cluster::server::Shared;

/// What published archives are made of.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The toy agent, without trailer.
    pub agent: Arc<[u8]>,
    /// The updater that archives carry, if any.
    pub updater: Option<Arc<[u8]>>,
}

pub(crate) fn answer(shared: &Shared, request: &Request) -> Reply {
    let Some(programs) = shared.state().programs.clone() else { return Reply::text(404, "no such page\n") };
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    match act(shared, &programs, &request.path, &body) {
        Ok(answer) => Reply::json(&answer),
        Err(error) => Reply::text(400, format!("{error}\n")),
    }
}

fn act(shared: &Shared, programs: &Programs, path: &str, body: &Value) -> Result<Value, String> {
    let text = |key: &str| body[key].as_str().ok_or_else(|| format!("{key} is missing"));
    let text_or = |key: &str, default: &'static str| body[key].as_str().unwrap_or(default).to_owned();
    match path {
        "/control/directive" => {
            if let Some(dialect) = body["dialect"].as_str() {
                shared.state().dialect = if dialect == "today" { Dialect::Today } else { Dialect::Rfd };
            }
            shared.set_directive(Find {
                version: text("version")?.to_owned(),
                edition: text_or("edition", "oss"),
                auto_update: body["auto_update"].as_bool().unwrap_or(true),
                jitter: body["jitter"].as_u64().unwrap_or(0),
            });
            Ok(json!({}))
        }
        "/control/publish" => {
            let edition = text_or("edition", "oss");
            if !["oss", "enterprise", "enterprise-fips"].contains(&edition.as_str()) {
                return Err(format!("no such edition: {edition}"));
            }
            let mut archive = Archive::new(text("version")?, &edition, &text_or("arch", "amd64"))
                .agent(&programs.agent, &text_or("behaviour", "healthy"), body["schema"].as_i64().unwrap_or(1))
                .padding(body["padding"].as_u64().unwrap_or(0));
            if let Some(updater) = programs.updater.as_ref().filter(|_| body["updater"].as_bool().unwrap_or(true)) {
                archive = archive.updater(updater);
            }
            if body["writes"].as_bool().unwrap_or(false) {
                archive = archive.writes();
            }
            if body["rfd_layout"].as_bool().unwrap_or(false) {
                archive = archive.rfd_layout();
            }
            let written = archive.write_to(&shared.cdn);
            Ok(json!({"name": archive.name(), "sha256": written.sha256, "size": written.size}))
        }
        "/control/misbehave" => {
            let how = misbehaviour(text("how")?, &body["value"])?;
            shared.add_rule(Rule::new(text("path")?, how, body["times"].as_u64()));
            Ok(json!({}))
        }
        "/control/behave" => {
            shared.behave();
            Ok(json!({}))
        }
        "/control/requests" => {
            let requests = std::mem::take(&mut shared.state().requests);
            Ok(requests.iter().map(|request| format!("{} {}", request.method, request.path)).collect())
        }
        _ => Err(format!("no such control: {path}")),
    }
}

fn misbehaviour(how: &str, value: &Value) -> Result<Misbehaviour, String> {
    let number = || value.as_u64().ok_or_else(|| format!("{how} needs a number as value"));
    Ok(match how {
        "slow" => Misbehaviour::Slow { bytes_per_sec: number()? },
        "stall" => Misbehaviour::Stall { after_bytes: number()? },
        "hold" => Misbehaviour::Hold { after_bytes: number()? },
        "cut-after" => Misbehaviour::CutAfter { bytes: number()? },
        "cut-every" => Misbehaviour::CutEvery { bytes: number()? },
        "chunked" => Misbehaviour::Chunked,
        "no-length" => Misbehaviour::NoLength,
        "wrong-length" => Misbehaviour::WrongLength(value.as_i64().ok_or("wrong-length needs a number as value")?),
        "status" => Misbehaviour::Status(u16::try_from(number()?).map_err(|error| error.to_string())?, None),
        "redirect" => Misbehaviour::Redirect(value.as_str().ok_or("redirect needs a URL as value")?.to_owned()),
        "redirect-loop" => Misbehaviour::RedirectLoop,
        "wrong-type" => Misbehaviour::WrongType,
        "stale" => Misbehaviour::Stale,
        "content-encoding-gzip" => Misbehaviour::ContentEncodingGzip,
        "ignore-range" => Misbehaviour::IgnoreRange,
        "wrong-range" => Misbehaviour::WrongRange,
        "changed-midway" => Misbehaviour::ChangedMidway,
        "huge-body" => Misbehaviour::HugeBody(number()?),
        "huge-headers" => Misbehaviour::HugeHeaders(number()?),
        "connection-refused" => Misbehaviour::ConnectionRefusedFor(number()?),
        "close-before-response" => Misbehaviour::CloseBeforeResponse,
        "bad-tls" => Misbehaviour::BadTls,
        other => return Err(format!("no such misbehaviour: {other}")),
    })
}
