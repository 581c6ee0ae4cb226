//! Random numbers.

/// A number that nobody can guess: order and ids of rollouts come from it.
pub(crate) fn number() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    // Six bits of a UUID are fixed, none of them in the same place of both halves.
    high ^ low.rotate_left(7)
}
