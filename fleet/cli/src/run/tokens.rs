//! `tokens`.

use fleet_wire::api::{JoinToken, MadeToken, NewJoinToken, Role, Token};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::{id, path};
use crate::args::{Join, PrintFormat, TokensArgs, TokensVerb};
use crate::client::{ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::table::{TableCell, TextTable};
use crate::show::{text, value};

/// Where tokens are.
const TOKENS: &str = "/v1/fleet/tokens";
/// Where join tokens are.
const JOIN_TOKENS: &str = "/v1/fleet/join-tokens";

/// Carries it out.
pub(super) fn run(tokens: &TokensArgs, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    match &tokens.verb {
        None => list(client, screen),
        Some(TokensVerb::Create { name, role, expires_in }) => create(name, *role, *expires_in, client, screen),
        Some(TokensVerb::Rm { name }) => {
            remove(TOKENS, name, client)?;
            Ok(writeln!(screen.out(), "removed token {}", text::clean(name))?)
        }
        Some(TokensVerb::Join { verb: None }) => list_join(client, screen),
        Some(TokensVerb::Join { verb: Some(Join::Create { name, uses, group, labels, expires_in }) }) => {
            let new = NewJoinToken {
                id: id(),
                name: name.clone(),
                expires: end(*expires_in)?,
                uses: *uses,
                group: group.clone(),
                labels: labels.iter().cloned().collect(),
            };
            let made: MadeToken<JoinToken> = client.ask(&ApiCall::post(JOIN_TOKENS, &new)?)?;
            let what = format!("join token {}", text::clean(name));
            tell_or_remove(JOIN_TOKENS, name, &what, client, tell(&made, &made.secret, &what, screen))
        }
        Some(TokensVerb::Join { verb: Some(Join::Rm { name }) }) => {
            remove(JOIN_TOKENS, name, client)?;
            Ok(writeln!(screen.out(), "removed join token {}", text::clean(name))?)
        }
    }
}

fn remove(place: &str, name: &str, client: &ApiClient) -> Result<(), Failure> {
    let place = format!("{place}/{}", path::encoded(name));
    let _: Value = client.ask(&ApiCall::delete(path::with_query(&place, [("id", Some(id()))])))?;
    Ok(())
}

fn list_join(client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let tokens: Vec<JoinToken> = client.ask(&ApiCall::get(JOIN_TOKENS))?;
    let mut table = TextTable::new(["Name", "Uses Left", "Group", "Labels", "Created", "Expires"]);
    for token in &tokens {
        let labels: Vec<String> = token.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        table.row(vec![
            TableCell::new(&token.name),
            TableCell::new(&token.uses.map_or_else(|| "any number".to_owned(), |uses| uses.to_string())),
            TableCell::new(token.group.as_deref().unwrap_or_default()),
            TableCell::new(&labels.join(", ")),
            TableCell::new(&text::time(token.created)),
            TableCell::new(&token.expires.map_or_else(|| "never".to_owned(), text::time)),
        ]);
    }
    value::show(screen, &tokens, |out, _| Ok(table.write(out, false)?))
}

fn list(client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let tokens: Vec<Token> = client.ask(&ApiCall::get(TOKENS))?;
    let mut table = TextTable::new(["Name", "Role", "Created", "Expires"]);
    for token in &tokens {
        table.row(vec![
            TableCell::new(&token.name),
            TableCell::new(&token.role.to_string()),
            TableCell::new(&text::time(token.created)),
            TableCell::new(&token.expires.map_or_else(|| "never".to_owned(), text::time)),
        ]);
    }
    value::show(screen, &tokens, |out, _| Ok(table.write(out, false)?))
}

fn create(
    name: &str,
    role: Role,
    expires_in: Option<Span>,
    client: &ApiClient,
    screen: &mut Screen<'_, '_>,
) -> Result<(), Failure> {
    let new = fleet_wire::api::NewToken { id: id(), name: name.to_owned(), role, expires: end(expires_in)? };
    let made: MadeToken = client.ask(&ApiCall::post(TOKENS, &new)?)?;
    let told = tell(&made, &made.secret, &format!("token {} ({role})", text::clean(name)), screen);
    tell_or_remove(TOKENS, name, &format!("token {}", text::clean(name)), client, told)
}

fn end(after: Option<Span>) -> Result<Option<Timestamp>, Failure> {
    let too_far = |error| Failure::local("cannot say when it expires", error);
    let end = |span: Span| Timestamp::now().to_zoned(TimeZone::UTC).checked_add(span).map(|end| end.timestamp());
    after.map(end).transpose().map_err(too_far)
}

/// The secret alone goes to standard output, so that it can be led into a file.
fn tell(made: &impl Serialize, secret: &str, what: &str, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    match screen.format() {
        PrintFormat::Text => {
            writeln!(screen.out(), "{}", text::clean(secret))?;
            screen.out().flush()?;
            // The secret is out: that is what counts.
            let _ = writeln!(screen.console.err, "made {what}; its secret is shown this once");
        }
        format => {
            value::write(screen.out(), format, made)?;
            screen.out().flush()?;
        }
    }
    Ok(())
}

/// A token whose secret nobody could read is good for nobody: it is removed again.
fn tell_or_remove(
    place: &str,
    name: &str,
    what: &str,
    client: &ApiClient,
    told: Result<(), Failure>,
) -> Result<(), Failure> {
    let Err(unread) = told else { return Ok(()) };
    let why = if unread.is_closed() { "nobody reads the output" } else { &unread.message };
    let message = match remove(place, name, client) {
        Ok(()) => format!("the secret of {what} is lost, so it was removed: {why}"),
        Err(failure) => format!("the secret of {what} is lost: {why}; remove it, as this failed: {failure}"),
    };
    Err(Failure::new(Failure::LOCAL, message))
}
