//! Tokens of the admin API (FLEET.md §8).

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use fleet_api::Role;
use jiff::Span;

/// Options of `tokens`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet tokens                                          # who may do what\n  \
                  teleport-fleet tokens create ci --role operator --expires-in 90d > token\n  \
                  teleport-fleet tokens rm ci")]
pub struct Tokens {
    /// What to do instead of listing them
    #[command(subcommand)]
    pub verb: Option<NewToken>,
}

/// What `tokens` does besides listing.
#[derive(Debug, Clone, Subcommand)]
pub enum NewToken {
    /// Make a token; its secret is shown this once
    Create {
        /// Its name: letters, digits, `.`, `_` and `-`
        name: String,
        /// What it may do: look; change what the fleet does; change what others may do
        #[arg(long, value_name = "ROLE", value_parser = PossibleValuesParser::new(["viewer", "operator", "admin"]).map(role))]
        role: Role,
        /// After how long it ends, as in 90d or 12h [default: never]
        #[arg(long, value_name = "DURATION", value_parser = positive)]
        expires_in: Option<Span>,
    },
    /// Remove a token: from then on nobody gets in with it
    Rm {
        /// Its name
        name: String,
    },
}

#[expect(clippy::needless_pass_by_value, reason = "clap hands it over")]
fn role(word: String) -> Role {
    match word.as_str() {
        "operator" => Role::Operator,
        "admin" => Role::Admin,
        _ => Role::Viewer,
    }
}

fn positive(text: &str) -> Result<Span, String> {
    let span: Option<Span> = text.parse().ok();
    span.filter(|span| span.is_positive()).ok_or_else(|| "expected a length of time, as in 90d or 12h".to_owned())
}
