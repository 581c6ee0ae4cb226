//! Inflates a gzip file to its very end: every member, every CRC; nothing but zero padding may follow.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// A gzip file as one stream of inflated bytes. At its end every raw byte was read and every CRC checked.
pub(super) struct Gunzip<R: BufRead> {
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gunzip<R> {
    pub(super) fn new(raw: R) -> Self {
        Self { member: Some(GzDecoder::new(raw)) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            let Some(mut raw) = self.member.take().map(GzDecoder::into_inner) else { break };
            match raw.fill_buf()?.first() {
                // A further member: some writers compress in pieces.
                Some(0x1f) => self.member = Some(GzDecoder::new(raw)),
                Some(_) => only_zeros(&mut raw, "bytes after the end of the gzip data")?,
                None => {}
            }
        }
        Ok(0)
    }
}

/// Reads `raw` to its end. Errors: those of reading, and `other` where something other than padding is left.
pub(super) fn only_zeros(raw: &mut impl BufRead, other: &str) -> io::Result<()> {
    loop {
        let rest = raw.fill_buf()?;
        if rest.is_empty() {
            return Ok(());
        }
        if rest.iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, other));
        }
        let count = rest.len();
        raw.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn inflate(raw: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Gunzip::new(raw).read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn members_are_one_stream_and_zero_padding_is_fine() {
        let whole = [gzip(b"one"), gzip(b""), gzip(b"two"), vec![0; 700]].concat();
        assert_eq!(inflate(&whole).unwrap(), b"onetwo");
    }

    #[test]
    fn a_bad_crc_a_cut_and_trailing_bytes_are_errors() {
        let good = gzip(b"hello hello hello");
        let mut bad = good.clone();
        let at = bad.len() - 6;
        bad[at] ^= 1;
        assert!(inflate(&bad).is_err());
        for cut in 0..good.len() {
            assert!(inflate(&good[..cut]).is_err(), "cut at {cut}");
        }
        for tail in [&b"x"[..], b"\0\0x", b"\x1f", b"\x1f\x8bxx"] {
            assert!(inflate(&[&good, tail].concat()).is_err(), "{tail:?}");
        }
    }
}
