//! `tokens`.

use fleet_wire::api::{JoinToken, MadeToken, NewJoinToken, NewToken, Token};
use fleet_wire::lenient::word;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{id, path};
use crate::args::{Join, PrintFormat, TokensVerb};
use crate::client::{Answer, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value};

/// Where tokens are.
const TOKENS: &str = "/v1/fleet/tokens";
/// Where join tokens are.
const JOIN_TOKENS: &str = "/v1/fleet/join-tokens";

/// Carries it out.
pub(super) fn run(verb: Option<&TokensVerb>, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match verb {
        None => list(client, screen),
        Some(TokensVerb::Create { name, role, expires_in }) => {
            let new = NewToken { id: id(), name: name.clone(), role: *role, expires: end(*expires_in)? };
            make::<Token>(TOKENS, (name, "token", &format!(" ({role})")), &new, client, screen)
        }
        Some(TokensVerb::Rm { name }) => rm(TOKENS, (name, "token"), client, screen),
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
            make::<JoinToken>(JOIN_TOKENS, (name, "join token", ""), &new, client, screen)
        }
        Some(TokensVerb::Join { verb: Some(Join::Rm { name }) }) => {
            rm(JOIN_TOKENS, (name, "join token"), client, screen)
        }
    }
}

fn rm(place: &str, (name, what): (&str, &str), client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    remove(place, name, client)?;
    value::show(screen, &json!({ "removed": name }), |out, _| {
        Ok(writeln!(out, "removed {what} {}", text::clean(name))?)
    })
}

fn remove(place: &str, name: &str, client: &ApiClient) -> Result<(), Failure> {
    let place = format!("{place}/{}", path::encoded(name));
    let _: Value = client.ask(&ApiCall::delete(path::with_query(&place, [("id", Some(id()))])))?;
    Ok(())
}

fn list_join(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let tokens: Vec<Answer<JoinToken>> = client.ask(&ApiCall::get(JOIN_TOKENS))?;
    value::list(screen, &tokens, ["Name", "Uses Left", "Group", "Labels", "Created", "Expires"], |token| {
        let labels: Vec<String> = token.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let uses = token.uses.map_or_else(|| "any number".to_owned(), |uses| uses.to_string());
        let group = token.group.clone().unwrap_or_default();
        [token.name.clone(), uses, group, labels.join(", "), text::time(token.created), expires(token.expires)]
    })
}

fn list(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let tokens: Vec<Answer<Token>> = client.ask(&ApiCall::get(TOKENS))?;
    value::list(screen, &tokens, ["Name", "Role", "Created", "Expires"], |token| {
        [token.name.clone(), word(&token.role), text::time(token.created), expires(token.expires)]
    })
}

fn expires(end: Option<Timestamp>) -> String {
    end.map_or_else(|| "never".to_owned(), text::time)
}

/// Makes a token, and gives its secret. One whose secret nobody could read is good for nobody: it is removed again.
fn make<T: DeserializeOwned>(
    place: &str,
    (name, what, more): (&str, &str, &str),
    new: &impl Serialize,
    client: &ApiClient,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let made: Answer<MadeToken<T>> = client.ask(&ApiCall::post(place, new)?)?;
    let what = format!("{what} {}", text::clean(name));
    let Err(unread) = tell(&made, &made.secret, &format!("{what}{more}"), screen) else { return Ok(()) };
    let why = if unread.code == Failure::CLOSED { "nobody reads the output" } else { &unread.message };
    let message = match remove(place, name, client) {
        Ok(()) => format!("the secret of {what} is lost, so it was removed: {why}"),
        Err(failure) => format!("the secret of {what} is lost: {why}; remove it, as this failed: {failure}"),
    };
    Err(Failure::new(Failure::LOCAL, message))
}

fn end(after: Option<Span>) -> Result<Option<Timestamp>, Failure> {
    let too_far = |error| Failure::local("cannot say when it expires", error);
    let end = |span: Span| Timestamp::now().to_zoned(TimeZone::UTC).checked_add(span).map(|end| end.timestamp());
    after.map(end).transpose().map_err(too_far)
}

/// The secret alone goes to standard output, so that it can be led into a file.
fn tell(made: &impl Serialize, secret: &str, what: &str, screen: &mut Screen<'_>) -> Result<(), Failure> {
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
