//! The windows that agents export into a Secret or a ConfigMap (KUBE §3, RFD 0109).

use jiff::Timestamp;
use serde_json::Value;
use sources::Window;

use crate::api::Api;
use crate::config::ScheduleObject;
use crate::plan::AgentLook;
use crate::store::decoded;

/// The window that agents export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exported {
    /// None is configured.
    None,
    /// It.
    Window(Window),
    /// It cannot be used, since when, and why.
    Lost(Timestamp, String),
}

/// The window of an agent; since when there has been none that can be used is kept.
pub async fn exported(api: &Api, look: &mut AgentLook<'_>) -> Exported {
    let Some(schedule) = &look.agent.schedule else { return Exported::None };
    match read(api, schedule).await {
        Ok(window) => {
            look.state.schedule_lost = None;
            Exported::Window(window)
        }
        Err(why) => Exported::Lost(*look.state.schedule_lost.get_or_insert(look.now), why),
    }
}

/// Errors: why there is none, as a part of a sentence.
async fn read(api: &Api, schedule: &ScheduleObject) -> Result<Window, String> {
    let ScheduleObject { is_secret, name, key } = schedule;
    let kind = if *is_secret { "Secret" } else { "ConfigMap" };
    let found: Option<Value> = api.object(kind, name).await.map_err(|fault| format!("cannot be read ({fault})"))?;
    let found = found.ok_or_else(|| format!("is missing: there is no {kind} {name}"))?;
    let text = found["data"][key].as_str().ok_or_else(|| format!("is missing: {name} has no key {key}"))?;
    let text = if *is_secret {
        decoded(text).ok_or_else(|| format!("is broken: {name} is not base64"))?
    } else {
        text.to_owned()
    };
    Window::exported(&text).map_err(|why| format!("is broken: {why}"))
}
