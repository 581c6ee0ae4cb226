//! Filler that compresses about as well as a real release: 2.6 to 1 at gzip's fastest.

/// Raw bytes for one compressed byte; measured, see the test.
pub const RATIO: f64 = 2.6;

/// Bytes that deflate cannot shrink, at the start of each stretch.
const NOISE: usize = 128;

/// Bytes that repeat earlier ones; chosen for [`RATIO`].
const ECHO: usize = 224;

/// An endless, always equal stream.
#[derive(Debug)]
pub struct Padding {
    state: u64,
    stretch: Vec<u8>,
    at: usize,
}

impl Padding {
    /// The stream's beginning; another `seed`, another stream.
    pub fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x9E37_79B9_7F4A_7C15, stretch: Vec::with_capacity(NOISE + ECHO), at: 0 }
    }

    fn refill(&mut self) {
        self.stretch.clear();
        while self.stretch.len() < NOISE {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.stretch.extend(self.state.to_le_bytes());
        }
        while self.stretch.len() < NOISE + ECHO {
            let from = self.stretch.len() % 64;
            self.stretch.extend_from_within(from..from + 32);
        }
        self.at = 0;
    }
}

impl std::io::Read for Padding {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            if self.at == self.stretch.len() {
                self.refill();
            }
            let length = (buffer.len() - done).min(self.stretch.len() - self.at);
            buffer[done..done + length].copy_from_slice(&self.stretch[self.at..self.at + length]);
            self.at += length;
            done += length;
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, copy};

    #[test]
    fn it_compresses_like_a_real_release() {
        let raw = 4 << 20;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        copy(&mut Padding::new(1).take(raw), &mut gzip).unwrap();
        let ratio = raw as f64 / gzip.finish().unwrap().len() as f64;
        assert!((RATIO * 0.93..RATIO * 1.07).contains(&ratio), "{ratio}");
    }
}
