//! The updater of RFD 0109 (`teleport-ent-updater`): a timer that asks a channel, and `/etc/teleport-upgrade.d`.

use std::path::{Path, PathBuf};

use http_client::redact;
use sources::Source;

use crate::context::Context;
use crate::host::{Layout, durable};
use crate::inspect::takeover::taken_over;
use crate::inspect::timers;
use crate::plan::UPGRADE_TIMERS;
use crate::report::{Code, Error, Result};

/// Where units of administrators and those of packages are.
pub(super) const UNIT_DIRS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// The channel that it asks, without a scheme.
const ENDPOINT: &str = "/etc/teleport-upgrade.d/endpoint";
/// Longest such file, bytes.
const MAX_ENDPOINT: u64 = 4 << 10;

/// The default installation of this host is updated by it.
pub(crate) fn is_there(layout: &Layout) -> Result<bool> {
    Ok(layout.suffix.is_none() && timers::is_in(layout, &UNIT_DIRS, UPGRADE_TIMERS[0])?)
}

/// The channel that it follows, as a source; `None` where there is none.
///
/// Errors: `usage` for what is no channel, such as one that is not encrypted.
pub(crate) fn channel(layout: &Layout) -> Result<Option<String>> {
    let file = layout.followed(Path::new(ENDPOINT));
    // A pipe in its place would be waited for.
    let bytes = if file.is_file() { durable::read_limited(&file, MAX_ENDPOINT)? } else { None };
    let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).trim().to_owned();
    if text.is_empty() {
        return Ok(None);
    }
    let scheme = if text.contains("://") { "channel+" } else { "channel+https://" };
    let source = format!("{scheme}{text}");
    match source.parse()? {
        Source::Channel(url) if url.starts_with("https://") => Ok(Some(source)),
        _ => Err(Error::new(Code::Usage, format!("{} is not an https:// URL", redact(&text)))),
    }
}

/// What enables it, and its units where an administrator's directory has them, with the place where each will be kept. A
/// package's own files stay: without what enables them they do nothing.
pub(super) fn set_aside(layout: &Layout) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    if !is_there(layout)? {
        return Ok(found);
    }
    for timer in UPGRADE_TIMERS {
        let service = timer.replace(".timer", ".service");
        let wants =
            ["timers.target", "multi-user.target", layout.unit.as_str()].map(|by| format!("{by}.wants/{timer}"));
        for name in wants.into_iter().chain([timer.to_owned(), service]) {
            let inside = Path::new(UNIT_DIRS[0]).join(name);
            let path = layout.real_path(&inside);
            // One that an administrator has masked stays masked.
            let is_mask = std::fs::read_link(&path).is_ok_and(|target| target == Path::new("/dev/null"));
            if durable::exists(&path)? && !is_mask {
                found.push((path, taken_over(layout, &inside)));
            }
        }
    }
    Ok(found)
}

/// Its timers that run now.
pub(super) fn running(context: &Context) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if is_there(&context.layout)? {
        for timer in UPGRADE_TIMERS {
            found.extend(timers::active(&context.layout, timer.to_owned())?);
        }
    }
    Ok(found)
}
