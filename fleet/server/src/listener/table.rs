//! The open connections: which has waited longest for its client, and whose time is over. The accept loop owns it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::limits::ListenerLimits;
use super::phase::PhaseCell;

/// So many connections are looked at for one that makes room: bounds the work where all are busy.
const LOOKS: usize = 1024;

/// The open connections by `K`; `V` is what ends one.
#[derive(Debug)]
pub(crate) struct ConnectionTable<K, V> {
    entries: HashMap<K, ConnectionEntry<V>>,
    /// In the order in which they were last seen to wait. No time here is after the true one, so the first whose time
    /// is still true has waited longest of all. What is no longer in `entries` is skipped.
    order: BTreeMap<(u64, u64), K>,
    /// Turns so far: the second part of a place in the order.
    turns: u64,
}

#[derive(Debug)]
struct ConnectionEntry<V> {
    state: Arc<PhaseCell>,
    value: V,
}

impl<K: Copy + Eq + Hash, V> ConnectionTable<K, V> {
    pub(crate) fn new() -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), turns: 0 }
    }

    /// Open connections.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A new connection.
    pub(crate) fn insert(&mut self, key: K, state: Arc<PhaseCell>, value: V) {
        let since = state.look().waiting_since().unwrap_or(0);
        self.entries.insert(key, ConnectionEntry { state, value });
        self.take_turn(since, key);
        if self.order.len() > 2 * self.entries.len() + LOOKS {
            let entries = &self.entries;
            self.order.retain(|_, key| entries.contains_key(key));
        }
    }

    /// Behind who waits since before `since`, microseconds since the epoch.
    fn take_turn(&mut self, since: u64, key: K) {
        self.turns += 1;
        self.order.insert((since, self.turns), key);
    }

    /// A connection ended.
    pub(crate) fn remove(&mut self, key: K) {
        self.entries.remove(&key);
    }

    /// Takes out the connection that has waited longest for its client; `now` in microseconds since the epoch. `None`
    /// if all that were looked at are at work.
    pub(crate) fn take_oldest(&mut self, now: u64) -> Option<V> {
        for _ in 0..LOOKS {
            let ((seen, _), key) = self.order.pop_first()?;
            let Some(entry) = self.entries.get(&key) else { continue };
            let look = entry.state.look();
            let since = look.waiting_since();
            if since.is_some_and(|since| since <= seen) && entry.state.condemn(look) {
                return self.entries.remove(&key).map(|entry| entry.value);
            }
            self.take_turn(since.unwrap_or(now).max(seen), key);
        }
        None
    }

    /// Takes out every connection whose client had its time.
    pub(crate) fn take_overdue(&mut self, now: u64, limits: &ListenerLimits) -> Vec<V> {
        let is_overdue = |entry: &ConnectionEntry<V>| {
            let look = entry.state.look();
            look.is_overdue(now, limits) && entry.state.condemn(look)
        };
        self.entries.extract_if(|_, entry| is_overdue(entry)).map(|(_, entry)| entry.value).collect()
    }

    /// All of them, to be told something.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::phase::Phase;
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn add(table: &mut ConnectionTable<u32, u32>, key: u32, phase: Phase, since: u64) -> Arc<PhaseCell> {
        let state = Arc::new(PhaseCell::fixed(phase, since));
        table.insert(key, Arc::clone(&state), key);
        state
    }

    #[test]
    fn who_waited_longest_goes_first_and_who_works_stays() {
        let mut table = ConnectionTable::new();
        for (key, phase, since) in [
            (1, Phase::Idle, 30),
            (2, Phase::Working, 1),
            (3, Phase::Handshake, 20),
            (4, Phase::Head, 40),
            (5, Phase::Receiving, 10),
        ] {
            add(&mut table, key, phase, since);
        }
        let order: Vec<u32> = std::iter::from_fn(|| table.take_oldest(50)).collect();
        assert_eq!(order, [5, 3, 1, 4]);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_request_sends_a_connection_to_the_end_of_the_order() {
        let mut table = ConnectionTable::new();
        let first = add(&mut table, 1, Phase::Idle, 10);
        add(&mut table, 2, Phase::Idle, 20);
        first.set(Phase::Idle, 30);
        assert_eq!(table.take_oldest(40), Some(2));
        assert_eq!(table.take_oldest(40), Some(1));
    }

    #[test]
    fn a_busy_connection_that_waits_again_is_found() {
        let mut table = ConnectionTable::new();
        let busy = add(&mut table, 1, Phase::Working, 0);
        assert_eq!(table.take_oldest(5), None);
        add(&mut table, 2, Phase::Idle, 6);
        busy.set(Phase::Idle, 7);
        assert_eq!(table.take_oldest(9), Some(2));
        assert_eq!(table.take_oldest(9), Some(1));
    }

    #[test]
    fn the_ended_are_forgotten() {
        let mut table = ConnectionTable::new();
        for key in 0..100_000 {
            add(&mut table, key, Phase::Idle, u64::from(key));
            table.remove(key);
        }
        assert_eq!(table.len(), 0);
        assert!(table.order.len() <= 2 * LOOKS, "{} kept", table.order.len());
        assert_eq!(table.take_oldest(0), None);
    }

    #[test]
    fn the_overdue_are_taken_out_once() {
        let mut table = ConnectionTable::new();
        add(&mut table, 1, Phase::Head, 0);
        add(&mut table, 2, Phase::Idle, 0);
        add(&mut table, 3, Phase::Working, 0);
        let limits = ListenerLimits::default();
        assert_eq!(table.take_overdue(11 * SECOND, &limits), [1]);
        assert!(table.take_overdue(11 * SECOND, &limits).is_empty());
        assert_eq!(table.take_overdue(76 * SECOND, &limits), [2]);
        assert_eq!(table.len(), 1);
    }
}
