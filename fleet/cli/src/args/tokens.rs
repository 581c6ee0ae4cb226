//! Tokens of the admin API (FLEET §8).

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fleet_wire::api::Role;
use jiff::Span;

/// What `tokens` does besides listing.
#[derive(Debug, Clone, Subcommand)]
pub enum TokensVerb {
    /// Make a token; its secret is shown this once
    Create {
        /// Its name: letters, digits, `.`, `_` and `-`
        name: String,
        /// What it may do: write one draft; look; change what the fleet does; change what others may do
        #[arg(long, value_name = "ROLE", value_parser = PossibleValuesParser::new(["controller", "viewer", "operator", "admin"]).try_map(|word| Role::named(&word).ok_or("no role")))]
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
    /// Join tokens, with which hosts enrol; without a verb: list them
    Join {
        /// What to do instead of listing them
        #[command(subcommand)]
        verb: Option<Join>,
    },
}

/// What `tokens join` does besides listing.
#[derive(Debug, Clone, Subcommand)]
pub enum Join {
    /// Make a join token; its secret is shown this once
    Create {
        /// Its name: letters, digits, `.`, `_` and `-`
        name: String,
        /// How many hosts may enrol with it [default: any number]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
        uses: Option<u64>,
        /// The group of these hosts, whatever they declare
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        /// A label of these hosts, whatever they say of it; may be given again
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        /// After how long it ends, as in 90d or 12h [default: never]
        #[arg(long, value_name = "DURATION", value_parser = positive)]
        expires_in: Option<Span>,
    },
    /// Remove a join token: no host enrols with it any more; those that did stay
    Rm {
        /// Its name
        name: String,
    },
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "expected KEY=VALUE".to_owned())
}

fn positive(text: &str) -> Result<Span, String> {
    let span: Option<Span> = text.parse().ok();
    span.filter(|span| span.is_positive()).ok_or_else(|| "expected a length of time, as in 90d or 12h".to_owned())
}
