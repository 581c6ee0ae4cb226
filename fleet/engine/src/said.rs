//! What hosts say of themselves, in few bytes: a name, which few have in common, and labels, which many have.

use std::collections::HashMap;
use std::hash::Hash;

/// Where a host's name and labels are in a [`SaidTable`]; 0: it has neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Said(u32);

/// Names and labels of hosts. Each host's are one piece of bytes: the length of the rest, that of the name, the name, and for each
/// label the number of its pair of key and value. Numbers are written seven bits a byte, the lowest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct SaidTable<Pair> {
    pieces: Pieces,
    pairs: Vec<Pair>,
    by_pair: HashMap<Pair, u32>,
    /// Numbers of pairs that nobody has any more: the next pairs have them.
    free: Vec<u32>,
    /// Pairs that were used when those of nobody were freed last.
    used_pairs: usize,
}

/// Bits of a place in a chunk of a mebibyte: no more is copied at once when it grows.
const CHUNK_BITS: u32 = 20;
/// Fewer pairs, or bytes, than this that nobody has are not worth a walk through all hosts.
const FEW: usize = 4096;

/// Pieces of bytes.
#[derive(Debug, Clone, Default)]
struct Pieces {
    /// A piece is at the number of its chunk, and in the low [`CHUNK_BITS`] its place there.
    chunks: Vec<Vec<u8>>,
    /// Bytes of all pieces, and of those that are nobody's any more.
    bytes: usize,
    garbage: usize,
}

impl Pieces {
    fn get(&self, Said(at): Said) -> &[u8] {
        let chunk = self.chunks.get((at >> CHUNK_BITS) as usize);
        let from = (at & ((1 << CHUNK_BITS) - 1)) as usize;
        let mut rest = chunk.and_then(|chunk| chunk.get(from..)).filter(|_| at > 0).unwrap_or_default();
        let length = take(&mut rest);
        rest.get(..length).unwrap_or_default()
    }

    fn push(&mut self, piece: &[u8]) -> Said {
        let room = self.chunks.last().map_or(0, |chunk| (1_usize << CHUNK_BITS).saturating_sub(chunk.len()));
        // Some bytes for the length; and the first place means nothing.
        if room < piece.len() + 8 {
            let is_first = self.chunks.is_empty();
            self.chunks.push(if is_first { vec![0] } else { Vec::with_capacity(1 << CHUNK_BITS) });
        }
        let chunk_number = self.chunks.len() - 1;
        let Some(chunk) = self.chunks.last_mut() else { return Said::default() };
        let at = u32::try_from(chunk_number << CHUNK_BITS | chunk.len()).unwrap_or(0);
        let before = chunk.len();
        put(chunk, piece.len());
        chunk.extend_from_slice(piece);
        self.bytes += chunk.len() - before;
        Said(at)
    }
}

impl<Pair: Copy + Eq + Hash> SaidTable<Pair> {
    /// What a host says with this name and these labels, instead of what it said before.
    pub(crate) fn keep(&mut self, before: Said, name: &str, labels: impl Iterator<Item = Pair>) -> Said {
        let mut piece = Vec::with_capacity(64);
        put(&mut piece, name.len());
        piece.extend_from_slice(name.as_bytes());
        labels.for_each(|pair| put(&mut piece, self.number(pair) as usize));
        if piece == self.pieces.get(before) {
            return before;
        }
        self.drop(before);
        if piece == [0] { Said::default() } else { self.pieces.push(&piece) }
    }

    fn number(&mut self, pair: Pair) -> u32 {
        let Self { pairs, by_pair, free, .. } = self;
        *by_pair.entry(pair).or_insert_with(|| {
            let number = free.pop().unwrap_or_else(|| u32::try_from(pairs.len()).unwrap_or(u32::MAX));
            match pairs.get_mut(number as usize) {
                Some(place) => *place = pair,
                None => pairs.push(pair),
            }
            number
        })
    }

    /// What a host said is nobody's any more.
    pub(crate) fn drop(&mut self, said: Said) {
        self.pieces.garbage += self.pieces.get(said).len();
    }

    /// The name; empty: it has none.
    pub(crate) fn name(&self, said: Said) -> &str {
        let mut piece = self.pieces.get(said);
        let length = take(&mut piece);
        piece.get(..length).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// The labels, by key, as bytes: the same ones are the same labels.
    pub(crate) fn labels(&self, said: Said) -> &[u8] {
        let mut piece = self.pieces.get(said);
        let length = take(&mut piece);
        piece.get(length..).unwrap_or_default()
    }

    /// Keys and values of `labels`.
    pub(crate) fn pairs<'a>(&'a self, labels: &'a [u8]) -> impl Iterator<Item = Pair> + 'a {
        numbers(labels).filter_map(|number| self.pairs.get(number).copied())
    }

    /// Whether pairs or bytes of nobody may be more than those of somebody, and more pairs than `hosts`.
    pub(crate) fn has_garbage(&self, hosts: usize) -> bool {
        self.by_pair.len() > 2 * self.used_pairs + hosts + FEW || self.pieces.garbage > self.pieces.bytes / 2 + FEW
    }

    /// Frees what none of `hosts` has; `used` gets the pairs that one has.
    pub(crate) fn keep_only<'a>(&mut self, hosts: impl Iterator<Item = &'a mut Said>, used: impl FnMut(&Pair)) {
        let Self { pieces, pairs, by_pair, free, used_pairs } = self;
        let old = (pieces.garbage > pieces.bytes / 2).then(|| std::mem::take(pieces));
        let mut is_used = vec![false; pairs.len()];
        for said in hosts {
            if let Some(old) = old.as_ref().filter(|_| *said != Said::default()) {
                *said = pieces.push(old.get(*said));
            }
            let mut piece = pieces.get(*said);
            let length = take(&mut piece);
            for number in numbers(piece.get(length..).unwrap_or_default()) {
                is_used.get_mut(number).into_iter().for_each(|is_used| *is_used = true);
            }
        }
        free.clear();
        by_pair.retain(|_, number| is_used.get(*number as usize).is_some_and(|is_used| *is_used));
        by_pair.keys().for_each(used);
        // From the end, so that the lowest numbers, which are short, are given first.
        let unused = is_used.iter().enumerate().rev().filter(|(_, is_used)| !**is_used);
        free.extend(unused.filter_map(|(number, _)| u32::try_from(number).ok()));
        *used_pairs = by_pair.len();
    }
}

fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift >= usize::BITS {
            break;
        }
    }
    number
}

fn numbers(mut bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| take(&mut bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of `length` characters, and labels whose numbers have one, two and three bytes.
    #[test]
    fn each_host_is_read_as_it_said_whatever_others_say_and_forget() {
        let mut table = SaidTable::default();
        let name = |number: usize| "n".repeat(number % 300);
        let labels: Vec<Vec<(usize, usize)>> =
            (0..20_000).map(|number| (0..number % 5).map(|at| (at, number * at)).collect()).collect();
        let said: Vec<Said> = labels
            .iter()
            .enumerate()
            .map(|(number, labels)| table.keep(Said::default(), &name(number), labels.iter().copied()))
            .collect();
        let check = |table: &SaidTable<(usize, usize)>, said: &[Said], step: usize| {
            for (at, (said, labels)) in said.iter().zip(labels.iter().step_by(step)).enumerate() {
                assert_eq!(table.name(*said), name(at * step));
                assert_eq!(table.pairs(table.labels(*said)).collect::<Vec<_>>(), *labels);
            }
        };
        check(&table, &said, 1);
        let same = table.keep(said[7], &name(7), labels[7].iter().copied());
        assert_eq!((same, table.pieces.garbage), (said[7], 0));
        // Three of four are forgotten.
        said.iter().enumerate().filter(|(at, _)| at % 4 != 0).for_each(|(_, said)| table.drop(*said));
        let mut said: Vec<Said> = said.into_iter().step_by(4).collect();
        assert!(table.has_garbage(said.len()));
        let (bytes, pairs) = (table.pieces.bytes, table.by_pair.len());
        table.keep_only(said.iter_mut(), |_| {});
        assert!(!table.has_garbage(said.len()) && table.pieces.bytes < bytes / 3 && table.by_pair.len() < pairs / 2);
        check(&table, &said, 4);
        assert_eq!((table.name(Said::default()), table.labels(Said::default())), ("", &[][..]));
    }
}
