//! The engine of `teleport-fleet`: decides which host updates when, and says why (FLEET §3).
//!
//! Pure: no I/O, no clock, no randomness but a seed that it is given; the same inputs give the same bytes. The server, the
//! simulator and the tests run the same step.

/// An enum whose variants have names, by which serde and a function of this name know them.
macro_rules! named {
    // One of so many variants, which `ALL` lists.
    ($name_of:ident[] $this:ident of $count:literal: $(#[$of_enum:meta])* pub enum $enum:ident {
        $($(#[$of_variant:meta])* $variant:ident = $name:literal,)*
    }) => {
        named! { $name_of[] $this: $(#[$of_enum])* pub enum $enum { $($(#[$of_variant])* $variant = $name,)* } }

        impl $enum {
            /// All of them.
            pub const ALL: [Self; $count] = [$(Self::$variant,)*];
        }
    };
    ($name_of:ident[$($by:tt)*] $this:ident: $(#[$of_enum:meta])* pub enum $enum:ident {
        $($(#[$of_variant:meta])* $variant:ident $({ $($fields:tt)* })? = $name:literal,)*
    }) => {
        $(#[$of_enum])*
        pub enum $enum { $($(#[$of_variant])* #[serde(rename = $name)] $variant $({ $($fields)* })?,)* }

        impl $enum {
            /// Its name, as serde writes it.
            pub const fn $name_of($($by)* $this) -> &'static str {
                match $this { $(Self::$variant { .. } => $name,)* }
            }
        }
    };
}

/// Whether serde leaves a value out.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub mod advice;
pub mod answer;
pub mod calendar;
mod choice;
pub mod command;
pub mod counts;
pub mod curve;
pub mod drafting;
pub mod dry_run;
pub mod fleet;
pub mod host;
pub mod index;
pub mod inventory;
mod label_texts;
pub mod labels;
pub mod lint;
pub mod listening;
pub mod membership;
pub mod moment;
pub mod names;
pub mod order;
pub mod percent;
pub mod plain;
pub mod planned;
pub mod policy;
pub mod progress;
pub mod promotion;
pub mod reason;
pub mod record;
pub mod refusal;
pub mod resource;
pub mod resource_set;
pub mod rollout;
pub mod rollout_state;
mod said;
pub mod selection;
pub mod step;
pub mod tally;
