//! A host in a cell that reports to a server which the test plays.

use protocol::report::{
    Change, Outcome, PATH, QUESTION_HEADER, Report, SIGNATURE_HEADER, SignedReport, report_message,
};
use testing::cluster::request::Request;
use testing::crash::live::cell::{Cell, Ran};
use testing::crash::live::flows::{Scene, settings, version};
use testing::crash::live::suite;

use crate::support::*;

/// The agent's id.
pub(super) const HOST: &str = "11111111-2222-4333-8444-555555555555";
/// Where the host keeps its key.
pub(super) const KEY: &str = "/var/lib/teleport/versions/.fleet-host";
/// The epoch of the server.
pub(super) const EPOCH: u64 = 7;

/// A host and its server.
pub(super) struct Reporting {
    /// The host's files as they were before, and the cluster.
    pub scene: Scene,
    /// The host.
    pub cell: Cell,
}

impl Reporting {
    /// A host with a running agent of 1.0.0, enabled against a server that asks for no reports; `None` where there are no cells.
    pub(super) fn on_one() -> Option<Self> {
        Self::with(&settings("1500ms", "0s"))
    }

    /// The same with these settings.
    pub(super) fn with(settings: &str) -> Option<Self> {
        if !suite::can() {
            return None;
        }
        let scene = Scene::on_one(&Updater::new(&updater()), settings).unwrap();
        let id = scene.files.path().join("root/var/lib/teleport/host_uuid");
        std::fs::write(id, HOST).unwrap();
        std::fs::write(scene.files.path().join("root/etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
        let cell = Cell::copy_of(scene.files.path(), &scene.updater).unwrap();
        cell.start_agent().unwrap();
        scene.cluster.forget_requests();
        scene.cluster.set_page(PATH, &[(200, "{}")]);
        Some(Self { scene, cell })
    }

    /// The server names `version` in this rollout and attempt, and asks for reports every `interval` seconds.
    pub(super) fn tell(&self, version: &str, rollout: u64, attempt: u32, interval: u32) {
        let report = json!({"epoch": EPOCH, "interval_seconds": interval});
        self.answer(version, &json!({"rollout": rollout, "attempt": attempt, "report": report}));
    }

    /// The server names `version`, with this `fleet`.
    pub(super) fn answer(&self, version: &str, fleet: &Value) {
        let mut body = Find::version(version).to_json(Dialect::Rfd);
        body["fleet"] = fleet.clone();
        self.scene.cluster.set_find_body(Some(body.to_string().as_bytes()));
    }

    /// A release of that number.
    pub(super) fn publish(&self, number: i64, behaviour: &str) -> Archive {
        let archive = version(number).behaviour(behaviour);
        self.scene.cluster.publish(&archive);
        archive
    }

    /// Runs the updater, which ends with `code`.
    #[track_caller]
    pub(super) fn run(&self, line: &str, code: i32) -> Ran {
        let ran = self.cell.run(line).unwrap();
        assert_eq!(ran.code, Some(code), "{ran:#?}");
        ran
    }

    /// The requests to the report's address since the last call of [`Reporting::reports`] or this; and forgets all others.
    pub(super) fn posts(&self) -> Vec<Request> {
        let posts = self.scene.cluster.requests_to(PATH);
        self.scene.cluster.forget_requests();
        posts
    }

    /// The reports since the last call, each with a good signature of the host's key, numbered upwards.
    #[track_caller]
    pub(super) fn reports(&self) -> Vec<Report> {
        let reports: Vec<Report> = self.posts().iter().map(signed).collect();
        assert!(reports.windows(2).all(|two| two[0].sequence < two[1].sequence), "{reports:#?}");
        reports
    }

    /// The key's file.
    pub(super) fn key(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.cell.path(KEY)).unwrap()).unwrap()
    }

    /// `status`.
    pub(super) fn status(&self) -> Value {
        let ran = self.run("status --format json", 0);
        serde_json::from_str(&ran.said[ran.said.find('{').unwrap()..]).unwrap()
    }
}

/// The report in `request`, whose signature is checked.
#[track_caller]
pub(super) fn signed(request: &Request) -> Report {
    assert_eq!((request.method.as_str(), request.header("content-type")), ("POST", Some("application/json")));
    assert_eq!(request.header(QUESTION_HEADER), None);
    let SignedReport { key, signature } = request.header(SIGNATURE_HEADER).unwrap().parse().unwrap();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, key.0)
        .verify(&report_message(&request.body), &signature)
        .unwrap();
    serde_json::from_slice(&request.body).unwrap()
}

/// The outcomes of the last changes.
pub(super) fn outcomes(reports: &[Report]) -> Vec<Option<Outcome>> {
    reports.iter().map(|report| report.last.as_ref().map(|last| last.outcome)).collect()
}

/// The last change of the last report.
#[track_caller]
pub(super) fn last(reports: &[Report]) -> Change {
    reports.last().and_then(|report| report.last.clone()).unwrap()
}
