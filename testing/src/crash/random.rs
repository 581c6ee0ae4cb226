//! Numbers that are the same in every run of one seed.

/// xorshift64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        // Zero would give zeros for ever.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// `count` of `all`, with repetitions; `all` if there are no more.
    pub fn some<T: Clone>(&mut self, all: &[T], count: usize) -> Vec<T> {
        if all.len() <= count {
            return all.to_vec();
        }
        (0..count).map(|_| all[self.below(all.len())].clone()).collect()
    }
}
