//! Model test of the whole walk (facts → decide → plan → execute → record → recover) without a host.
//!
//! Random sequences of what happens to a host are run twice: by the pure rules of this program, whose plans an abstract
//! host carries out step by step and can be killed at each ([`host`], [`updater`]), and by a plain account of SPEC §5 to §8
//! that knows no steps and calls none of the rules ([`reference`]). After each command both must tell the same story.
//!
//! `PROPTEST_CASES` sets how many sequences are tried.

mod facts;
mod host;
mod interruption;
mod invariant;
mod kill;
mod op;
mod pending;
mod reference;
mod seen;
mod sequence;
mod steps;
mod tests;
mod updater;
mod world;
