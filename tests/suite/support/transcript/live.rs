//! Steps of hosts that live: in beds and in cells.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use protocol::report::{
    PATH, QUESTION_HEADER, Report, SIGNATURE_HEADER, SignedQuestion, SignedReport, question_message, report_message,
};
use serde_json::{Value, json};
use testing::cluster::request::Request;
use testing::cluster::{Archive, Dialect, Find};
use testing::crash::Updater;
use testing::crash::live::cell;
use testing::crash::live::flows::{Scene, settings, version};
use testing::crash::live::suite;

use super::super::{Image, Live, Rig, SOON, sql_of, updater};
use super::cluster::archive;

/// The agent's id in a cell.
pub(crate) const HOST: &str = "11111111-2222-4333-8444-555555555555";
/// Where the host keeps its key.
pub(crate) const KEY: &str = "/var/lib/teleport/versions/.fleet-host";
/// The epoch of the server.
pub(crate) const EPOCH: u64 = 7;

/// One for all cells: a copy that is being written cannot be run.
static UPDATER: LazyLock<Updater> = LazyLock::new(|| Updater::new(&updater()));

/// What reports have shown since a case began.
#[derive(Default)]
pub(super) struct Reported {
    /// Those that were looked at last.
    last: Vec<Value>,
    /// The keys of all.
    keys: BTreeSet<String>,
}

/// A host with systemd; with a version it is enabled there, and its agent runs. `None` where there are no beds.
pub(super) fn bed(words: &[&str]) -> Option<Image> {
    let rig = Rig::up("transcript")?;
    if let [version, how @ ..] = words {
        rig.release(&archive(Archive::simple(version), how));
        rig.enable(&[]).ok();
        rig.start_agent();
        rig.cluster.forget_requests();
    }
    Some(Image::of_bed(rig))
}

/// A host with a living agent of 1.0.0, with these lines of settings, whose server asks for no reports; `None` where there are no cells.
pub(crate) fn cell(lines: &[&str]) -> Option<Image> {
    if !suite::can() {
        return None;
    }
    let (watch, lines) = match lines {
        [first, rest @ ..] if first.starts_with("watch: ") => (&first["watch: ".len()..], rest),
        _ => ("0s", lines),
    };
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    let scene = Scene::on_one(&UPDATER, &(settings("1500ms", watch) + &lines)).unwrap();
    let root = scene.files.path().join("root");
    std::fs::write(root.join("var/lib/teleport/host_uuid"), HOST).unwrap();
    std::fs::write(root.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    scene.cluster.set_page(PATH, &[(200, "{}")]);
    let image = Image::of_cell(scene);
    is_of_live(&image, "agent", &[]);
    image.cluster.forget_requests();
    Some(image)
}

/// Whether this is one of:
///
/// * `agent`: its unit is enabled and started; `ready`: it answers; `running V`; `rows COLUMNS… ROWS` of its database;
/// * `toy FILE BODY`: an updater that notes in `/var/calls` how it is called, and does this;
/// * `until LINE`: of shell, which succeeds soon; `reboot`, and `cut` without an end before it;
/// * `to V HOW…`: the cluster names it, and an update succeeds;
/// * `publish-number N HOW…`: a release of an agent that writes;
/// * `tell V ROLLOUT ATTEMPT SECONDS`: the cluster names V, in this attempt of a rollout, and wants a report every so many seconds;
///   `answer V FLEET`: with this in place of a rollout;
/// * `posts COUNT`: so many reports came since the last look; `unsigned`: nothing that was asked has a header of a rollout server's;
///   `questions COUNT`: so many requests have a well signed question, numbered below every report.
pub(super) fn is_of_live(image: &Image, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("to", [version, how @ ..]) => {
            image.cluster.publish(&archive(Archive::simple(version), how));
            image.cluster.set_directive(Find::version(version));
            image.run(&["update"]).ok();
        }
        ("running", [version]) => assert_eq!(image.status()["agent_version_running"], *version),
        ("rows", [sql, rows @ ..]) => {
            assert_eq!(sql_of(&image.path("/var/lib/teleport/proc/sqlite.db"), sql), rows);
        }
        ("publish-number", [number, how @ ..]) => {
            drop(image.cluster.publish(&archive(version(number.parse().unwrap()), how)));
        }
        ("tell", [version, rollout, attempt, interval]) => {
            let number = |text: &str| text.parse().unwrap();
            tell(image, version, number(rollout), number(attempt), number(interval));
        }
        ("answer", [version, fleet]) => answer(image, version, &serde_json::from_str(fleet).unwrap()),
        ("posts", [count]) => {
            assert_eq!(image.cluster.requests_to(PATH).len().to_string(), *count);
            image.cluster.forget_requests();
        }
        ("unsigned", []) => {
            let headers = image.cluster.requests().into_iter().flat_map(|request| request.headers);
            assert_eq!(headers.filter(|(name, _)| name.starts_with("teleport-fleet")).count(), 0);
        }
        ("questions", [count]) => {
            let requests = image.cluster.requests();
            let asked: Vec<SignedQuestion> = requests.iter().filter_map(question).collect();
            assert_eq!(asked.len().to_string(), *count, "{requests:#?}");
            let reports: Vec<Report> = image.cluster.requests_to(PATH).iter().map(signed).collect();
            for asked in &asked {
                let is_before = reports.iter().all(|report| asked.number < report.sequence);
                assert!(asked.epoch == EPOCH && is_before, "{asked:?}, {reports:#?}");
            }
        }
        _ => return is_of_place(image, verb, words),
    }
    true
}

/// An updater that declares our protocol, writes down in `/var/calls` how it was called, and does `body`.
pub(super) fn toy(body: &str) -> String {
    format!(
        "#!/bin/sh\n\
         if [ \"$1\" = version ]; then echo '{{\"version\":\"9.9.9\",\"protocol\":\"rfd0169/1\"}}'; exit 0; fi\n\
         echo \"$* $TELEPORT_UPDATE_REEXEC\" >>/var/calls\n{body}\n"
    )
}

/// Whether it is about the host itself.
fn is_of_place(image: &Image, verb: &str, words: &[&str]) -> bool {
    match (&image.live, verb, words) {
        (Some(Live::Cell(cell)), "agent", []) => cell.start_agent().unwrap(),
        (Some(Live::Bed(bed)), "agent", []) => {
            bed.sh("systemctl daemon-reload; systemctl enable --now teleport");
            is_of_place(image, "ready", &[]);
        }
        (Some(Live::Bed(bed)), "ready", []) => {
            bed.until("test -S /var/lib/teleport/debug.sock && test -s /run/teleport.pid", SOON);
        }
        (Some(Live::Bed(bed)), "toy", [file, body]) => bed.write(format!("/{file}"), toy(body), 0o755),
        (Some(Live::Bed(bed)), "until", [line]) => bed.until(line, SOON),
        (Some(Live::Cell(cell)), "until", [line]) => {
            cell::until(SOON, || cell.sh(line).unwrap().code == Some(0))
                .unwrap_or_else(|late| panic!("{line}: {late:?}"));
        }
        (Some(Live::Bed(bed)), "reboot", []) => bed.reboot(),
        (Some(Live::Bed(bed)), "cut", []) => {
            bed.cut();
            bed.boot();
        }
        _ => return false,
    }
    true
}

/// The cluster names `version` in this attempt of a rollout, and wants a report every `interval` seconds.
pub(crate) fn tell(image: &Image, version: &str, rollout: u64, attempt: u64, interval: u64) {
    let report = json!({"epoch": EPOCH, "interval_seconds": interval});
    answer(image, version, &json!({"rollout": rollout, "attempt": attempt, "report": report}));
}

fn answer(image: &Image, version: &str, fleet: &Value) {
    let mut body = Find::version(version).to_json(Dialect::Rfd);
    body["fleet"] = fleet.clone();
    image.cluster.set_find_body(Some(body.to_string().as_bytes()));
}

impl Reported {
    /// Looks at the reports since the last look, each well signed and numbered upwards: their last changes have these outcomes (`none`: no
    /// change), and an error is a line that names no address. `keys COUNT`: so many keys have signed them. `report NUMBER KEY=VALUE…`.
    pub(super) fn look(&mut self, image: &Image, verb: &str, words: &[&str]) {
        match (verb, words) {
            ("reports", outcomes) => {
                let posts = image.cluster.requests_to(PATH);
                let asked = image.cluster.requests_to("/v1/webapi/find").pop();
                image.cluster.forget_requests();
                let known = self.last.pop();
                self.last = posts.iter().map(|post| serde_json::to_value(signed(post)).unwrap()).collect();
                self.keys.extend(posts.iter().map(|post| key(post).to_string()));
                let sequences = known.iter().chain(&self.last).map(|report| report["sequence"].as_u64());
                assert!(sequences.is_sorted_by(|one, next| one < next), "{:#?}", self.last);
                let outcome = |report: &Value| report["last"]["outcome"].as_str().unwrap_or("none").to_owned();
                assert_eq!(self.last.iter().map(outcome).collect::<Vec<_>>(), outcomes, "{:#?}", self.last);
                for report in &self.last {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let (code, error) = (text(&report["last"]["code"]), text(&report["last"]["error"]));
                    let is_told =
                        error.lines().count() == 1 && !["localhost", "://"].iter().any(|part| error.contains(part));
                    assert!(code.is_empty() || is_told, "{report:#}");
                    let id = asked.as_ref().and_then(|asked| asked.parameter("update_id"));
                    assert!(id.is_none_or(|id| report["update_id"] == id && id.len() == HOST.len()), "{report:#}");
                }
            }
            ("keys", [count]) => assert_eq!(self.keys.len().to_string(), *count),
            ("report", [number, wanted @ ..]) => {
                super::files::holds(&self.last[number.parse::<usize>().unwrap()], wanted)
            }
            _ => panic!("no such look: {verb} {words:?}"),
        }
    }
}

/// The report in `request`, whose signature is checked.
#[track_caller]
fn signed(request: &Request) -> Report {
    assert_eq!((request.method.as_str(), request.header("content-type")), ("POST", Some("application/json")));
    assert_eq!(request.header(QUESTION_HEADER), None);
    let SignedReport { key, signature } = request.header(SIGNATURE_HEADER).unwrap().parse().unwrap();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, key.0)
        .verify(&report_message(&request.body), &signature)
        .unwrap();
    serde_json::from_slice(&request.body).unwrap()
}

/// The public key of a report.
pub(crate) fn key(post: &Request) -> protocol::report::Key {
    post.header(SIGNATURE_HEADER).unwrap().parse::<SignedReport>().unwrap().key
}

/// The signed question in `request`, if it has one; its signature is checked.
#[track_caller]
pub(crate) fn question(request: &Request) -> Option<SignedQuestion> {
    let signed: SignedQuestion = request.header(QUESTION_HEADER)?.parse().unwrap();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, signed.key.0)
        .verify(&question_message(HOST, signed.epoch, signed.number), &signed.signature)
        .unwrap();
    Some(signed)
}
