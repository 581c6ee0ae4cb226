//! Of what a reason speaks.

/// Of what a reason speaks.
#[derive(Debug, Clone, Copy)]
pub enum ReasonSubject<'a> {
    /// The group of this name; empty: everybody, in a rollout without groups.
    Group(&'a str),
    /// The host of this UUID.
    Host(&'a str),
}
