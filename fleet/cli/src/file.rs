//! Files that an operator names: each is read with a bound, whatever it is.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bytes of `file`.
///
/// # Errors
/// It cannot be read, or has more than `most` bytes.
pub fn read_file(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_bounded(File::open(file)?, most)
}

/// The text of `file`.
///
/// # Errors
/// As [`read_file`]; or it is not UTF-8.
pub fn read_text(file: &Path, most: u64) -> io::Result<String> {
    text(read_file(file, most)?)
}

/// The same of what is open already.
///
/// # Errors
/// As [`read_text`].
pub fn read_open(source: impl Read, most: u64) -> io::Result<String> {
    text(read_bounded(source, most)?)
}

/// That others may read or change a secret in `file`; of a pipe that is not asked. A group that may read it is an operator's will.
pub fn open_to_all(file: &Path) -> Option<String> {
    let mode = file.metadata().ok().filter(Metadata::is_file)?.mode() & 0o7777;
    (mode & 0o027 != 0).then(|| format!("{} has mode {mode:o}, so others may read or change it", file.display()))
}

/// Name and number of the first entry of a list of users or groups, such as `/etc/group`, that `is_it`; what is no entry is passed over.
pub fn find_entry(list: impl Read, is_it: impl Fn(&str, u32) -> bool) -> Option<(String, u32)> {
    BufReader::new(list).lines().map_while(Result::ok).find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        is_it(name, number).then(|| (name.to_owned(), number))
    })
}

fn read_bounded(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_his_number_and_lines_that_are_none_are_passed_over() {
        let list = "root:x:0:0:root:/root:/bin/sh\n# none\n\nbroken:x\njoe:x:1000:1000::/home/joe:/bin/sh\n";
        let of = |uid| find_entry(list.as_bytes(), |_, number| number == uid).map(|(name, _)| name);
        assert_eq!(of(1000).as_deref(), Some("joe"));
        assert_eq!(of(0).as_deref(), Some("root"));
        assert_eq!(of(7), None);
    }

    #[test]
    fn a_file_without_an_end_is_refused_at_its_bound() {
        let error = read_file(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1000 bytes");
        assert_eq!(read_file(Path::new("/dev/null"), 0).unwrap(), [0; 0]);
        assert_eq!(read_open(&b"12"[..], 2).unwrap(), "12");
        assert!(read_open(&b"123"[..], 2).is_err() && read_open(&b"\xff"[..], 2).is_err());
    }
}
