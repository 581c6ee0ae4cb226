//! A channel of RFD 0109: `version` and `critical` below one URL, and the server's maintenance schedule beside it.

use std::time::Duration;

use error::{Code, Error, Result};
use http_client::{Request, encoded, said, shown};
use protocol::Version;

use super::find::excerpt;
use super::said::{Said, Way, Word};
use super::source::origin_of;
use super::window::{Window, Zones};

/// The word of a channel that names no version.
const NONE: &str = "none";
/// How long `critical` is waited for: without an answer a version is not critical.
const CRITICAL_WAIT: Duration = Duration::from_secs(10);
/// A window that the server lists is as long as it says; one that it writes as a calendar expression, an hour.
const HOUR: Duration = Duration::from_secs(3600);

/// Asks the channel at `url` for its version, and whether that is critical.
///
/// Errors: [`Code::Network`] where there is no answer; [`Code::ClusterAnswer`] for one that is none; [`Code::Interrupted`].
pub fn ask(url: &str, way: &Way<'_>) -> Result<Word> {
    let place = format!("{url}/version");
    let text = found(&place, way)?;
    let text = text.trim();
    if text == NONE {
        return Ok(Word::Nothing(format!("{} says none", shown(&place))));
    }
    let version: Version = text.parse().map_err(|_| {
        let (place, told) = (shown(&place), excerpt(text.as_bytes()));
        Error::new(Code::ClusterAnswer, format!("{place} answered {told:?}, which is not a version"))
            .advise("check that this is the URL above `version` and `critical`")
    })?;
    Ok(Word::Version(Box::new(Said { critical: is_critical(url, way)?, ..Said::version(version) })))
}

/// Whether `critical` is exactly `yes`; without an answer it is not. Errors: [`Code::Interrupted`].
fn is_critical(url: &str, way: &Way<'_>) -> Result<bool> {
    let longest = way.left().map_or(CRITICAL_WAIT, |left| left.min(CRITICAL_WAIT));
    let request = Request::get(format!("{url}/critical")).within(Some(longest));
    match way.client.ask(&request, way.cancelled) {
        Ok(answer) => Ok(answer.status == 200 && answer.body.trim_ascii() == b"yes"),
        Err(error) if error.code == Code::Interrupted => Err(error),
        Err(_) => Ok(false),
    }
}

/// The windows of the maintenance schedule that the server of `url` has for `group`; `None` where it has none. `zone_of`: as of
/// [`Window::parse`].
///
/// Errors: as [`ask`]: a server that has a schedule and does not tell it opens no window.
pub fn schedule(url: &str, group: Option<&str>, zone_of: Zones<'_>, way: &Way<'_>) -> Result<Option<Window>> {
    let place = format!("{}/v1/maintenance-schedule", origin_of(url));
    let mut query = "?kind=kube_controller".to_owned();
    if let Some(group) = group {
        query += &format!("&group={}", encoded(group));
    }
    let answer = way.client.ask(&Request::get(format!("{place}{query}")).within(way.left()), way.cancelled)?;
    match answer.status {
        200 => {}
        // Buckets say 403 of what is not there.
        204 | 403 | 404 | 405 | 410 => return Ok(None),
        status => return Err(Error::new(Code::ClusterAnswer, format!("{} answered {status}", shown(&place)))),
    }
    let text = String::from_utf8_lossy(&answer.body);
    let window = match text.trim() {
        "" => return Ok(None),
        json if json.starts_with('{') => Window::exported(json),
        lines => Window::parse(lines, HOUR, zone_of),
    };
    let wrong = |why| {
        Error::new(Code::ClusterAnswer, format!("the maintenance schedule of {} cannot be read: {why}", shown(&place)))
            .advise("set window in updates.yaml, which is used in its place")
    };
    window.map(Some).map_err(wrong)
}

/// The body of `place`. Errors: [`Code::Network`], [`Code::ClusterAnswer`] where the status is not 200, [`Code::Interrupted`].
pub(super) fn found(place: &str, way: &Way<'_>) -> Result<String> {
    let answer = way.client.ask(&Request::get(place).within(way.left()), way.cancelled)?;
    if answer.status != 200 {
        let why = said(&answer.body).map_or_else(String::new, |why| format!(": {why}"));
        return Err(Error::new(Code::ClusterAnswer, format!("{} answered {}{why}", shown(place), answer.status)));
    }
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}
