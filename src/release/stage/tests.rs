//! What a download does when its server or its connection misbehaves, where `tests/suite/download` has no server that does so.

use std::path::PathBuf;

use http_client::HttpSettings;
use protocol::Edition;
use testing::cluster::Signer;
use testing::cluster::tarball::Tarball;
use testing::loopback::{Reply, Request, Server};

use super::*;
use crate::host::signal::Cancelled;

/// Longer than the buffers that go round, and not compressible.
const BIG: usize = 3 << 20;

/// The smallest head of an executable for amd64, and then noise.
fn program() -> Vec<u8> {
    let head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".iter().copied();
    let noise = std::iter::successors(Some(1_u32), |x| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)));
    head.chain(noise.map(|x| (x >> 24) as u8)).take(BIG).collect()
}

fn release() -> Vec<u8> {
    Tarball::new().directory("teleport/").file("teleport/teleport", 0o755, &program()).gzip()
}

struct Bench {
    dir: tempfile::TempDir,
    limits: Limits,
    settings: HttpSettings,
    key: Option<PublicKey>,
}

impl Bench {
    fn new() -> Self {
        let mut settings = HttpSettings { insecure: true, ..HttpSettings::default() };
        settings.retry.first_wait = Duration::ZERO;
        settings.retry.tries = 2;
        let limits = Limits { resume_wait: Duration::ZERO, ..Limits::default() };
        Self { dir: tempfile::tempdir().unwrap(), limits, settings, key: None }
    }

    fn staging(&self) -> PathBuf {
        self.dir.path().join("staging")
    }

    fn stage_from(&self, base: &str, cancelled: Cancelled<'_>) -> Result<Staged> {
        let result = self.try_stage(base, cancelled);
        assert_eq!(result.is_ok(), self.staging().exists(), "an error leaves nothing behind");
        result
    }

    fn try_stage(&self, base: &str, cancelled: Cancelled<'_>) -> Result<Staged> {
        let supply = Supply {
            client: &Client::new(&self.settings).unwrap(),
            base: &base.parse().unwrap(),
            arch: Arch::Amd64,
            public_key: self.key.clone(),
            tuf: None,
            digest: None,
            components: &[],
            limits: Limits::default(),
            version_wait: Duration::ZERO,
            active_size: None,
        };
        let request = StageRequest {
            supply: &supply,
            revision: &Revision { version: "15.1.1".parse().unwrap(), edition: Edition::Oss },
            staging_dir: &self.staging(),
            proven: None,
            now: jiff::Timestamp::UNIX_EPOCH,
            limits: self.limits.clone(),
        };
        stage(&request, &mut |_, _| (), cancelled)
    }

    fn stage_over(&self, server: &Server) -> Result<Staged> {
        self.stage_from(&server.url(""), &|| false)
    }
}

/// A server of the release that answers requests for the archive as told.
fn server(answer: impl Fn(&[u8], &Request) -> Reply + Send + Sync + 'static) -> Server {
    let archive = release();
    let digest = Digest::of(&archive).to_string();
    Server::start(move |request| {
        if request.path.ends_with(".sha256") { Reply::ok(digest.as_bytes()) } else { answer(&archive, request) }
    })
}

#[test]
fn an_archive_that_is_not_there_is_missing_wherever_it_was_looked_for() {
    let bench = Bench::new();
    let nowhere = format!("file://{}", bench.dir.path().display());
    assert_eq!(bench.stage_from(&nowhere, &|| false).unwrap_err().code, Code::ArchiveMissing);
    // Without the digest too.
    assert_eq!(bench.stage_over(&Server::start(|_| Reply::status(404))).unwrap_err().code, Code::ArchiveMissing);
}

#[test]
fn a_signature_that_is_not_there_is_told_as_missing() {
    let mut bench = Bench::new();
    bench.key = Some(Signer::fixed(1).public_key_pem().parse().unwrap());
    let unsigned =
        server(|body, request| if request.path.ends_with(".sig") { Reply::status(404) } else { Reply::ok(body) });
    let error = bench.stage_over(&unsigned).unwrap_err();
    assert_eq!(error.code, Code::SignatureInvalid);
    assert!(error.what.contains("missing") && error.what.contains(".sig"), "{error}");
}

#[test]
fn a_content_encoding_that_only_names_what_the_archive_is_is_no_hindrance() {
    let bench = Bench::new();
    for shape in [
        |body: &[u8]| Reply::ok(body).header("Content-Encoding", "gzip"),
        |body: &[u8]| Reply::ok(body).header("Content-Encoding", "x-gzip").chunked(),
    ] {
        bench.stage_over(&server(move |body, _| shape(body))).unwrap();
        durable::remove_tree(&bench.staging()).unwrap();
    }
}

#[test]
fn a_file_without_a_tag_is_resumed_by_its_date() {
    let server = server(|body, request| match request.range_start() {
        None => Reply::ok(body).header("Last-Modified", "Mon, 02 Jan 2023 00:00:00 GMT").cut_after(70_000),
        Some(start) => Reply::part(body, start).chunked(),
    });
    Bench::new().stage_over(&server).unwrap();
    assert_eq!(server.requests()[2].field("if-range"), Some("Mon, 02 Jan 2023 00:00:00 GMT"));
}

#[test]
fn a_body_that_ends_with_its_connection_is_resumed_up_to_what_was_announced() {
    for has_ranges in [true, false] {
        let mut bench = Bench::new();
        bench.limits.announced = Some(release().len() as u64);
        let server = server(move |body, request| match request.range_start() {
            Some(start) if has_ranges => Reply::part(body, start).without_length(),
            _ if request.count < 2 => Reply::ok(body).without_length().cut_after(70_000),
            _ => Reply::ok(body).without_length(),
        });
        bench.stage_over(&server).unwrap();
        assert_eq!(server.requests()[2].range_start(), Some(70_000));
    }
}

#[test]
fn a_resumption_that_brings_nothing_or_something_else_ends_the_download() {
    type Second = fn(&[u8], usize) -> Reply;
    let mut bench = Bench::new();
    bench.limits.resumes = 3;
    let end_of = |body: &[u8], _| Reply::status(416).header("Content-Range", &format!("bytes */{}", body.len()));
    // With how many requests, beside the first ones for the digest and the archive.
    let rows: [(&str, Second, usize); 8] = [
        ("changed, whole", |body, _| Reply::ok(body).header("ETag", "\"two\""), 1),
        ("changed, part", |body, start| Reply::part(body, start).header("ETag", "\"two\""), 1),
        ("other length", |body, start| Reply::part(&[body, b"x"].concat(), start), 1),
        ("other start", |body, start| Reply::part(body, start - 1), 1),
        ("no range told", |body, start| Reply::ok(&body[start..]), 1),
        ("not satisfiable", |_, _| Reply::status(416), 1),
        ("another end", end_of, 1),
        ("nothing", |body, start| Reply::part(body, start).cut_after(0), 3),
    ];
    for (name, second, resumptions) in rows {
        let server = server(move |body, request| match request.range_start() {
            None => Reply::ok(body).header("ETag", "\"one\"").cut_after(100_000),
            Some(start) => second(body, start),
        });
        let error = bench.stage_over(&server).unwrap_err();
        assert_eq!((error.code, server.requests().len()), (Code::Network, 2 + resumptions), "{name}: {error}");
    }
}

#[test]
fn a_resumption_that_is_silent_ends_by_the_read_time_out() {
    let mut bench = Bench::new();
    bench.settings.timeouts.read = Duration::from_millis(50);
    bench.limits.resumes = 1;
    let server = server(|body, request| match request.range_start() {
        None => Reply::ok(body).cut_after(100_000).then_silence(),
        Some(start) => Reply::part(body, start).cut_after(0).then_silence(),
    });
    assert_eq!(bench.stage_over(&server).unwrap_err().code, Code::DownloadStalled);
}

#[test]
fn more_than_an_archive_may_have_is_no_archive() {
    let mut bench = Bench::new();
    bench.limits.max_archive = 100;
    let error = bench.stage_over(&server(|body, _| Reply::ok(body))).unwrap_err();
    assert_eq!(error.code, Code::ArchiveInvalid, "{error}");
}

#[test]
fn a_signal_ends_a_download_at_once() {
    let bench = Bench::new();
    let server = server(|body, _| Reply::ok(body).cut_after(100_000).then_silence());
    let staging = bench.staging();
    let cancelled = || staging.exists();
    assert_eq!(bench.stage_from(&server.url(""), &cancelled).unwrap_err().code, Code::Interrupted);
}

#[test]
fn a_taken_staging_directory_is_left_alone() {
    let bench = Bench::new();
    durable::create_dir_all(&bench.staging().join("theirs")).unwrap();
    let server = server(|body, _| Reply::ok(body));
    assert!(bench.try_stage(&server.url(""), &|| false).is_err());
    assert!(bench.staging().join("theirs").exists());
}

#[test]
fn the_size_of_an_archive_in_a_directory_is_that_of_its_file() {
    let bench = Bench::new();
    durable::write(&bench.dir.path().join("teleport-v15.1.1-linux-amd64-bin.tar.gz"), b"archive", 0o644).unwrap();
    let client = Client::new(&bench.settings).unwrap();
    let base = format!("file://{}", bench.dir.path().display()).parse().unwrap();
    let revision = Revision { version: "15.1.1".parse().unwrap(), edition: Edition::Oss };
    assert_eq!(archive_size(&client, &base, &revision, Arch::Amd64, &|| false), Ok(Some(7)));
}
