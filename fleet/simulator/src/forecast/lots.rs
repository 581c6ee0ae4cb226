//! Lots: who is bad, who vanishes, who asks when. Drawn from the seed, and alike on every machine.

/// A number that only seed, purpose and host give (SplitMix64).
pub(super) fn lot(seed: u64, what: u64, number: usize) -> u64 {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    mixed(mixed(mixed(seed) ^ what) ^ number)
}

/// Of `among`, those `count` that have the lowest lots.
pub(super) fn drawn(seed: u64, what: u64, among: &[usize], count: usize) -> Vec<usize> {
    let mut lots: Vec<(u64, usize)> = among.iter().map(|number| (lot(seed, what, *number), *number)).collect();
    if let Some(last) = count.checked_sub(1).filter(|last| *last < lots.len()) {
        lots.select_nth_unstable(last);
    }
    lots.into_iter().take(count).map(|(_, number)| number).collect()
}

fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of SplitMix64 seeded with 1234567, as its authors' reference code prints them: the seed of the n-th
    /// is that of the first plus n times the golden gamma.
    #[test]
    fn lots_are_those_of_splitmix64() {
        let outputs = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (nth, output) in (0_u64..).zip(outputs) {
            assert_eq!(mixed(1_234_567_u64.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15))), output);
        }
    }

    #[test]
    fn as_many_are_drawn_as_were_asked_for_and_each_once() {
        let all: Vec<usize> = (0..100).collect();
        for (count, wanted) in [(0, 0), (7, 7), (100, 100), (200, 100)] {
            let mut drawn = drawn(1, 2, &all, count);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), wanted);
        }
        assert_ne!(drawn(1, 2, &all, 7), drawn(2, 2, &all, 7));
    }
}
