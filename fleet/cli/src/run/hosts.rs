//! `hosts`, `host` and `explain`.

use fleet_wire::api::{Decided, Decision, Explained, HostView};

use super::{id, path};
use crate::args::{ExplainArgs, HostVerb, HostsFilter, OneHost, PrintFormat};
use crate::client::{Answer, AnswerPage, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{explain as shown, hosts as table, value};

/// Where hosts are.
const HOSTS: &str = "/v1/fleet/hosts";
/// Hosts of one answer: the most that the server gives (fleet_wire::api::HostsQuery).
const PAGE: u32 = 1000;

/// Longest word for a host, bytes: a UUID in braces, or with its scheme, has less.
const LONGEST_HOST: usize = 64;

/// `explain --host`.
pub(super) fn explain(explain: &ExplainArgs, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let mut explained: Answer<Explained> = client.ask(&ApiCall::get(place(&explain.host)?))?;
    // The answer alone: `host` has the rest.
    if let Some(keys) = explained.said.as_object_mut() {
        keys.retain(|key, _| key != "known" && key != "history");
    }
    value::show(screen, &explained, |out, look| shown::text(out, &explained, look))
}

/// `host UUID [DECISION]`.
pub(super) fn one(host: &OneHost, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let decision = host.decision.as_ref().map(|verb| match verb {
        HostVerb::Hold => Decision::Hold,
        HostVerb::Release => Decision::Release,
        HostVerb::Assign { group } => Decision::Assign(Some(group.clone())),
        HostVerb::Unassign => Decision::Assign(None),
        HostVerb::Accept { key } => Decision::Accept(key.clone()),
        HostVerb::Forget => Decision::Forget,
    });
    let question = match decision {
        Some(decision) => ApiCall::post(place(&host.host)?, &Decided { id: id(), decision })?,
        None => ApiCall::get(place(&host.host)?),
    };
    let explained: Answer<Explained> = client.ask(&question)?;
    value::show(screen, &explained, |out, look| shown::detail(out, &explained, look))
}

/// `hosts`: page after page, so that a large fleet need not fit into memory.
pub(super) fn list(filter: &HostsFilter, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let (format, is_colourful) = (screen.format(), screen.console.is_colourful);
    let mut table = table::table();
    let mut after = None;
    let mut count = 0_u64;
    loop {
        let page: AnswerPage<HostView> = client.ask(&ApiCall::get(page_of(filter, after)))?;
        for host in &page.items {
            if format == PrintFormat::Text {
                table::add(&mut table, host);
            } else {
                let separator = match (format, count) {
                    (PrintFormat::Json, 0) => "[\n",
                    (PrintFormat::Json, _) => ",\n",
                    _ => "---\n",
                };
                write!(screen.out(), "{separator}")?;
                match format {
                    // Without the line's end: a comma may follow.
                    PrintFormat::Json => write!(screen.out(), "{}", value::json(host)?)?,
                    _ => value::write(screen.out(), format, host)?,
                }
            }
            count += 1;
        }
        if format == PrintFormat::Text && count > 0 {
            table.write(screen.out(), is_colourful)?;
        }
        after = page.items.last().map(|host| host.host.clone());
        if !page.more || after.is_none() {
            break;
        }
    }
    match (format, count) {
        (PrintFormat::Json, 0) => writeln!(screen.out(), "[]")?,
        (PrintFormat::Json, _) => writeln!(screen.out(), "\n]")?,
        (PrintFormat::Text, 0) => writeln!(screen.out(), "No host is known that matches.")?,
        _ => {}
    }
    Ok(())
}

fn page_of(filter: &HostsFilter, after: Option<String>) -> String {
    let query = [
        ("group", filter.group.clone()),
        ("state", filter.state.clone()),
        ("version", filter.version.clone()),
        ("failed", filter.failed.then(|| "true".to_owned())),
        ("code", filter.code.clone()),
        ("waiting", filter.waiting.then(|| "true".to_owned())),
        ("after", after),
        ("limit", Some(PAGE.to_string())),
    ];
    path::with_query(HOSTS, query)
}

fn place(host: &str) -> Result<String, Failure> {
    if host.len() > LONGEST_HOST {
        let message = format!("a text of {} bytes is no UUID of a host", host.len());
        return Err(Failure::new(Failure::USAGE, message));
    }
    Ok(format!("{HOSTS}/{}", path::encoded(host)))
}
