//! `events` and `audit`: what was decided.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::thread;
use std::time::Duration;

use fleet_wire::api::{AuditEntry, Verified};

use super::path;
use crate::args::{AuditArgs, AuditVerb, Events, PrintFormat};
use crate::client::{Answer, AnswerPage, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{entries, text, value};

/// Records of one answer.
const PAGE: u32 = 1000;
/// Longest line of an event, bytes: a record holds no more than a name, a reason and its numbers.
const LONGEST: u64 = 1 << 20;
/// Waits before a connection that broke is made again, ms, as long as no event came between: a server restarts in seconds.
pub(super) const AGAIN: [u64; 5] = [200, 1000, 2000, 4000, 8000];

/// `audit`, and `audit verify`.
pub(super) fn audit(audit: &AuditArgs, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    if let Some(AuditVerb::Verify { head }) = &audit.verb {
        return verify(head.clone(), client, screen);
    }
    pages(audit.after, client, |entry| show(&entry, screen))
}

/// Hands over every record behind `after`, page after page.
fn pages(
    mut after: u64,
    client: &ApiClient,
    mut each: impl FnMut(Answer<AuditEntry>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let query = [("after", Some(after.to_string())), ("limit", Some(PAGE.to_string()))];
        let page: AnswerPage<AuditEntry> = client.ask(&ApiCall::get(path::with_query("/v1/fleet/audit", query)))?;
        let Some(last) = page.items.last().map(|entry| entry.seq) else { return Ok(()) };
        for entry in page.items {
            each(entry)?;
        }
        if !page.more || last <= after {
            return Ok(());
        }
        after = last;
    }
}

fn verify(head: Option<String>, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let place = path::with_query("/v1/fleet/audit/verify", [("head", head)]);
    let verified: Answer<Verified> = client.ask(&ApiCall::get(place))?;
    if let Some(fault) = &verified.fault {
        return Err(Failure::new("audit_broken", format!("the audit log was changed: {fault}")));
    }
    value::show(screen, &verified, |out, _| Ok(writeln!(out, "{}", entries::whole(&verified))?))
}

/// `events [--follow]`: the past by pages, so that none is left out, then what comes.
pub(super) fn events(events: &Events, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut after = events.after.unwrap_or(0);
    let most = if events.after.is_some() { usize::MAX } else { usize::try_from(events.last).unwrap_or(usize::MAX) };
    let mut newest = VecDeque::new();
    pages(after, client, |entry| {
        after = entry.seq;
        newest.push_back(entry);
        if newest.len() > most {
            newest.pop_front();
        }
        Ok(())
    })?;
    for entry in &newest {
        show(entry, screen)?;
    }
    if events.follow { follow(after, client, screen) } else { Ok(()) }
}

/// Shows what comes behind `after`, also after the server was started again.
fn follow(mut after: u64, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut again = AGAIN.into_iter();
    loop {
        screen.out().flush()?;
        let place = format!("/v1/fleet/events?after={after}&follow=true");
        let before = after;
        let ended = client.open(&ApiCall::get(place)).and_then(|answer| lines(answer, &mut after, client, screen));
        if after != before {
            again = AGAIN.into_iter();
        }
        // An answer that was not to end has ended: the server stops, or something between cut it off.
        let failure = match ended {
            Ok(()) => Failure::new(Failure::NO_ANSWER, format!("{client} ended the events")),
            Err(failure) => failure,
        };
        let may_pass = [Failure::NO_ANSWER, Failure::UNREACHABLE].contains(&failure.code.as_str());
        match again.next().filter(|_| may_pass) {
            Some(wait) => thread::sleep(Duration::from_millis(wait)),
            None => return Err(failure),
        }
    }
}

/// Shows the lines of an answer as they come; `after` follows the numbers.
fn lines(answer: impl Read, after: &mut u64, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut answer = BufReader::new(answer);
    loop {
        let mut line = Vec::new();
        let read = answer.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        read.map_err(|why| Failure::new(Failure::NO_ANSWER, format!("the connection to {client} broke ({why})")))?;
        match line.last() {
            None => return Ok(()),
            Some(b'\n') => event(&line, after, client, screen)?,
            Some(_) if line.len() as u64 == LONGEST => return Err(client.misunderstood("a line is too long")),
            Some(_) => event(&line, after, client, screen)?,
        }
        screen.out().flush()?;
    }
}

/// Empty lines keep a connection alive.
fn event(line: &[u8], after: &mut u64, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    let entry: Answer<AuditEntry> =
        serde_json::from_slice(line).map_err(|error| client.misunderstood(&error.to_string()))?;
    show(&entry, screen)?;
    *after = entry.seq;
    Ok(())
}

/// A record: a line; in YAML a document.
fn show(entry: &Answer<AuditEntry>, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match screen.format() {
        PrintFormat::Text => writeln!(screen.out(), "{}", text::clean(&entries::line(entry)))?,
        format => value::write_one(screen.out(), format, entry)?,
    }
    Ok(())
}
