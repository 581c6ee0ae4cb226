//! Where fuzzing starts from: the hostile archives, the samples of `docs/protocol.md`, and texts that were once hard.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use protocol::Digest;
use testing::cluster::{Signer, hostile};

use crate::signature::ARCHIVE;

/// Largest seed, bytes: long ones are mutated slowly.
const MAX_LEN: usize = 8 << 10;
/// Seeds of random bytes, and their length in bytes.
const RANDOM: (u32, usize) = (24, 400);
const PROTOCOL: &str = include_str!("../../../docs/protocol.md");
const UPDATES_HEAD: &str = "version: v1\nkind: agent_versions\n";
const BACKUP_HEAD: &str = "version: v1\nkind: db_backup\n";
const GO: &str = "version: v1\nkind: update_config\nspec:\n  proxy: p:443\n  path: /usr/local/bin\n  group: default\n  base_url: https://m\n  enabled: true\n  pinned: false\nstatus:\n  active:\n    version: 17.1.0\n    flags: [Enterprise, FIPS, Later]\n  skip: {version: 1.0.0}\n";
const TREES: &[&str] = &[
    "",
    "a: yes\nb: 1.10\nc: ~\nd: 0123\ne:\nf: 2020-12-09T16:09:53+00:00\ng: !!str 1\n? ''\n: x\n",
    "# head\na: |\n  x\n  # y\n# real\nb: \"p\n  # q\"\n\nlist:\n  # first\n  - 1\n",
    "base: &b {x: 1, y: 2}\nspec:\n  <<: *b\n  y: 3\nmany:\n  <<: [*b, {z: 4}]\n",
    "--- !mine\na: >-\n  folded\n  text\n\n  more\nb: |+\n  kept\n\n",
    "'single ''quoted''': \"\\u00e9\\t\\x41\\\n  joined\"\n? - a\n: x\n",
    "a: {b: [1, {c: d}, [e]], \"f\": g}\n- x: 1\n",
    "%YAML 1.2\n%TAG ! tag:example.org,2000:\n---\na: !x b\n...\n---\nb: 1\n",
    "a: !<tag:example.org,2000:x> [1]\nb: !!binary |\n  AAAA\n",
];

/// Writes every seed as `dir/TARGET/NAME`.
pub fn write(dir: &Path) {
    for (target, seeds) in all() {
        let dir = dir.join(target);
        fs::create_dir_all(&dir).unwrap();
        for (name, bytes) in seeds {
            fs::write(dir.join(slug(&name)), bytes).unwrap();
        }
    }
}

/// A name and its bytes.
pub type Seeds = Vec<(String, Vec<u8>)>;

/// The seeds of every target.
pub fn all() -> Vec<(&'static str, Seeds)> {
    let mut all = [long_and_short(), crate::fleet::seeds::all()].concat();
    for (_, seeds) in &mut all {
        seeds.retain(|(_, bytes)| bytes.len() <= MAX_LEN);
    }
    all
}

#[allow(clippy::too_many_lines, reason = "a list")]
fn long_and_short() -> Vec<(&'static str, Seeds)> {
    let archives: Seeds = hostile::corpus()
        .into_iter()
        .chain(hostile::odd_but_fine())
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .filter(|(_, bytes)| bytes.len() <= MAX_LEN)
        .collect();
    let tars = archives.iter().filter_map(|(name, bytes)| {
        let mut tar = Vec::new();
        MultiGzDecoder::new(bytes.as_slice()).take(MAX_LEN as u64 + 1).read_to_end(&mut tar).ok()?;
        Some((name.clone(), tar))
    });
    let tars = tars.collect();
    let records = format!("{}\n{}\n", compact("journal-begin"), checked_off(&samples("journal")));
    let journal = samples("journal")[0];
    // One record that is not whole, with whole ones behind it.
    let torn = journal.replacen("\"step\":1}", "\"step\":7}", 1);
    vec![
        ("archive", archives),
        ("tar", tars),
        ("entries", random()),
        (
            "archive_path",
            numbered(&[
                "teleport/tsh\0teleport",
                "./teleport//bin/./tsh\0../../x",
                "teleport/examples/systemd/teleport.service\0../../../teleport/tsh",
                "/etc/passwd\0/etc/passwd",
                "teleport/../x\0..",
                "",
            ]),
        ),
        (
            "find",
            [
                texts(&["find-rfd", "find-today"]),
                numbered(&[
                    r#"{"agent_version":"v1.0.0-rc.1+b","agent_update_jitter_seconds":1e300,"fips":true}"#,
                    r#"{"agent_version":"../../etc"}"#,
                    r#"{"auto_update":{"agent_version":"1.0.0","agent_update_jitter_seconds":-5},"edition":"x"}"#,
                ]),
            ]
            .concat(),
        ),
        (
            "calendar",
            numbered(&["Tue,Wed *-*-* 00:00:00 UTC", "Mon..Fri 02:00", "*-*-* 0/6:*:30\nSat-Mon 1..4,22:00", "2026-02-30"]),
        ),
        (
            "source",
            numbered(&[
                "https://h:8443",
                "channel+https://u:p@h/v1/stable/cloud",
                "cincinnati+https://[::1]/g?channel=a&x",
                "file:///a%20b/release.yaml",
            ]),
        ),
        (
            "update_graph",
            numbered(&[
                r#"{"nodes":[{"version":"1.0.0"},{"version":"1.1.0","metadata":{"x.updates.barrier":"true"}},{"version":"1.2.0"}],"edges":[[0,1],[1,2],[0,2]]}"#,
                r#"{"nodes":[{"version":"1.0.0"},{"version":"0.9.0"}],"edges":[[0,1]]}"#,
            ]),
        ),
        (
            "release_yaml",
            numbered(&[
                "version: 1.0.0\nedition: oss\nwindow: Tue 03:00 UTC\nwindow_length: 2h\ncritical: yes\n",
                "version: none\n",
                "version: 1.0.0\nmin_version: 1.0.0\nnot_before: 2026-01-01T00:00:00Z\nstale_after: 2026-01-01T00:00:00Z\n",
            ]),
        ),
        ("yaml", numbered(&[TREES, &[samples("updates")[0]]].concat())),
        (
            "updates_yaml",
            [
                texts(&["updates"]),
                numbered(&[
                    UPDATES_HEAD,
                    "",
                    &format!("{UPDATES_HEAD}theirs: 0123\nspec:\n  # the proxy\n  proxy: mytenant.teleport.sh\n  enabled: yes\n  watch: 90\n  health: {{stable: 7s, newer: 1.10}}\n  future: {{deep: [~, {{x: on}}]}}\n"),
                    &format!("{UPDATES_HEAD}base: &b {{keep: 3, group: a}}\nspec:\n  <<: *b\n  components: [tsh, tbot]\n  https_proxy: http://joe:secret@px:3128\n  service: {{start: a, stop: b, reload: c, pid_file: /run/x}}\n"),
                    &format!("{UPDATES_HEAD}spec:\n  network: {{tries: 0}}\n"),
                    &format!("{UPDATES_HEAD}spec: text\n"),
                ]),
            ]
            .concat(),
        ),
        (
            "teleport_yaml",
            numbered(&[
                "version: v3\nteleport:\n  proxy_server: p:443\n  data_dir: /data\n  auth_server: a:3025\nauth_service:\n  enabled: no\n",
                "teleport:\n  auth_servers: [b:3025, c]\n",
                "teleport:\n  auth_servers: b:3025\n---\nx: 1\n",
                "teleport: [\n",
            ]),
        ),
        ("go_updater_yaml", numbered(&[GO, "version: v1\nkind: update_config\nstatus: {active: {version: ''}}\n"])),
        (
            "backup_yaml",
            [
                texts(&["backup"]),
                numbered(&[
                    &format!("{BACKUP_HEAD}spec: {{proxy: p, version: 15.1.0, creation_time: 2020-12-09T16:09:53.5+01:00, database: absent}}\n"),
                    &format!("{BACKUP_HEAD}spec:\n  version: 1.2.3\n  creation_time: -009999-01-01T00:00:00Z\n"),
                ]),
            ]
            .concat(),
        ),
        ("journal", numbered(&[journal, &torn, &format!("{journal}\n0123abcd {{\"rec")])),
        ("journal_records", numbered(&[&records, "{\"record\":\"teleported\"}\n", "{\"record\":\"commit\"}\n"])),
        ("manifest", manifests()),
        (
            "digest",
            numbered(&[&format!("{}  teleport.tar.gz\n", Digest::of(ARCHIVE)), "\n abc", "<html>", &"A".repeat(64)]),
        ),
        ("signature", signatures()),
        ("public_key", keys()),
        (
            "strings",
            numbered(&[
                "15.1.1",
                "v16.0.0-rc.1+build.5",
                "mytenant.teleport.sh:443",
                "https://Mytenant.Teleport.sh:443/",
                "[::1]:3080",
                "::1",
                "https://mirror.example.com/teleport/",
                "file:///srv/teleport",
                "http://u:p@px:3128/x@y",
                "1h30m",
                "500ms",
                "2020-12-09T16:09:53+00:00",
                "enterprise-fips",
                "line one\n  two # x\n\nthree\n",
                "0123",
                "amd64",
            ]),
        ),
    ]
}

fn texts(marks: &[&str]) -> Seeds {
    marks
        .iter()
        .flat_map(|mark| {
            samples(mark).into_iter().enumerate().map(move |(n, text)| (format!("{mark}-{n}"), text.into()))
        })
        .collect()
}

pub(crate) fn numbered(texts: &[&str]) -> Seeds {
    texts.iter().enumerate().map(|(number, text)| (number.to_string(), (*text).into())).collect()
}

/// The fenced blocks of the protocol page that are marked `name`.
fn samples(name: &str) -> Vec<&'static str> {
    let blocks = PROTOCOL.split("\n```").filter_map(|block| block.split_once('\n'));
    let found: Vec<_> =
        blocks.filter(|(mark, _)| mark.split_whitespace().nth(1) == Some(name)).map(|(_, body)| body).collect();
    assert!(!found.is_empty(), "docs/protocol.md has no sample {name}");
    found
}

fn compact(name: &str) -> String {
    serde_json::from_str::<serde_json::Value>(samples(name)[0]).unwrap().to_string()
}

/// Records without their checksums.
fn checked_off(journal: &[&str]) -> String {
    journal[0].lines().filter_map(|line| line.split_once(' ')).map(|(_, json)| json).collect::<Vec<_>>().join("\n")
}

fn manifests() -> Seeds {
    let good = samples("manifest")[0];
    let named = |path: &str| good.replace("bin/teleport\"", &format!("{path}\""));
    let mut parts = good.split("\"size\": ");
    let mut absurd = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        absurd += &format!("\"size\": {},", u64::MAX);
        absurd += part.split_once(',').map_or(part, |(_, rest)| rest);
    }
    numbered(&[good, &named("../x"), &named("/etc/passwd"), &named("a\\u0000b"), &absurd, "{}"])
}

fn random() -> Seeds {
    let mut state = 1_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..RANDOM.0).map(|number| (number.to_string(), (0..RANDOM.1).map(|_| byte()).collect())).collect()
}

fn signatures() -> Seeds {
    let good = Signer::fixed(1).sign(&Digest::of(ARCHIVE).0);
    let other = Signer::fixed(2).sign(&Digest::of(ARCHIVE).0);
    // r and s of the DER form, without their tags and leading zeros: the bare form.
    let der = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, good.trim()).unwrap();
    let number = |at: usize| {
        let length = usize::from(der[at + 1]);
        let digits = &der[at + 2..at + 2 + length];
        let digits = &digits[length.saturating_sub(32)..];
        [vec![0; 32 - digits.len()], digits.to_vec()].concat()
    };
    let second = 4 + usize::from(der[3]);
    let bare = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, [number(2), number(second)].concat());
    numbered(&[&good, &other, &bare, "", "AAAA"])
}

fn keys() -> Seeds {
    let pem = Signer::fixed(1).public_key_pem();
    let bare: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    numbered(&[&pem, &bare, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
}

fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<_> =
        lower.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}
