//! `hosts`, `host` and `explain`.

use fleet_wire::api::{DecideMany, Decided, DecidedMany, Decision, Explained, HostView, HostsQuery, ManyDecision};
use fleet_wire::ids;
use fleet_wire::text::shell;
use fleet_wire::words::host as words;

use super::{directives, id, path};
use crate::args::{HostVerb, HostsArgs, HostsFilter, HostsVerb, OneHost, PrintFormat};
use crate::client::{Answer, AnswerPage, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::table::TextTable;
use crate::show::{explain as shown, hosts as table, value, version_control as inventory};

/// Where hosts are.
const HOSTS: &str = "/v1/fleet/hosts";
/// Hosts of one answer: the most that the server gives (fleet_wire::api::HostsQuery).
const PAGE: u32 = 1000;

/// Longest word for a host, bytes: as long as a label may be.
const LONGEST_HOST: usize = 256;
/// Hosts that are named where one word may be several.
const NAMED: u32 = 10;

/// `explain --host`.
pub(super) fn explain(host: &str, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut explained: Answer<Explained> = client.ask(&ApiCall::get(place(host, client)?))?;
    // The answer alone: `host` has the rest.
    if let Some(keys) = explained.said.as_object_mut() {
        keys.retain(|key, _| key != "known" && key != "history");
    }
    value::show(screen, &explained, |out, look| shown::text(out, &explained, look))
}

/// `host HOST [DECISION]`.
pub(super) fn one(host: &OneHost, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let decision = host.decision.as_ref().map(|verb| match verb {
        HostVerb::Hold => Decision::Hold,
        HostVerb::Release => Decision::Release,
        HostVerb::Assign { group } => Decision::Assign(Some(group.clone())),
        HostVerb::Unassign => Decision::Assign(None),
        HostVerb::Accept { key } => Decision::Accept(key.clone()),
        HostVerb::Forget => Decision::Forget,
    });
    let question = match decision {
        Some(decision) => ApiCall::post(place(&host.host, client)?, &Decided { id: id(), decision })?,
        None => ApiCall::get(place(&host.host, client)?),
    };
    let explained: Answer<Explained> = client.ask(&question)?;
    value::show(screen, &explained, |out, look| shown::detail(out, &explained, look))
}

/// `hosts`: page after page, so that a large fleet need not fit into memory.
pub(super) fn list(hosts: &HostsArgs, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match &hosts.verb {
        Some(verb) => decide(verb, client, screen),
        None => list_as(&hosts.filter, (table::table(), table::add), client, screen),
    }
}

/// `inventory ls`: the same hosts, and how far their installations are.
pub(super) fn inventory(filter: &HostsFilter, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    list_as(filter, (inventory::inventory(), inventory::add), client, screen)?;
    directives::warn_of_versions(client, screen)
}

fn list_as(
    filter: &HostsFilter,
    (mut table, add): (TextTable, fn(&mut TextTable, &HostView)),
    client: &ApiClient,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let (format, is_colourful) = (screen.format(), screen.console.is_colourful);
    let mut after = None;
    let mut count = 0_u64;
    if format == PrintFormat::Csv {
        write!(screen.out(), "{}\r\n", table::COLUMNS.join(","))?;
    }
    loop {
        let query = HostsQuery { after, limit: Some(PAGE), ..filter.query() };
        let mut page: AnswerPage<HostView> = client.ask(&ApiCall::get(page_of(&query)))?;
        after = page.items.last().map(|host| host.host.clone());
        if format == PrintFormat::Text {
            // The pages of a large fleet are by UUID, so that none is left out.
            page.items.sort_by_cached_key(|host| (host.hostname.is_empty(), host.hostname.clone()));
        }
        for host in &page.items {
            match format {
                PrintFormat::Text => add(&mut table, host),
                PrintFormat::Csv => write!(screen.out(), "{}", table::csv(&host.said))?,
                // Without the line's end: a comma may follow.
                PrintFormat::Json => {
                    write!(screen.out(), "{}{}", if count == 0 { "[\n" } else { ",\n" }, value::json(host)?)?;
                }
                PrintFormat::Yaml => value::write_one(screen.out(), format, host)?,
            }
            count += 1;
        }
        if format == PrintFormat::Text && count > 0 {
            table.write(screen.out(), is_colourful)?;
        }
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

/// `hosts accept`, `assign`, `unassign`.
fn decide(verb: &HostsVerb, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let (decision, many) = match verb {
        HostsVerb::Accept(many) => (ManyDecision::Accept, many),
        HostsVerb::Assign { group, many } => (ManyDecision::Assign(Some(group.clone())), many),
        HostsVerb::Unassign(many) => (ManyDecision::Assign(None), many),
    };
    let hosts = many.filter.query();
    if !many.all && hosts == HostsQuery::default() {
        let message = "say which hosts: --group, --search, --label or another filter, or --all";
        return Err(Failure::new(Failure::USAGE, message));
    }
    let asked = DecideMany { id: id(), hosts, decision, dry_run: many.dry_run, shown: many.shown.clone() };
    let done: Answer<DecidedMany> = client.ask(&ApiCall::post(HOSTS.to_owned(), &asked)?)?;
    value::show(screen, &done, |out, _| {
        if !many.dry_run {
            return Ok(writeln!(out, "{}.", words::decided(&asked.decision, &done))?);
        }
        writeln!(out, "Nothing was changed (--dry-run). Of the fleet: {}.", words::touched(&done))?;
        Ok(writeln!(
            out,
            "To decide on these and no others, type it with --shown {} in place of --dry-run.",
            done.shown
        )?)
    })
}

/// The host of this UUID, of this name, or whose UUID begins so: where that is one host.
fn place(host: &str, client: &ApiClient) -> Result<String, Failure> {
    if ids::uuid(host).is_some() {
        return Ok(format!("{HOSTS}/{}", path::encoded(host)));
    }
    if host.is_empty() || host.len() > LONGEST_HOST {
        let message = format!("a text of {} bytes is no host's name or UUID", host.len());
        return Err(Failure::new(Failure::USAGE, message));
    }
    let query = HostsQuery { called: Some(host.to_owned()), limit: Some(NAMED), ..HostsQuery::default() };
    let found: AnswerPage<HostView> = client.ask(&ApiCall::get(page_of(&query))).map_err(|failure| {
        // A server of before knows no names.
        match failure.code.as_str() {
            "bad_request" => Failure { message: format!("{host:?} is no UUID of a host: {failure}"), ..failure },
            _ => failure,
        }
    })?;
    if let ([one], false) = (&found.items[..], found.more) {
        return Ok(format!("{HOSTS}/{}", path::encoded(&one.host)));
    }
    if found.items.is_empty() {
        let search = shell(host);
        let message =
            format!("no host is called {host:?}, and no id begins so: teleport-fleet hosts --search {search}");
        return Err(Failure::new("not_found", message));
    }
    let named: Vec<String> = found.items.iter().map(|host| words::full(&host.hostname, &host.host)).collect();
    let more = if found.more { ", …" } else { "" };
    let message = format!("{host:?} may be {} hosts: {}{more}: name one by its id", found.count, named.join(", "));
    Err(Failure::new("conflict", message))
}

fn page_of(query: &HostsQuery) -> String {
    let pairs = query.pairs();
    path::with_query(HOSTS, pairs.iter().map(|(name, value)| (name.as_str(), Some(value.clone()))))
}
