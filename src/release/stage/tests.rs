use std::path::PathBuf;

use super::*;
use crate::host::http::HttpSettings;
use crate::host::http::test_server::{Reply, Request, Server};
use crate::host::signal::Cancelled;
use crate::store::manifest::{DifferenceKind, MANIFEST};
use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use p256::pkcs8::EncodePublicKey as _;
use protocol::Edition;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use tar::EntryType;

/// Longer than the buffers that go round, and not compressible.
const BIG: usize = 3 << 20;

/// One entry of a test archive.
struct Item {
    path: &'static str,
    kind: EntryType,
    mode: u32,
    content: Vec<u8>,
    link: &'static str,
}

fn file(path: &'static str, mode: u32, content: &[u8]) -> Item {
    Item { path, kind: EntryType::Regular, mode, content: content.to_owned(), link: "" }
}

fn special(path: &'static str, kind: EntryType, link: &'static str) -> Item {
    Item { path, kind, mode: 0o755, content: Vec::new(), link }
}

/// The smallest head of an executable for amd64, and then noise.
fn program(len: usize) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
    let mut state = 1_u32;
    while bytes.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.push((state >> 24) as u8);
    }
    bytes
}

/// A tar whose names go in unchecked, as an attacker would write them.
fn tar_of(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..item.path.len()].copy_from_slice(item.path.as_bytes());
        header.as_mut_bytes()[157..157 + item.link.len()].copy_from_slice(item.link.as_bytes());
        header.set_entry_type(item.kind);
        if item.kind == EntryType::GNUSparse {
            header.as_gnu_mut().unwrap().set_real_size(0);
        }
        header.set_mode(item.mode);
        header.set_uid(1000);
        header.set_size(item.content.len() as u64);
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&item.content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn teleport() -> Item {
    file("teleport/teleport", 0o755, &program(100))
}

/// An archive as today's releases are.
fn release() -> Vec<u8> {
    gzip(&tar_of(&[
        special("teleport/", EntryType::Directory, ""),
        file("teleport/VERSION", 0o644, b"15.1.1"),
        file("teleport/README.md", 0o644, b"read"),
        file("teleport/install", 0o755, b"#!/bin/sh"),
        special("teleport/examples/", EntryType::Directory, ""),
        file("teleport/examples/systemd/teleport.service", 0o664, b"[Service]"),
        file("teleport/examples/run.sh", 0o755, b"#!/bin/sh"),
        file("teleport/tsh", 0o755, b"#!/bin/sh"),
        file("teleport/teleport", 0o6775, &program(BIG)),
    ]))
}

struct Bench {
    dir: tempfile::TempDir,
    limits: Limits,
    settings: HttpSettings,
    key: Option<PublicKey>,
    components: Option<Vec<String>>,
    edition: Edition,
    arch: Arch,
}

impl Bench {
    fn new() -> Self {
        let mut settings = HttpSettings { insecure: true, ..HttpSettings::default() };
        settings.retry.first_wait = Duration::ZERO;
        settings.retry.tries = 2;
        Self {
            dir: tempfile::tempdir().unwrap(),
            limits: Limits { resume_wait: Duration::ZERO, ..Limits::default() },
            settings,
            key: None,
            components: None,
            edition: Edition::Oss,
            arch: Arch::Amd64,
        }
    }

    fn staging(&self) -> PathBuf {
        self.dir.path().join("staging")
    }

    fn stage_from(&self, base: &str, cancelled: Cancelled<'_>) -> Result<Staged> {
        let request = StageRequest {
            client: &Client::new(&self.settings).unwrap(),
            base: &base.parse().unwrap(),
            revision: &Revision { version: "15.1.1".parse().unwrap(), edition: self.edition },
            arch: self.arch,
            staging_dir: &self.staging(),
            public_key: self.key.as_ref(),
            digest: None,
            components: self.components.as_deref(),
            now: jiff::Timestamp::UNIX_EPOCH,
            limits: self.limits.clone(),
        };
        let result = stage(&request, &mut |_| (), cancelled);
        assert_eq!(result.is_ok(), self.staging().exists(), "an error leaves nothing behind");
        result
    }

    /// Stages an archive from a directory, with a digest that fits.
    fn stage_bytes(&self, archive: &[u8]) -> Result<Staged> {
        self.publish(archive, "", format!("{}  name\n", Digest::of(archive)).as_bytes());
        self.stage_from(&self.file_base(), &|| false)
    }

    fn file_base(&self) -> String {
        format!("file://{}", self.dir.path().display())
    }

    fn publish(&self, archive: &[u8], suffix: &str, companion: &[u8]) {
        let ent = if self.edition == Edition::Oss { "" } else { "-ent" };
        let name = format!("teleport{ent}-v15.1.1-linux-{}-bin.tar.gz", self.arch);
        durable::write(&self.dir.path().join(&name), archive, 0o644).unwrap();
        let suffix = if suffix.is_empty() { ".sha256" } else { suffix };
        durable::write(&self.dir.path().join(name + suffix), companion, 0o644).unwrap();
    }

    fn refusal(&self, items: &[Item]) -> Error {
        self.stage_bytes(&gzip(&tar_of(items))).unwrap_err()
    }

    /// Stages the release from a server that answers archive requests as told.
    fn stage_over(&self, server: &Server) -> Result<Staged> {
        self.stage_from(&server.url(""), &|| false)
    }
}

fn server(archive: Vec<u8>, answer: impl Fn(&[u8], &Request) -> Reply + Send + Sync + 'static) -> Server {
    let digest = Digest::of(&archive).to_string();
    Server::start(move |request| {
        if request.path.ends_with(".sha256") { Reply::ok(digest.as_bytes()) } else { answer(&archive, request) }
    })
}

#[test]
fn a_release_is_staged_complete_with_its_layout_modes_and_manifest() {
    let bench = Bench::new();
    let archive = release();
    let staged = bench.stage_bytes(&archive).unwrap();
    assert_eq!(staged.manifest.archive_sha256, Digest::of(&archive));
    let files: Vec<_> = staged.manifest.files.iter().map(|file| (file.path.as_str(), file.mode)).collect();
    assert_eq!(
        files,
        [
            ("share/VERSION", 0o644),
            ("share/README.md", 0o644),
            ("etc/systemd/teleport.service", 0o644),
            ("bin/tsh", 0o755),
            ("bin/teleport", 0o755),
        ]
    );
    assert_eq!(std::fs::read(bench.staging().join("bin/teleport")).unwrap(), program(BIG));
    assert_eq!(std::fs::metadata(bench.staging()).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(Manifest::read(&bench.staging()).unwrap(), staged.manifest);
    assert_eq!(staged.manifest.verify(&bench.staging()).unwrap(), []);
    durable::write(&bench.staging().join("bin/tsh"), b"#!/bin/sH", 0o755).unwrap();
    assert_eq!(staged.manifest.verify(&bench.staging()).unwrap()[0].kind, DifferenceKind::Content);
}

#[test]
fn an_archive_in_the_rfds_form_with_an_updater_is_taken_as_it_is() {
    let mut bench = Bench::new();
    bench.edition = Edition::Enterprise;
    bench.components = Some(vec!["tbot".into()]);
    let archive = gzip(&tar_of(&[
        file("./teleport-ent/bin/teleport", 0o755, &program(100)),
        file("./teleport-ent/bin/tbot", 0o755, &program(100)),
        file("./teleport-ent/bin/tsh", 0o755, &program(100)),
        file("./teleport-ent/bin/teleport-updater", 0o755, &program(100)),
        file("./teleport-ent/etc/systemd/teleport.service", 0o644, b"[Service]"),
        file("./teleport-ent/share/a/b", 0o644, b"x"),
        file("./teleport-ent/other", 0o644, b"x"),
    ]));
    let staged = bench.stage_bytes(&archive).unwrap();
    let files: Vec<_> = staged.manifest.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        files,
        [
            "bin/teleport",
            "bin/tbot",
            "bin/teleport-updater",
            "etc/systemd/teleport.service",
            "share/a/b",
            "share/other"
        ]
    );
}

#[test]
fn what_no_release_would_contain_refuses_the_whole_archive() {
    let bench = Bench::new();
    for (name, bad) in [
        ("device", vec![special("teleport/examples/dev", EntryType::Block, "")]),
        ("char device", vec![special("teleport/null", EntryType::Char, "")]),
        ("fifo", vec![special("teleport/examples/fifo", EntryType::Fifo, "")]),
        ("sparse", vec![special("teleport/sparse", EntryType::GNUSparse, "")]),
        ("absolute", vec![file("/teleport/x", 0o755, b"")]),
        ("dots", vec![file("teleport/../../x", 0o755, b"")]),
        ("dots below a skipped folder", vec![file("teleport/examples/../../../x", 0o644, b"")]),
        ("control characters", vec![file("teleport/a\nb", 0o755, b"")]),
        ("link out", vec![special("teleport/examples/l", EntryType::Symlink, "../../../etc")]),
        ("absolute link", vec![special("teleport/l", EntryType::Symlink, "/etc/passwd")]),
        ("hard link out", vec![special("teleport/l", EntryType::Link, "../etc/passwd")]),
        ("through a link", vec![special("teleport/l", EntryType::Symlink, "bin"), file("teleport/l/x", 0o755, b"")]),
        ("through a file", vec![file("teleport/f", 0o644, b""), file("teleport/f/x", 0o755, b"")]),
        ("duplicate", vec![file("teleport/tsh", 0o755, b"#!"), file("teleport/./tsh", 0o755, b"#!")]),
        ("file over link", vec![special("teleport/tsh", EntryType::Symlink, "tctl"), file("teleport/tsh", 0o755, b"")]),
        ("two layouts", vec![file("teleport/bin/teleport", 0o755, &program(100))]),
        ("file named as a folder", vec![file("teleport/x/", 0o755, b"x")]),
    ] {
        let mut items = vec![teleport()];
        items.extend(bad);
        assert_eq!(bench.refusal(&items).code, Code::ArchiveHostile, "{name}");
    }
}

#[test]
fn what_is_no_teleport_archive_of_the_edition_is_invalid() {
    let bench = Bench::new();
    for (name, items) in [
        ("no teleport", vec![file("teleport/tsh", 0o755, b"#!")]),
        ("teleport is not executable", vec![file("teleport/teleport", 0o644, &program(100))]),
        ("teleport is a script", vec![file("teleport/teleport", 0o755, b"#!/bin/sh")]),
        ("other edition", vec![file("teleport-ent/teleport", 0o755, &program(100))]),
        ("no prefix", vec![file("teleport", 0o755, &program(100))]),
        ("beside the prefix", vec![teleport(), file("teleportx/a", 0o644, b"")]),
        ("empty", vec![]),
    ] {
        assert_eq!(bench.refusal(&items).code, Code::ArchiveInvalid, "{name}");
    }
    assert_eq!(bench.stage_bytes(b"<html>").unwrap_err().code, Code::ArchiveInvalid);
    assert_eq!(bench.stage_bytes(b"").unwrap_err().code, Code::ArchiveInvalid);
}

#[test]
fn programs_for_another_machine_are_refused() {
    let mut bench = Bench::new();
    bench.arch = Arch::Arm64;
    assert_eq!(bench.refusal(&[teleport()]).code, Code::WrongArchitecture);
}

#[test]
fn bytes_that_tar_never_looks_at_are_still_checked() {
    let bench = Bench::new();
    let tar = tar_of(&[teleport()]);
    let good = gzip(&tar);
    let hidden = tar_of(&[file("teleport/tsh", 0o755, b"#!")]);
    let mut bad_crc = good.clone();
    let at = bad_crc.len() - 6;
    bad_crc[at] ^= 1;
    for (name, archive) in [
        ("CRC", bad_crc),
        ("second member", [good.clone(), gzip(b"hidden")].concat()),
        ("second archive in a member", [good.clone(), gzip(&hidden)].concat()),
        ("second archive in the same member", gzip(&[tar.clone(), hidden].concat())),
        ("trailing bytes", [good.clone(), b"hidden".to_vec()].concat()),
        ("cut in the trailer", good[..good.len() - 3].to_vec()),
        ("cut in the middle", good[..good.len() / 2].to_vec()),
    ] {
        assert_eq!(bench.stage_bytes(&archive).unwrap_err().code, Code::ArchiveInvalid, "{name}");
    }
    for (name, archive) in [
        ("zero padding", [good.clone(), vec![0; 1000]].concat()),
        ("empty member", [good, gzip(b"")].concat()),
        ("tar in two members", [gzip(&tar[..300]), gzip(&tar[300..])].concat()),
        ("long zero tail", gzip(&[tar, vec![0; 100_000]].concat())),
    ] {
        bench.stage_bytes(&archive).unwrap_or_else(|error| panic!("{name}: {error}"));
        durable::remove_tree(&bench.staging()).unwrap();
    }
}

#[test]
fn a_damaged_archive_is_told_by_its_digest_and_an_odd_one_with_a_good_digest_by_its_content() {
    let bench = Bench::new();
    let archive = release();
    let digest = Digest::of(&archive).to_string();
    let hostile = gzip(&tar_of(&[teleport(), special("teleport/dev", EntryType::Block, "")]));
    let mut flipped = archive.clone();
    flipped[archive.len() / 2] ^= 1;
    for (name, bytes) in [
        ("flipped", flipped.as_slice()),
        ("truncated", &archive[..archive.len() / 3]),
        ("first byte gone", &archive[1..]),
        ("empty", b""),
        ("hostile", &hostile),
        ("longer", &[archive.as_slice(), b"x"].concat()),
    ] {
        bench.publish(bytes, "", digest.as_bytes());
        let error = bench.stage_from(&bench.file_base(), &|| false).unwrap_err();
        assert_eq!(error.code, Code::ChecksumMismatch, "{name}: {error}");
    }
}

#[test]
fn bombs_meet_the_limits() {
    let mut bench = Bench::new();
    let zeros = vec![0; 4 << 20];
    bench.limits.max_entry = 1 << 20;
    let bomb = || vec![teleport(), file("teleport/examples/zeros", 0o644, &zeros)];
    assert_eq!(bench.refusal(&bomb()).code, Code::ArchiveHostile);
    bench.limits = Limits { max_total: 1 << 20, ..Limits::default() };
    assert_eq!(bench.refusal(&bomb()).code, Code::ArchiveHostile);
    let tail = gzip(&[tar_of(&[teleport()]), zeros.clone()].concat());
    assert_eq!(bench.stage_bytes(&tail).unwrap_err().code, Code::ArchiveHostile);
    bench.limits = Limits { max_entries: 1, ..Limits::default() };
    assert_eq!(bench.refusal(&[teleport(), file("teleport/tsh", 0o755, b"#!")]).code, Code::ArchiveHostile);
    bench.limits = Limits { max_archive: 100, ..Limits::default() };
    assert_eq!(bench.stage_bytes(&release()).unwrap_err().code, Code::ArchiveInvalid);
    bench.limits = Limits::default();
    let long_name = Item { kind: EntryType::GNULongName, ..file("././@LongLink", 0o644, &vec![b'a'; 4 << 20]) };
    assert_eq!(bench.refusal(&[long_name, teleport()]).code, Code::ArchiveHostile);
    let folder = Item { kind: EntryType::Directory, ..file("teleport/", 0o755, &zeros) };
    assert_eq!(bench.refusal(&[folder, teleport()]).code, Code::ArchiveHostile);
}

#[test]
fn a_missing_or_malformed_digest_and_a_missing_archive_are_told_apart() {
    let bench = Bench::new();
    let code = |answer: fn(&Request) -> Reply| bench.stage_over(&Server::start(answer)).unwrap_err().code;
    assert_eq!(code(|_| Reply::status(404)), Code::ArchiveMissing);
    let only_archive = |request: &Request| {
        if request.path.ends_with(".sha256") { Reply::status(404) } else { Reply::ok(b"x") }
    };
    assert_eq!(code(only_archive), Code::ChecksumInvalid);
    assert_eq!(code(|_| Reply::ok(b"<html>")), Code::ChecksumInvalid);
    assert_eq!(code(|_| Reply::status(503)), Code::Network);
    let gone = server(release(), |_, _| Reply::status(403));
    assert_eq!(bench.stage_over(&gone).unwrap_err().code, Code::ArchiveMissing);
    assert_eq!(bench.stage_from(&bench.file_base(), &|| false).unwrap_err().code, Code::ArchiveMissing);
}

#[test]
fn with_a_public_key_only_a_fitting_signature_will_do() {
    use base64::Engine as _;
    let mut bench = Bench::new();
    let archive = gzip(&tar_of(&[teleport()]));
    let signing = p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
    let pem = signing.verifying_key().to_public_key_pem(p256::pkcs8::LineEnding::LF).unwrap();
    bench.key = Some(pem.parse().unwrap());
    let sign = |digest: Digest| {
        let signature: p256::ecdsa::Signature = signing.sign_prehash(&digest.0).unwrap();
        base64::prelude::BASE64_STANDARD.encode(signature.to_der())
    };
    let error = bench.stage_bytes(&archive).unwrap_err();
    assert_eq!(error.code, Code::SignatureInvalid);
    assert!(error.what.contains("missing") && error.what.contains(".sig"), "{error}");
    for bad in [String::new(), sign(Digest::of(b"another archive"))] {
        bench.publish(&archive, ".sig", bad.as_bytes());
        assert_eq!(bench.stage_bytes(&archive).unwrap_err().code, Code::SignatureInvalid);
    }
    bench.publish(&archive, ".sig", sign(Digest::of(&archive)).as_bytes());
    bench.stage_bytes(&archive).unwrap();
}

#[test]
fn chunked_bodies_missing_lengths_and_a_content_encoding_are_no_hindrance() {
    let bench = Bench::new();
    for shape in [
        |body: &[u8]| Reply::ok(body).chunked(),
        |body: &[u8]| Reply::ok(body).without_length(),
        |body: &[u8]| Reply::ok(body).header("Content-Encoding", "gzip"),
        |body: &[u8]| Reply::ok(body).header("Content-Encoding", "x-gzip").chunked(),
    ] {
        let server = server(release(), move |body, _| shape(body));
        bench.stage_over(&server).unwrap();
        assert!(server.requests().iter().all(|request| request.field("accept-encoding") == Some("identity")));
        durable::remove_tree(&bench.staging()).unwrap();
    }
}

#[test]
fn an_archive_compressed_once_more_on_the_way_is_explained() {
    let bench = Bench::new();
    let server = server(release(), |body, _| Reply::ok(&gzip(body)).header("Content-Encoding", "gzip"));
    let error = bench.stage_over(&server).unwrap_err();
    assert_eq!(error.code, Code::ChecksumMismatch);
    assert!(error.to_string().contains("Content-Encoding gzip"), "{error}");
}

#[test]
fn a_dropped_connection_is_resumed_where_it_was() {
    let bench = Bench::new();
    let server = server(release(), |body, request| {
        let start = request.range_start().unwrap_or(0);
        let reply = if start == 0 { Reply::ok(body) } else { Reply::part(body, start) };
        let reply = reply.header("ETag", "\"one\"");
        if body.len() - start > 1_000_000 { reply.cut_after(1_000_000) } else { reply }
    });
    bench.stage_over(&server).unwrap();
    let requests = server.requests();
    let ranges: Vec<_> = requests.iter().skip(1).map(|request| request.range_start()).collect();
    assert_eq!(ranges, [None, Some(1_000_000), Some(2_000_000), Some(3_000_000)]);
    assert!(requests[2..].iter().all(|request| request.field("if-range") == Some("\"one\"")));
}

#[test]
fn a_cut_chunked_body_is_resumed_too() {
    let bench = Bench::new();
    let server = server(release(), |body, request| match request.range_start() {
        // The announced length is that of the whole, so that the cut shows.
        None => Reply::ok(body).header("Last-Modified", "Mon, 02 Jan 2023 00:00:00 GMT").cut_after(70_000),
        Some(start) => Reply::part(body, start).chunked(),
    });
    bench.stage_over(&server).unwrap();
    assert_eq!(server.requests()[2].field("if-range"), Some("Mon, 02 Jan 2023 00:00:00 GMT"));
}

#[test]
fn a_body_that_ends_with_its_connection_is_resumed_up_to_what_was_announced() {
    for has_ranges in [true, false] {
        let mut bench = Bench::new();
        bench.limits.announced = Some(release().len() as u64);
        let server = server(release(), move |body, request| match request.range_start() {
            Some(start) if has_ranges => Reply::part(body, start).without_length(),
            _ if request.count < 2 => Reply::ok(body).without_length().cut_after(70_000),
            _ => Reply::ok(body).without_length(),
        });
        bench.stage_over(&server).unwrap();
        assert_eq!(server.requests()[2].range_start(), Some(70_000));
    }
}

#[test]
fn a_cut_that_nothing_shows_but_the_archive_is_told_as_a_cut() {
    let bench = Bench::new();
    let server = server(release(), |body, _| Reply::ok(body).without_length().cut_after(70_000));
    let error = bench.stage_over(&server).unwrap_err();
    assert_eq!(error.code, Code::Network);
    assert!(error.what.contains("70000 bytes") && error.what.contains("no Content-Length"), "{error}");
}

#[test]
fn a_server_without_ranges_is_read_again_up_to_the_cut() {
    let bench = Bench::new();
    let server = server(release(), |body, request| {
        let reply = Reply::ok(body).header("ETag", "\"one\"");
        if request.count < 3 { reply.cut_after(500_000 * request.count) } else { reply }
    });
    bench.stage_over(&server).unwrap();
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_changed_file_or_a_wrong_range_ends_the_download() {
    let bench = Bench::new();
    for (name, second) in [
        ("changed, whole", (|body: &[u8], _| Reply::ok(body).header("ETag", "\"two\"")) as fn(&[u8], usize) -> Reply),
        ("changed, part", |body, start| Reply::part(body, start).header("ETag", "\"two\"")),
        ("other length", |body, start| Reply::part(&[body, b"x"].concat(), start)),
        ("other start", |body, start| Reply::part(body, start - 1)),
        ("no range told", |body, start| Reply::ok(&body[start..])),
        ("not satisfiable", |_, _| Reply::status(416)),
    ] {
        let server = server(release(), move |body, request| match request.range_start() {
            None => Reply::ok(body).header("ETag", "\"one\"").cut_after(100_000),
            Some(start) => second(body, start),
        });
        let error = bench.stage_over(&server).unwrap_err();
        assert_eq!(error.code, Code::Network, "{name}: {error}");
    }
}

#[test]
fn a_length_that_is_too_long_or_too_short_is_an_error() {
    let mut bench = Bench::new();
    bench.limits.resumes = 1;
    let longer = server(release(), |body, request| match request.range_start() {
        Some(start) if start == body.len() => {
            Reply::status(416).header("Content-Range", &format!("bytes */{}", body.len()))
        }
        _ => Reply::ok(body).announcing(body.len() + 10),
    });
    assert_eq!(bench.stage_over(&longer).unwrap_err().code, Code::Network);
    let shorter = server(release(), |body, _| Reply::ok(body).announcing(body.len() - 10));
    assert_eq!(bench.stage_over(&shorter).unwrap_err().code, Code::ChecksumMismatch);
}

#[test]
fn a_connection_that_breaks_again_and_again_without_progress_ends_the_download() {
    let mut bench = Bench::new();
    bench.limits.resumes = 3;
    let server = server(release(), |body, request| match request.range_start() {
        None => Reply::ok(body).cut_after(100_000),
        Some(start) => Reply::part(body, start).cut_after(0),
    });
    assert_eq!(bench.stage_over(&server).unwrap_err().code, Code::Network);
    assert_eq!(server.requests().len(), 1 + 1 + 3);
}

#[test]
fn a_stalled_body_ends_by_the_read_time_out() {
    let mut bench = Bench::new();
    bench.settings.timeouts.read = Duration::from_millis(50);
    bench.limits.resumes = 1;
    let server = server(release(), |body, request| {
        let start = request.range_start().unwrap_or(0);
        let reply = if start == 0 { Reply::ok(body) } else { Reply::part(body, start) };
        if start == 0 {
            reply.cut_after(100_000).then_silence()
        } else {
            reply.cut_after(0).then_silence_after_header()
        }
    });
    let error = bench.stage_over(&server).unwrap_err();
    assert_eq!(error.code, Code::DownloadStalled, "{error}");
}

#[test]
fn the_whole_run_has_a_deadline_and_a_signal_ends_it_at_once() {
    let mut bench = Bench::new();
    let server = server(release(), |body, _| Reply::ok(body).cut_after(100_000).then_silence());
    bench.limits.run = Duration::from_millis(1);
    assert_eq!(bench.stage_over(&server).unwrap_err().code, Code::DownloadStalled);
    bench.limits.run = Duration::from_secs(100);
    let staging = bench.staging();
    let cancelled = || staging.exists();
    assert_eq!(bench.stage_from(&server.url(""), &cancelled).unwrap_err().code, Code::Interrupted);
}

#[test]
fn a_taken_staging_directory_is_left_alone() {
    let bench = Bench::new();
    durable::create_dir_all(&bench.staging().join("theirs")).unwrap();
    let archive = gzip(&tar_of(&[teleport()]));
    bench.publish(&archive, "", Digest::of(&archive).to_string().as_bytes());
    let base: BaseUrl = bench.file_base().parse().unwrap();
    let request = StageRequest {
        client: &Client::new(&bench.settings).unwrap(),
        base: &base,
        revision: &Revision { version: "15.1.1".parse().unwrap(), edition: Edition::Oss },
        arch: Arch::Amd64,
        staging_dir: &bench.staging(),
        public_key: None,
        digest: None,
        components: None,
        now: jiff::Timestamp::UNIX_EPOCH,
        limits: Limits::default(),
    };
    assert!(stage(&request, &mut |_| (), &|| false).is_err());
    assert!(bench.staging().join("theirs").exists());
    assert_eq!(
        archive_size(request.client, &base, request.revision, Arch::Amd64, &|| false),
        Some(archive.len() as u64)
    );
}

#[test]
fn the_manifest_names_where_it_came_from() {
    let bench = Bench::new();
    let server = server(release(), |body, _| Reply::ok(body));
    let staged = bench.stage_over(&server).unwrap();
    assert_eq!(staged.manifest.source_url, server.url("/teleport-v15.1.1-linux-amd64-bin.tar.gz"));
    assert!(bench.staging().join(MANIFEST).exists());
}
