//! The flows with an agent that lives.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::cell::{Cell, PID_FILE, SOON, START, until};
use super::flow::{End, Flow, succeeds, text};
use super::rows;
use super::whole::Theirs;
use crate::cluster::agent_program;
use crate::cluster::archive::Archive;
use crate::cluster::directive::{Dialect, Find};
use crate::cluster::server::Cluster;
use crate::crash::flow::Found;
use crate::crash::host::{Updater, scratch, words};
use crate::crash::tree::tree;

/// Every flow.
pub const NAMES: [&str; 16] = [
    "live-up",
    "live-down",
    "live-exits",
    "live-damages",
    "live-file",
    "live-dies",
    "live-never-ready",
    "live-fall",
    "live-way-back",
    "live-stranger",
    "live-rollback",
    "live-uninstall",
    "live-script",
    "report-up",
    "report-down",
    "report-exits",
];
/// Those of them whose server asks for reports: one that makes the host's key, one that has it, and one that fails.
pub const REPORTS: [&str; 3] = ["report-up", "report-down", "report-exits"];

/// How an agent writes hard: fields of the toy agent's trailer, and their values.
type Writes = &'static [(&'static str, &'static str)];

/// Ways to write hard. Between long transactions there is room for a successor, which waits for its turn to migrate.
pub const WRITERS: [(&str, Writes); 4] = [
    ("writer-wal", &[("pace_ms", "0")]),
    ("writer-journal", &[("pace_ms", "1"), ("journal", "\"delete\"")]),
    ("writer-wal-long", &[("pace_ms", "20"), ("transaction_ms", "300")]),
    ("writer-journal-long", &[("pace_ms", "20"), ("transaction_ms", "300"), ("journal", "\"delete\"")]),
];

/// A flow whose agent writes in that way: an upgrade ([`End::New`]), one that fails ([`End::Old`]), a downgrade.
///
/// # Errors
/// Its host cannot be made.
///
/// # Panics
/// If there is no such way.
pub fn writer(way: &str, end: End, updater: &Updater) -> Result<Flow, String> {
    let (name, fields) = WRITERS.into_iter().find(|(known, _)| *known == way).expect("a way of that name");
    let written = |number| {
        fields.iter().fold(version(number), |archive, (key, value)| {
            archive.trailer_field(key, serde_json::from_str(value).expect("the value is JSON"))
        })
    };
    if end == End::Either {
        let scene = Scene::on_second(updater, &written(1), &written(2))?;
        scene.cluster.set_directive(Find::version("1.0.0"));
        let flow = scene.flow(name, "update --now", "2.0.0", Some("1.0.0"), End::New);
        return Ok(Flow { restores: true, ..flow });
    }
    let mut scene = Scene::on(updater, &settings("10s", "0s"), &written(1))?;
    scene.release(&if end == End::Old { written(2).behaviour("dies-soon") } else { written(2) });
    Ok(scene.flow(name, "update --now", "1.0.0", Some("2.0.0"), end))
}

/// The deadline where a version falls in its watch: so long each try waits for another process of it.
const FALL: &str = "4s";
/// The watch of a version that falls in it: longer than all flows of a template take, or the fall would be past.
const WATCH: &str = "12h";
/// What another agent says it is: newer than our 1.0.0.
const THEIRS: &str = "1.5.0";

/// A script that installs: another program in the place of the link, and the agent reloads.
const COPY: &str = "#!/bin/sh\nset -e\ncp /opt/$VERSION /usr/local/bin/.new\nmv /usr/local/bin/.new /usr/local/bin/teleport\n\
                    kill -HUP $(cat /run/teleport.pid)\n";

/// Milliseconds between two rows of the agent.
const PACE: u64 = 5;

/// Verdicts as fast as they can be. A bad version is judged by its death or, at the latest, by `deadline`.
pub fn settings(deadline: &str, watch: &str) -> String {
    let health = format!("    stable: 60ms\n    without_readiness: 500ms\n    deadline: {deadline}\n");
    let stop = format!("p=$(cat {PID_FILE}) && kill $p; rm -f {PID_FILE}");
    let service = format!(
        "    start: \"{START}\"\n    stop: \"{stop}\"\n    reload: \"kill -HUP $(cat {PID_FILE})\"\n    pid_file: {PID_FILE}\n"
    );
    format!("version: v1\nkind: agent_versions\nspec:\n  watch: {watch}\n  health:\n{health}  service:\n{service}")
}

/// The flow called `name`.
///
/// # Errors
/// Its host cannot be made.
///
/// # Panics
/// If there is none of that name.
pub fn flow(name: &str, updater: &Updater) -> Result<Flow, String> {
    let name = NAMES.into_iter().find(|known| *known == name).expect("a flow of that name");
    let broken = |behaviour| {
        let mut scene = Scene::on_one(updater, &settings("1500ms", "0s"))?;
        scene.release(&version(2).behaviour(behaviour));
        Ok::<_, String>(scene.flow(name, "update --now", "1.0.0", Some("2.0.0"), End::Old))
    };
    Ok(match name {
        "live-up" => {
            let mut scene = Scene::on_one(updater, &settings("10s", "0s"))?;
            scene.release(&version(2));
            scene.flow(name, "update --now", "1.0.0", Some("2.0.0"), End::New)
        }
        "live-down" => {
            let scene = Scene::on_two(updater)?;
            scene.cluster.set_directive(Find::version("1.0.0"));
            Flow { restores: true, ..scene.flow(name, "update --now", "2.0.0", Some("1.0.0"), End::New) }
        }
        "live-exits" => broken("exit-at-once")?,
        "live-damages" => broken("corrupts-schema")?,
        "live-file" => broken("corrupts-file")?,
        "live-dies" => broken("dies-soon")?,
        "live-never-ready" => broken("never-ready")?,
        "live-fall" => {
            let mut scene = Scene::on_one(updater, &settings(FALL, WATCH))?;
            scene.release(&version(2).behaviour("crash-loop"));
            scene.fall("update --now")?;
            let flow = scene.flow(name, "update", "2.0.0", Some("1.0.0"), End::New);
            Flow { restores: true, fallen: true, ..flow }
        }
        "live-way-back" => {
            let mut scene = Scene::fresh(updater, &settings(FALL, WATCH), &version(2).behaviour("crash-loop"))?;
            let theirs = scene.theirs(None)?;
            scene.fall(&scene.enable())?;
            let flow = scene.flow(name, "update", "2.0.0", None, End::New);
            Flow { restores: true, fallen: true, theirs: Some((Found::New, theirs)), ..flow }
        }
        "live-stranger" => {
            let mut scene = Scene::on_one(updater, &settings("1500ms", "0s"))?;
            scene.release(&version(2).behaviour("corrupts-schema"));
            let theirs = scene.theirs(Some("1.0.0"))?;
            let flow = scene.flow(name, "update --now", "1.0.0", Some("2.0.0"), End::Old);
            Flow { theirs: Some((Found::Old, theirs)), ..flow }
        }
        "live-rollback" => {
            let flow = Scene::on_two(updater)?.flow(name, "rollback", "2.0.0", Some("1.0.0"), End::Either);
            Flow { restores: true, ..flow }
        }
        "live-script" => {
            let mut scene = Scene::on_one(updater, &settings("10s", "0s"))?;
            let theirs = scene.script()?;
            let flow = scene.flow(name, "update --now", "1.0.0", Some("2.0.0"), End::New);
            Flow { next: "update --now", by_script: true, theirs: Some((Found::New, theirs)), ..flow }
        }
        "report-up" | "report-down" | "report-exits" => reporting(name, updater)?,
        _ => {
            let flow = Scene::on_two(updater)?.flow(name, "uninstall --force", "2.0.0", None, End::Either);
            Flow { next: "recover", ..flow }
        }
    })
}

/// The flow called `name` of those whose server asks for reports.
fn reporting(name: &'static str, updater: &Updater) -> Result<Flow, String> {
    if name == "report-down" {
        let mut scene = Scene::on_two(updater)?;
        scene.ask_for_reports("2.0.0");
        scene.live(|cell| {
            cell.start_agent()?;
            succeeds(cell, "update")?;
            super::flow::reported(cell)
        })?;
        scene.ask_for_reports("1.0.0");
        return Ok(Flow { restores: true, ..scene.flow(name, "update --now", "2.0.0", Some("1.0.0"), End::New) });
    }
    let (deadline, behaviour, end) =
        if name == "report-up" { ("10s", "healthy", End::New) } else { ("1500ms", "exit-at-once", End::Old) };
    let mut scene = Scene::on_one(updater, &settings(deadline, "0s"))?;
    scene.release(&version(2).behaviour(behaviour));
    scene.ask_for_reports("2.0.0");
    Ok(scene.flow(name, "update --now", "1.0.0", Some("2.0.0"), end))
}

/// A release of the toy agent that writes, with a schema of its own; with one helper, as the copies are many.
pub fn version(number: i64) -> Archive {
    let archive = Archive::simple(&format!("{number}.0.0")).schema(number).writes();
    let archive = ["tctl", "tbot", "fdpass-teleport"].into_iter().fold(archive, Archive::without_helper);
    archive.trailer_field("pace_ms", PACE.into())
}

/// A host in the making.
pub struct Scene {
    /// Its files.
    pub files: TempDir,
    /// The cluster's files.
    pub releases: TempDir,
    /// The cluster.
    pub cluster: Cluster,
    /// The updater.
    pub updater: Updater,
}

impl Scene {
    /// 1.0.0 is active, and has written some rows.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn on_one(updater: &Updater, settings: &str) -> Result<Self, String> {
        Self::on(updater, settings, &version(1))
    }

    /// The same with another first release.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn on(updater: &Updater, settings: &str, first: &Archive) -> Result<Self, String> {
        let mut scene = Self::fresh(updater, settings, first)?;
        let enable = scene.enable();
        scene.live(|cell| {
            succeeds(cell, &enable)?;
            cell.start_agent()?;
            written(cell)
        })?;
        Ok(scene)
    }

    /// Nobody was here yet; `first` is released.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn fresh(updater: &Updater, settings: &str, first: &Archive) -> Result<Self, String> {
        let files = Cell::skeleton().map_err(text)?;
        // Not among the files that a cell is made of.
        let releases = scratch().map_err(text)?;
        let cluster = Cluster::start(releases.path());
        let mut scene = Self { files, releases, cluster, updater: updater.clone() };
        let root = scene.files.path().join("root");
        std::fs::write(root.join("root/ca.pem"), scene.cluster.ca_pem()).map_err(text)?;
        let versions = root.join(rows::VERSIONS.trim_start_matches('/'));
        std::fs::create_dir_all(&versions).map_err(text)?;
        std::fs::write(versions.join("updates.yaml"), settings).map_err(text)?;
        scene.release(first);
        Ok(scene)
    }

    /// The command line that enables against this cluster.
    pub fn enable(&self) -> String {
        let (addr, base) = (self.cluster.addr(), self.cluster.base_url());
        format!("enable --proxy {addr} --base-url {base} --ca-file /root/ca.pem")
    }

    /// 2.0.0 is active after 1.0.0, and both have written.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn on_two(updater: &Updater) -> Result<Self, String> {
        Self::on_second(updater, &version(1), &version(2))
    }

    /// The same with other releases.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn on_second(updater: &Updater, first: &Archive, second: &Archive) -> Result<Self, String> {
        let mut scene = Self::on(updater, &settings("10s", "0s"), first)?;
        scene.release(second);
        scene.live(|cell| {
            cell.start_agent()?;
            succeeds(cell, "update --now")?;
            written(cell)
        })?;
        Ok(scene)
    }

    /// Publishes `archive`, and lets the cluster name it.
    pub fn release(&mut self, archive: &Archive) {
        self.cluster.publish(archive);
        self.cluster.set_directive(Find::version(archive.version()));
    }

    /// The cluster is a rollout server from now on: it names `version` in a rollout, asks for reports, and takes them.
    pub fn ask_for_reports(&self, version: &str) {
        self.answer(
            version,
            json!({ "rollout": 1, "attempt": 1, "report": { "epoch": 7, "interval_seconds": 86_400 } }),
        );
        self.cluster.set_page("/v1/webapi/agents/report", &[(200, "{}")]);
    }

    fn answer(&self, version: &str, fleet: Value) {
        let mut answer = Find::version(version).to_json(Dialect::Rfd);
        answer["fleet"] = fleet;
        self.cluster.set_find_body(Some(answer.to_string().as_bytes()));
    }

    /// The host has a script that puts 2.0.0 in the place of our link, and the cluster has it run. What is there when it has.
    fn script(&mut self) -> Result<Theirs, String> {
        let root = self.files.path().join("root");
        let scripts = root.join("etc/teleport-update/installers");
        std::fs::create_dir_all(&scripts).map_err(text)?;
        for (path, bytes) in [(scripts.join("copy"), COPY.as_bytes()), (root.join("opt/2.0.0"), &program("2.0.0", 2))] {
            std::fs::write(&path, bytes).map_err(text)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(text)?;
        }
        self.live(|cell| succeeds(cell, "enable --installers update,local-script/copy").map(|_| ()))?;
        let order = json!({ "kind": "local-script", "name": "copy", "env": { "VERSION": "2.0.0" } });
        self.answer("2.0.0", json!({ "installer": order }));
        let cell = Cell::copy_of(self.files.path(), &self.updater).map_err(text)?;
        cell.start_agent()?;
        succeeds(&cell, "update --now")?;
        let local = tree(&cell.path("/usr/local")).map_err(text)?;
        Ok(Theirs { version: "2.0.0", active: Some("2.0.0"), local })
    }

    /// Does something in a cell; the agent is stopped after it, and the files are as that left them.
    ///
    /// # Errors
    /// What was done failed.
    pub fn live(&mut self, work: impl FnOnce(&Cell) -> Result<(), String>) -> Result<(), String> {
        let cell = Cell::copy_of(self.files.path(), &self.updater).map_err(text)?;
        work(&cell)?;
        if let Some(pid) = cell.agent() {
            cell.sh(&format!("kill {pid}")).map_err(text)?;
            until(SOON, || cell.agents().is_empty()).map_err(|_| "the agent does not stop")?;
        }
        self.replace(cell)
    }

    /// Does something in a cell, in which everything then dies at once.
    ///
    /// # Errors
    /// What was done failed.
    pub fn cut_short(&mut self, work: impl FnOnce(&Cell) -> Result<(), String>) -> Result<(), String> {
        let cell = Cell::copy_of(self.files.path(), &self.updater).map_err(text)?;
        work(&cell)?;
        self.replace(cell)
    }

    /// A package has put its agent in the place of our link, or it was there before us; it has written some rows. `active`
    /// is our version by the settings.
    fn theirs(&mut self, active: Option<&'static str>) -> Result<Theirs, String> {
        let local = self.files.path().join("local");
        let program = program(THEIRS, 1);
        let mut put: Vec<(&str, &[u8], u32)> = vec![("bin/teleport", &program, 0o755)];
        if active.is_none() {
            put.extend([
                ("bin/tctl", &b"theirs"[..], 0o750),
                ("lib/systemd/system/teleport.service", b"[Service]\n", 0o644),
            ]);
            std::os::unix::fs::symlink("/opt/theirs/tsh", local.join("bin/tsh")).map_err(text)?;
        }
        for (path, bytes, mode) in put {
            let path = local.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(text)?;
            // Not through our link.
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, bytes).map_err(text)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(text)?;
        }
        self.live(|cell| {
            cell.start_agent()?;
            written(cell)
        })?;
        Ok(Theirs { version: THEIRS, active, local: tree(&local).map_err(text)? })
    }

    /// The version that the command `line` brings was found healthy and committed; it dies, and so does the updater that
    /// watches it.
    fn fall(&mut self, line: &str) -> Result<(), String> {
        self.cut_short(|cell| {
            cell.start_agent()?;
            let run = cell.spawn(cell.updater(&words(line))).map_err(text)?;
            until(SOON, || run.said().is_ok_and(|said| said.contains("watching ")))
                .map_err(|_| format!("it is not watched: {:?}", run.said()))?;
            drop(run);
            until(SOON, || cell.agents().is_empty()).map_err(|_| "it does not die".to_owned())
        })
    }

    /// The files of the cell become the host's; the cluster's stay.
    fn replace(&mut self, cell: Cell) -> Result<(), String> {
        for part in ["root", "local"] {
            std::fs::remove_dir_all(self.files.path().join(part)).map_err(text)?;
        }
        cell.keep(self.files.path()).map_err(text)
    }

    /// The flow of a command on this host.
    pub fn flow(
        self,
        name: &'static str,
        line: &'static str,
        old: &'static str,
        new: Option<&'static str>,
        end: End,
    ) -> Flow {
        let (template, releases, cluster, updater) = (self.files, self.releases, self.cluster, self.updater);
        let (fallen, restores, by_script, theirs) = (false, false, false, None);
        let reports = REPORTS.contains(&name);
        Flow {
            name,
            template,
            releases,
            cluster,
            updater,
            line,
            next: "update",
            old,
            new,
            end,
            fallen,
            restores,
            reports,
            by_script,
            theirs,
        }
    }
}

/// An agent that no archive brings.
fn program(version: &str, schema: u32) -> Vec<u8> {
    let trailer =
        format!(r#"{{"version":"{version}","behaviour":"healthy","schema":{schema},"writes":true,"pace_ms":{PACE}}}"#);
    [&*agent_program(), format!("\nTOYAGENT {trailer}\n").as_bytes()].concat()
}

/// Waits until the agent has written some more rows.
fn written(cell: &Cell) -> Result<(), String> {
    let known = rows::acknowledged(cell).len();
    until(SOON, || rows::acknowledged(cell).len() > known + 5).map_err(|_| "the agent does not write".to_owned())
}
