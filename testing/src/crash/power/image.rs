//! A disk's contents in memory, sparse, sharing blocks with the images that it was cloned from.

use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a block of the map; all file systems here use the same.
const BLOCK: usize = 4096;
type Block = [u8; BLOCK];
static ZEROS: Block = [0; BLOCK];

/// Contents of a disk. A clone costs a map, not the blocks; what is not in the map reads as zeros.
#[derive(Clone, Default)]
pub struct Image {
    size: u64,
    blocks: HashMap<u64, Arc<Block>>,
}

impl Image {
    /// A disk of `size` bytes, all zeros.
    pub fn new(size: u64) -> Self {
        Self { size, blocks: HashMap::new() }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills `bytes` from `offset` on.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        for (index, inside, range) in pieces(offset, bytes.len()) {
            match (self.blocks.get(&index), bytes.get_mut(range)) {
                (Some(block), Some(piece)) => piece.copy_from_slice(&block[inside..inside + piece.len()]),
                (None, Some(piece)) => piece.fill(0),
                _ => {}
            }
        }
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (index, inside, range) in pieces(offset, bytes.len()) {
            let piece = &bytes[range];
            // File systems zero whole tables when they are made.
            if piece == &ZEROS[..piece.len()] && (piece.len() == BLOCK || !self.blocks.contains_key(&index)) {
                self.blocks.remove(&index);
                continue;
            }
            let block = self.blocks.entry(index).or_insert_with(|| Arc::new(ZEROS));
            Arc::make_mut(block)[inside..inside + piece.len()].copy_from_slice(piece);
        }
    }

    /// Writes `length` zeros at `offset`.
    pub fn zero(&mut self, offset: u64, length: u64) {
        for (index, inside, range) in pieces(offset, usize::try_from(length).unwrap_or(usize::MAX)) {
            self.write(index * BLOCK as u64 + inside as u64, &ZEROS[..range.len()]);
        }
    }
}

/// The blocks that `length` bytes at `offset` lie in: number of the block, start inside it, range of the bytes.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let inside = (at % BLOCK as u64) as usize;
        let end = length.min(done + BLOCK - inside);
        (done < length).then(|| (at / BLOCK as u64, inside, std::mem::replace(&mut done, end)..end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_across_blocks_is_read_back_and_the_rest_is_zeros() {
        let mut image = Image::new(1 << 20);
        image.write(4000, &[7; 5000]);
        let mut bytes = [1; 9200];
        image.read(3900, &mut bytes);
        assert!(bytes[..100].iter().all(|byte| *byte == 0));
        assert!(bytes[100..5100].iter().all(|byte| *byte == 7));
        assert!(bytes[5100..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut image = Image::new(1 << 20);
        image.write(512, &[1; 512]);
        let before = image.clone();
        image.write(512, &[2; 512]);
        image.zero(0, 600);
        let read = |image: &Image| {
            let mut bytes = [9; 3];
            image.read(599, &mut bytes);
            bytes
        };
        assert_eq!((read(&before), read(&image)), ([1; 3], [0, 2, 2]));
    }
}
