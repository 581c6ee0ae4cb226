//! `tokens`.

use fleet_api::{MadeToken, Role, Token};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde_json::Value;

use super::{id, path};
use crate::args::{Format, NewToken, Tokens};
use crate::client::{Client, Question};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::table::{Cell, Table};
use crate::show::{text, value};

/// Where tokens are.
const TOKENS: &str = "/v1/fleet/tokens";

/// Carries it out.
pub(super) fn run(tokens: &Tokens, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    match &tokens.verb {
        None => list(client, screen),
        Some(NewToken::Create { name, role, expires_in }) => create(name, *role, *expires_in, client, screen),
        Some(NewToken::Rm { name }) => {
            let place = format!("{TOKENS}/{}", path::encoded(name));
            let _: Value = client.ask(&Question::delete(path::with_query(&place, [("id", Some(id()))])))?;
            writeln!(screen.out(), "removed token {}", text::clean(name))?;
            Ok(())
        }
    }
}

fn list(client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let tokens: Vec<Token> = client.ask(&Question::get(TOKENS))?;
    let format = screen.format();
    if format != Format::Text {
        let json = serde_json::to_value(&tokens).map_err(|error| Failure::local("cannot write JSON", error))?;
        return value::write(screen.out(), format, &json);
    }
    let mut table = Table::new(["Name", "Role", "Created", "Expires"]);
    for token in &tokens {
        table.row(vec![
            Cell::new(&token.name),
            Cell::new(&token.role.to_string()),
            Cell::new(&text::time(token.created)),
            Cell::new(&token.expires.map_or_else(|| "never".to_owned(), text::time)),
        ]);
    }
    table.write(screen.out(), false)?;
    Ok(())
}

/// The secret alone goes to standard output, so that it can be led into a file.
fn create(
    name: &str,
    role: Role,
    expires_in: Option<Span>,
    client: &Client,
    screen: &mut Screen<'_, '_>,
) -> Result<(), Failure> {
    let too_far = |error| Failure::local("cannot say when it expires", error);
    let end = |span: Span| Timestamp::now().to_zoned(TimeZone::UTC).checked_add(span).map(|end| end.timestamp());
    let expires = expires_in.map(end).transpose().map_err(too_far)?;
    let new = fleet_api::NewToken { id: id(), name: name.to_owned(), role, expires };
    let made: MadeToken = client.ask(&Question::post(TOKENS, &new)?)?;
    match screen.format() {
        Format::Text => {
            writeln!(screen.out(), "{}", text::clean(&made.secret))?;
            writeln!(screen.console.err, "made token {} ({role}); its secret is shown this once", text::clean(name))?;
        }
        format => {
            let json = serde_json::to_value(&made).map_err(|error| Failure::local("cannot write JSON", error))?;
            value::write(screen.out(), format, &json)?;
        }
    }
    Ok(())
}
