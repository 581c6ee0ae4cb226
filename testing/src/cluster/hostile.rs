//! Archives that must be refused whole, and odd ones that must not.
//!
//! Each holds a valid minimal `oss` release besides its trap, so that nothing but the trap can be the reason.

use std::sync::OnceLock;

use flate2::Crc;
use tar::EntryType;

use crate::cluster::tarball::{Tarball, gzip, header};

/// A name for messages, and a `.tar.gz`.
pub type Sample = (&'static str, Vec<u8>);

/// Contents for executables where no one runs them.
const PROGRAM: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0not a program";

/// Bytes of zeros in the bomb: far beyond any release.
const BOMB: u64 = 8 << 30;

/// Files in the archive of very many.
const MANY: usize = 200_000;

/// Every hostile archive, around a `teleport` that cannot run.
pub fn corpus() -> Vec<Sample> {
    static CORPUS: OnceLock<Vec<Sample>> = OnceLock::new();
    CORPUS.get_or_init(|| corpus_around(PROGRAM)).clone()
}

/// Every hostile archive, around this `teleport`, for tests that go on to run it.
pub fn corpus_around(teleport: &[u8]) -> Vec<Sample> {
    [names(teleport), links(teleport), kinds(teleport), contents(teleport), sizes(teleport), streams(teleport)].concat()
}

/// Archives that look odd and must be accepted; mode bits, owners and names of no account must not land.
pub fn odd_but_fine() -> Vec<Sample> {
    odd_but_fine_around(PROGRAM)
}

/// As [`odd_but_fine`], around this `teleport`.
pub fn odd_but_fine_around(teleport: &[u8]) -> Vec<Sample> {
    let plain = release(teleport);
    let mut owned = header(b"teleport/VERSION", EntryType::Regular, 0o644, 2);
    owned.set_uid(1000);
    owned.set_gid(1000);
    owned.set_username("nobody").unwrap();
    owned.set_cksum();
    let long = format!("teleport/examples/{}/file", "d".repeat(150));
    vec![
        ("setuid executable", plain.clone().file("teleport/tsh", 0o4755, teleport).gzip()),
        ("setgid and sticky executable", plain.clone().file("teleport/tsh", 0o3755, teleport).gzip()),
        ("world-writable executable", plain.clone().file("teleport/tsh", 0o777, teleport).gzip()),
        ("foreign owner", plain.clone().entry(&owned, b"1\n").gzip()),
        ("no directory entries", Tarball::new().file("teleport/teleport", 0o755, teleport).gzip()),
        ("long PAX name", plain.clone().pax(&[("path", long.as_bytes())]).file("short", 0o644, b"x").gzip()),
        ("long GNU name", plain.clone().long_name(long.as_bytes()).file("short", 0o644, b"x").gzip()),
        (
            "PAX times and comment",
            plain
                .clone()
                .pax(&[("mtime", b"1700000000.5"), ("comment", b"x")])
                .file("teleport/VERSION", 0o644, b"1")
                .gzip(),
        ),
        ("twenty closing blocks", gzip(&[plain.tar(), vec![0; 18 * 512]].concat())),
        ("folders eight deep", plain.clone().file("teleport/examples/a/b/c/d/e/x", 0o644, b"x").gzip()),
        ("leading dot slash", {
            let teleport = Tarball::new().directory("./teleport/").file("./teleport/teleport", 0o755, teleport);
            teleport.gzip()
        }),
        ("file without contents", plain.clone().file("teleport/README.md", 0o644, b"").gzip()),
        // RFC 1952 allows members in a row, and tar's habit is to pad: both are read to the last byte.
        ("second gzip member that continues the tar", {
            let more = Tarball::new().file("teleport/tctl", 0o755, teleport);
            [gzip(plain.unclosed()), gzip(&more.tar())].concat()
        }),
        ("empty second gzip member", [plain.gzip(), gzip(&[])].concat()),
        ("zeros after the end", [plain.gzip(), vec![0; 1024]].concat()),
    ]
}

/// The minimal release: the prefix and the agent.
pub fn release(teleport: &[u8]) -> Tarball {
    Tarball::new().directory("teleport/").file("teleport/teleport", 0o755, teleport)
}

fn names(teleport: &[u8]) -> Vec<Sample> {
    let with = |path: &[u8]| release(teleport).file(path, 0o644, b"evil").gzip();
    let with_pax =
        |path: &[u8]| release(teleport).pax(&[("path", path)]).file("teleport/README.md", 0o644, b"evil").gzip();
    let with_long = |path: &[u8]| release(teleport).long_name(path).file("teleport/README.md", 0o644, b"evil").gzip();
    vec![
        ("absolute path", with(b"/etc/cron.d/evil")),
        ("absolute path below the prefix's name", with(b"/teleport/evil")),
        ("parent path", with(b"../evil")),
        ("parent path inside the prefix", with(b"teleport/../../evil")),
        ("parent path that comes back", with(b"teleport/../teleport/evil")),
        ("parent path below a skipped one", with(b"teleport/examples/../../x")),
        ("parent path below a kept one", with(b"teleport/share/../../evil")),
        ("parent path at the end", with(b"teleport/examples/..")),
        ("GNU long name that leaves", with_long(b"teleport/../../evil")),
        ("PAX name that leaves", with_pax(b"teleport/../../evil")),
        ("PAX absolute name", with_pax(b"/etc/cron.d/evil")),
        ("PAX name with NUL", with_pax(b"teleport/README.md\0/../../evil")),
        ("name with newline", with(b"teleport/READ\nME.md")),
        ("name not in UTF-8", with(b"teleport/READ\xff\xfeME.md")),
        ("name of 5000 bytes", with_long(&[b"teleport/".as_slice(), &[b'a'; 5000]].concat())),
        ("path of 5000 bytes", with_long(&[b"teleport/".as_slice(), &b"a/".repeat(2500), b"a"].concat())),
        ("folders 1500 deep", with_long(&[b"teleport/share/".as_slice(), &b"a/".repeat(1500), b"x"].concat())),
        ("folders nine deep below a skipped path", with(b"teleport/examples/a/b/c/d/e/f/x")),
        ("300 files below 2000 folders each", {
            let name = |number: u32| format!("teleport/examples/{}{number}", "a/".repeat(2000)).into_bytes();
            let file = |tar: Tarball, number| tar.long_name(&name(number)).file("short", 0o644, b"");
            (0..300).fold(release(teleport), file).gzip()
        }),
        ("empty name", with(b"")),
        ("two prefixes", release(teleport).file("teleport-ent/tsh", 0o755, teleport).gzip()),
        ("file outside the prefix", with(b"evil")),
    ]
}

fn links(teleport: &[u8]) -> Vec<Sample> {
    let plain = || release(teleport);
    vec![
        ("symlink to an absolute path", plain().symlink("teleport/tsh", "/bin/sh").gzip()),
        ("symlink that leaves", plain().symlink("teleport/tsh", "../../../../bin/sh").gzip()),
        ("symlink that leaves below a skipped path", plain().symlink("teleport/examples/x", "../../../x").gzip()),
        ("hardlink to an absolute path", plain().hardlink("teleport/tsh", "/etc/shadow").gzip()),
        ("hardlink that leaves", plain().hardlink("teleport/tsh", "teleport/../../../etc/shadow").gzip()),
        (
            "entry through a link that leaves",
            plain().symlink("teleport/share", "/tmp").file("teleport/share/evil", 0o644, b"evil").gzip(),
        ),
        (
            "entry through a link that stays",
            plain()
                .directory("teleport/examples/")
                .symlink("teleport/share", "examples")
                .file("teleport/share/evil", 0o644, b"evil")
                .gzip(),
        ),
        (
            "entry through a chain of links",
            plain()
                .symlink("teleport/a", ".")
                .symlink("teleport/a/b", "..")
                .file("teleport/a/b/evil", 0o644, b"evil")
                .gzip(),
        ),
        ("prefix is a link", {
            let link = Tarball::new().symlink("teleport", "/tmp");
            link.file("teleport/teleport", 0o755, teleport).gzip()
        }),
        (
            "link, then a file of the same name",
            plain().symlink("teleport/tsh", "/tmp/evil").file("teleport/tsh", 0o755, b"evil").gzip(),
        ),
    ]
}

fn kinds(teleport: &[u8]) -> Vec<Sample> {
    let special = |path: &str, kind| release(teleport).special(path, kind).gzip();
    vec![
        ("block device", special("teleport/disk", EntryType::Block)),
        ("character device", special("teleport/null", EntryType::Char)),
        ("FIFO", special("teleport/fifo", EntryType::Fifo)),
        ("device below a skipped path", special("teleport/examples/null", EntryType::Char)),
        ("FIFO below a skipped path", special("teleport/examples/fifo", EntryType::Fifo)),
        ("unknown kind of entry", special("teleport/what", EntryType::new(b'Z'))),
        ("GNU sparse file", {
            let mut sparse = header(b"teleport/tsh", EntryType::GNUSparse, 0o755, 0);
            sparse.as_gnu_mut().unwrap().set_real_size(1 << 40);
            sparse.set_cksum();
            release(teleport).entry(&sparse, &[]).gzip()
        }),
    ]
}

fn contents(teleport: &[u8]) -> Vec<Sample> {
    let plain = || release(teleport);
    vec![
        ("no teleport", Tarball::new().directory("teleport/").file("teleport/tsh", 0o755, teleport).gzip()),
        ("no entry at all", Tarball::new().gzip()),
        ("empty tar without closing blocks", gzip(&[])),
        ("teleport is a directory", Tarball::new().directory("teleport/").directory("teleport/teleport/").gzip()),
        ("teleport is not executable", Tarball::new().file("teleport/teleport", 0o644, teleport).gzip()),
        ("prefix of another edition", {
            let other = Tarball::new().directory("teleport-ent/");
            other.file("teleport-ent/teleport", 0o755, teleport).gzip()
        }),
        ("duplicate agent", plain().file("teleport/teleport", 0o755, b"evil").gzip()),
        ("duplicate by another spelling", plain().file("teleport/./teleport", 0o755, b"evil").gzip()),
        (
            "duplicate below a skipped path",
            plain().file("teleport/examples/x", 0o644, b"1").file("teleport/examples/x", 0o644, b"2").gzip(),
        ),
        (
            "file, then a directory of its name",
            plain().file("teleport/tsh", 0o755, teleport).file("teleport/tsh/x", 0o755, teleport).gzip(),
        ),
        (
            "directory, then a file of its name",
            plain().file("teleport/tsh/x", 0o755, teleport).file("teleport/tsh", 0o755, teleport).gzip(),
        ),
        ("prefix is a file", {
            let file = Tarball::new().file("teleport", 0o755, b"evil");
            file.file("teleport/teleport", 0o755, teleport).gzip()
        }),
        ("prefix is a file with contents and a slash", {
            let file = Tarball::new().file("teleport/", 0o755, b"evil");
            file.file("teleport/teleport", 0o755, teleport).gzip()
        }),
    ]
}

fn sizes(teleport: &[u8]) -> Vec<Sample> {
    let hidden = Tarball::new().file("../evil", 0o644, b"evil");
    let claims =
        |size| release(teleport).entry(&header(b"teleport/tsh", EntryType::Regular, 0o755, size), b"short").gzip();
    vec![
        ("entry of one TiB with a short body", claims(1 << 40)),
        ("entry of almost 2^63 bytes", claims((1 << 63) - 1)),
        ("entry of 2^64-1 bytes", claims(u64::MAX)),
        ("bomb of zeros", bomb(teleport)),
        ("200 MiB of zeros", release(teleport).file("teleport/tsh", 0o755, &vec![0; 200 << 20]).gzip()),
        ("200000 files", {
            let numbers = 0..MANY;
            let file = |tar: Tarball, number| tar.file(format!("teleport/examples/{number:06}"), 0o644, b"");
            numbers.fold(release(teleport), file).gzip()
        }),
        ("the same folder 200000 times", {
            let folder = |tar: Tarball, _| tar.directory("teleport/examples/");
            (0..MANY).fold(release(teleport), folder).gzip()
        }),
        ("PAX size that lays an entry open", {
            // By its header the file covers the hidden entry; by PAX, which counts, it is empty.
            let covering = header(b"teleport/README.md", EntryType::Regular, 0o644, hidden.unclosed().len() as u64);
            release(teleport).pax(&[("size", b"0")]).entry(&covering, hidden.unclosed()).gzip()
        }),
        ("PAX size beyond the end", {
            let size = (1_u64 << 40).to_string();
            release(teleport).pax(&[("size", size.as_bytes())]).file("teleport/README.md", 0o644, b"x").gzip()
        }),
        ("PAX header of 64 MiB", {
            release(teleport).pax(&[("comment", &vec![b'x'; 64 << 20])]).file("teleport/x", 0o644, b"").gzip()
        }),
        ("wrong header checksum", {
            let mut wrong = header(b"teleport/README.md", EntryType::Regular, 0o644, 0);
            wrong.as_mut_bytes()[150] ^= 1;
            release(teleport).entry(&wrong, &[]).gzip()
        }),
        ("tar that ends within an entry", {
            let tar = release(teleport).file("teleport/tsh", 0o755, &[7; 4096]);
            gzip(&tar.unclosed()[..tar.unclosed().len() - 1024])
        }),
        ("entry after the closing blocks", gzip(&[release(teleport).tar(), hidden.tar()].concat())),
    ]
}

fn streams(teleport: &[u8]) -> Vec<Sample> {
    // Noise, so that the stream is long enough to be cut in many places.
    let noise: Vec<u8> =
        std::iter::successors(Some(1_u32), |x| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)))
            .map(|x| (x >> 24) as u8)
            .take(64 << 10)
            .collect();
    let good = release(teleport).file("teleport/tsh", 0o755, &noise).gzip();
    let cut = |length: usize| good[..length].to_vec();
    let flip = |from_end: usize| {
        let mut bytes = good.clone();
        let at = bytes.len() - from_end;
        bytes[at] ^= 0x40;
        bytes
    };
    let more = Tarball::new().file("teleport/tctl", 0o755, b"evil");
    vec![
        ("empty file", Vec::new()),
        ("not gzip at all", b"<!DOCTYPE html><html><body>Not found</body></html>\n".to_vec()),
        ("plain tar, not compressed", release(teleport).tar()),
        ("cut within the gzip header", cut(5)),
        ("cut after the gzip header", cut(10)),
        ("cut after a quarter", cut(good.len() / 4)),
        ("cut in the middle", cut(good.len() / 2)),
        ("cut before CRC and size", cut(good.len() - 8)),
        ("cut between CRC and size", cut(good.len() - 4)),
        ("cut by one byte", cut(good.len() - 1)),
        ("wrong CRC", flip(8)),
        ("wrong size in the trailer", flip(4)),
        ("bit flipped in the middle", flip(good.len() / 2)),
        ("second gzip member after the end", [good.clone(), more.gzip()].concat()),
        ("garbage after the end", [good.as_slice(), b"garbage"].concat()),
        ("reserved gzip flag", {
            let mut bytes = good.clone();
            bytes[3] |= 0x80;
            bytes
        }),
    ]
}

/// A file of [`BOMB`] zeros. The compressed form of a stretch is repeated, as compressing it all would take too long.
fn bomb(teleport: &[u8]) -> Vec<u8> {
    const STRETCH: usize = 16 << 20;
    let head = release(teleport).entry(&header(b"teleport/tsh", EntryType::Regular, 0o755, BOMB), &[]);
    let zeros = vec![0; STRETCH];
    let mut crc = Crc::new();
    crc.update(head.unclosed());
    let mut stretch = Crc::new();
    stretch.update(&zeros);
    let mut bytes = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    bytes.extend(deflate(head.unclosed(), flate2::FlushCompress::Full));
    let zeros = deflate(&zeros, flate2::FlushCompress::Full);
    for _ in 0..BOMB / STRETCH as u64 {
        bytes.extend(&zeros);
        crc.combine(&stretch);
    }
    let end = [0; 1024];
    crc.update(&end);
    bytes.extend(deflate(&end, flate2::FlushCompress::Finish));
    let size = head.unclosed().len() as u64 + BOMB + end.len() as u64;
    bytes.extend(crc.sum().to_le_bytes());
    bytes.extend((size as u32).to_le_bytes());
    bytes
}

fn deflate(bytes: &[u8], flush: flate2::FlushCompress) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 100 + 1024);
    let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
    loop {
        let consumed = usize::try_from(deflate.total_in()).unwrap();
        let status = deflate.compress_vec(&bytes[consumed..], &mut out, flush).unwrap();
        let all_in = deflate.total_in() == bytes.len() as u64;
        if status == flate2::Status::StreamEnd || (all_in && out.len() < out.capacity()) {
            return out;
        }
        out.reserve(1 << 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::{Duration, Instant};

    #[test]
    fn the_corpus_is_quickly_made_and_its_names_are_unique() {
        let start = Instant::now();
        let mut names: Vec<_> = corpus().into_iter().chain(odd_but_fine()).map(|(name, _)| name).collect();
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn odd_archives_can_be_read_to_their_end() {
        for (name, bytes) in odd_but_fine() {
            let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
            let paths: Vec<_> =
                archive.entries().unwrap().map(|entry| entry.unwrap().path_bytes().into_owned()).collect();
            assert!(paths.iter().any(|path| path.ends_with(b"teleport/teleport")), "{name}");
        }
    }

    #[test]
    fn the_bomb_is_a_sound_gzip_stream_as_far_as_anyone_reads() {
        let bytes = bomb(PROGRAM);
        assert!(bytes.len() < 64 << 20);
        let mut start = vec![1; 40 << 20];
        flate2::read::GzDecoder::new(bytes.as_slice()).read_exact(&mut start).unwrap();
        assert!(start[4096..].iter().all(|byte| *byte == 0));
    }
}
