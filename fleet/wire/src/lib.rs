//! What the rollout server says: to hosts ([`answers`]), to operators' programs ([`api`]), and as sentences to people
//! ([`words`]). Pure: no I/O, no clock.

pub mod answers;
pub mod api;
pub mod ids;
pub mod lenient;
mod name;
pub mod reason;
pub mod rollout;
pub mod text;
pub mod words;
