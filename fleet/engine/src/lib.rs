//! The engine of `teleport-fleet`: decides which host updates when, and says why (FLEET §3).
//!
//! Pure: no I/O, no clock, no randomness but a seed that it is given; the same inputs give the same bytes. The server, the
//! simulator and the tests run the same step.

/// An enum whose variants have names: those that serde writes, and that [`name`] gives.
macro_rules! named {
    ($(#[$of_enum:meta])* pub enum $enum:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$of_enum])*
        pub enum $enum { $($(#[$of_variant])* #[serde(rename = $name)] $variant,)* }

        impl $enum {
            /// Its name, as serde writes it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

pub mod advice;
pub mod answer;
pub mod book;
pub mod calendar;
pub mod command;
pub mod counts;
pub mod curve;
pub mod fleet;
pub mod host;
mod index;
mod label_set;
pub mod labels;
pub mod lint;
pub mod listening;
pub mod membership;
pub mod moment;
pub mod names;
pub mod order;
pub mod percent;
pub mod plain;
pub mod policy;
pub mod reason;
pub mod record;
pub mod resource;
pub mod rollout;
pub mod shelf;
mod since;
pub mod step;
pub mod tally;
