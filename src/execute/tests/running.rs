//! Steps and their undo beside processes, and with commands that start and stop the agent.

use super::super::steps;
use super::*;
use crate::database::backup::DATABASE_FILE;
use crate::database::directory;

fn unserved(bed: &Bed) -> Plan {
    Plan { service: ServiceAction::None, ..plan(vec![snapshot(false, "1.0.0"), bed.switch()]) }
}

#[test]
fn an_undo_waits_for_agents_that_write_into_what_it_would_put_back() {
    let keep = Database::Keep;
    // Which agents run, and until which of them have ended the undo waits; then the rows are the old ones, or still in use.
    for (agents, database, waits_for, is_in_use) in [
        (&["1.0.0"][..], keep, None, true),
        (&["1.0.0", "2.0.0"], keep, Some("2.0.0"), true),
        (&["2.0.0"], keep, Some("2.0.0"), false),
        (&["1.0.0"], Database::Restore, Some("1.0.0"), false),
    ] {
        let bed = Bed::new();
        write_rows(&bed.db(), &["one"]);
        let journal = bed.kill(&Plan { database, ..unserved(&bed) }, || write_rows(&bed.db(), &["later"]));
        let mut running: Vec<_> = agents.iter().map(|version| (*version, bed.start_agent(version))).collect();
        let first = recovery::run(&bed.site(), journal, &mut |_| {});
        if let Some(version) = waits_for {
            assert_eq!((first.unwrap_err().code, rows(&bed.db()).len()), (Code::RecoveryFailed, 2), "{agents:?}");
            running.retain(|(running, _)| *running != version);
            let journal = bed.reopen().unwrap();
            assert!(journal.has(&Record::Recover));
            bed.recover();
        } else {
            assert_eq!(first.unwrap(), Recovered::Undone);
        }
        assert_eq!(rows(&bed.db()), if is_in_use { &["one", "later"][..] } else { &["one"] }, "{agents:?}");
        assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"));
    }
}

/// The old agent runs on behind a version that ended: with the schema that it knows it is not even stopped.
#[test]
fn an_undo_stops_no_old_agent_whose_database_the_new_version_has_not_migrated() {
    for is_migrated in [false, true] {
        let bed = Bed::new();
        let service = Recorder::of(&bed);
        write_rows(&bed.db(), &["one"]);
        let switch = vec![Step::RecordAgent { running: true }, snapshot(false, "1.0.0"), bed.switch(), Step::Reload];
        let _agent = service.agent(&bed, "1.0.0");
        let journal = {
            let plan = plan(switch);
            let mut journal = bed.begin(&plan);
            assert!(super::super::switch(&service.site(&bed), &plan, &mut journal).is_ok());
            write_rows(&bed.db(), &["later"]);
            if is_migrated {
                Connection::open(bed.db()).unwrap().execute_batch("ALTER TABLE t ADD COLUMN y").unwrap();
            }
            bed.reopen().unwrap()
        };
        assert_eq!(service.called(), ["reload"]);
        let recovered = recovery::run(&service.site(&bed), journal, &mut |_| {});
        if is_migrated {
            // Its stop is only written down here, so it goes on.
            recovered.unwrap_err();
            assert_eq!(service.called(), ["stop"]);
        } else {
            assert_eq!((recovered.unwrap(), service.called()), (Recovered::Undone, Vec::new()));
            assert_eq!(rows(&bed.db()), ["one", "later"], "it has gone on with them");
            assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"));
        }
    }
}

/// A service whose commands only write down that they were run.
struct Recorder {
    log: PathBuf,
    service: Service,
}

impl Recorder {
    fn of(bed: &Bed) -> Self {
        let log = bed.layout.root.join("called");
        let line = |what: &str| format!("echo {what} >>{}", log.display());
        let service = bed.commands(&line("start"), &line("stop"), Some(line("reload")));
        Self { log, service }
    }

    fn site<'a>(&self, bed: &'a Bed) -> Site<'a> {
        Site { service: self.service.clone(), ..bed.site() }
    }

    /// The commands that were run since the last look.
    fn called(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        durable::remove_file(&self.log).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The agent of a version, with its pid file.
    fn agent(&self, bed: &Bed, version: &str) -> Child {
        let agent = bed.start_agent(version);
        durable::write(&bed.layout.root.join("pid"), agent.0.id().to_string().as_bytes(), 0o644).unwrap();
        agent
    }
}

#[test]
fn the_agent_is_brought_back_only_where_it_ran_before_and_runs_no_more() {
    let bed = Bed::new();
    let service = Recorder::of(&bed);
    let mut journal = bed.begin(&plan(Vec::new()));
    let mut hold = |running, boot| {
        let site = Site { boot, ..service.site(&bed) };
        steps::undo(&site, &Step::RecordAgent { running }, &mut journal).unwrap();
        service.called()
    };
    assert_eq!(hold(true, false), ["start"]);
    assert_eq!(hold(false, false), [""; 0]);
    assert_eq!(hold(true, true), [""; 0]);
    let _agent = service.agent(&bed, "1.0.0");
    assert_eq!(hold(true, false), [""; 0]);
}

/// Whether it ran before the run, or somebody has started it since, when the links led to the new version.
#[test]
fn an_undo_stops_the_agent_first_and_brings_it_back_and_a_boot_does_neither() {
    for (running, at_boot) in [(true, false), (true, true), (false, false), (false, true)] {
        let bed = Bed::new();
        let service = Recorder::of(&bed);
        write_rows(&bed.db(), &["one"]);
        let action = if running { ServiceAction::Reload } else { ServiceAction::None };
        let switch = vec![Step::RecordAgent { running }, snapshot(false, "1.0.0"), bed.switch()];
        let journal = bed.kill(&Plan { service: action, ..plan(switch) }, || write_rows(&bed.db(), &["new"]));
        let agent = service.agent(&bed, "2.0.0");
        // Its end is the undo's second try: what the first one has seen stands in the journal.
        let error = recovery::run(&service.site(&bed), journal, &mut |_| panic!("undone")).unwrap_err();
        assert_eq!((error.code, service.called()), (Code::RecoveryFailed, vec!["stop".to_owned()]));
        let site = Site { boot: at_boot, ..service.site(&bed) };
        if at_boot {
            // Nothing is called, and it is proven all the same.
            recovery::run(&site, bed.reopen().unwrap(), &mut |_| panic!("undone")).unwrap_err();
            assert_eq!(service.called(), [""; 0]);
        }
        assert_eq!(rows(&bed.db()), ["one", "new"]);
        drop(agent);
        bed.recover_at(&site);
        assert_eq!(service.called(), if at_boot { &[][..] } else { &["stop", "start"] }, "{running} {at_boot}");
        assert_eq!(rows(&bed.db()), ["one"]);
    }
}

/// Until the undo can go on any agent is better than none, except a new version on the only copy of the old one's rows.
#[test]
fn while_an_undo_waits_the_agent_runs_unless_it_would_write_into_the_only_copy() {
    for (is_new, is_only_copy, expected) in
        [(false, false, true), (false, true, true), (true, false, true), (true, true, false)]
    {
        for (running, started) in [(true, false), (false, true), (false, false)] {
            let bed = Bed::new();
            let service = Recorder::of(&bed);
            let switch = vec![Step::RecordAgent { running }, snapshot(false, "1.0.0"), bed.switch()];
            let mut journal = bed.begin(&plan(switch));
            if started {
                let note = Note { started, ..Note::default() };
                journal.append(Record::Done { step: 0, note }).unwrap();
            }
            write_rows(&bed.db(), &["one"]);
            let taken = directory::of(&bed.version("1.0.0"));
            durable::create_dir_all(&taken).unwrap();
            let copy = taken.join(DATABASE_FILE);
            if is_only_copy {
                std::fs::hard_link(bed.db(), copy).unwrap();
            } else {
                std::fs::copy(bed.db(), copy).unwrap();
            }
            if is_new {
                durable::remove_file(&bed.agent()).unwrap();
                durable::symlink(&bed.target("2.0.0"), &bed.agent()).unwrap();
            }
            steps::start_meanwhile(&service.site(&bed), &journal);
            let is_started = service.called() == ["start"];
            assert_eq!(is_started, expected && (running || started), "{is_new} {is_only_copy} {running} {started}");
            steps::start_meanwhile(&Site { boot: true, ..service.site(&bed) }, &journal);
            assert_eq!(service.called(), [""; 0], "a boot starts it by itself");
        }
    }
}

#[test]
fn only_a_reload_remembers_the_process_that_it_is_judged_by() {
    let bed = Bed::new();
    let service = Recorder::of(&bed);
    let site = service.site(&bed);
    let steps = plan(Vec::new());
    let agent = service.agent(&bed, "1.0.0");
    steps::perform(&site, &steps, &Step::Reload).unwrap();
    assert_eq!(
        (site.before_reload.get().map(|old| old.id.pid), service.called()),
        (Some(agent.0.id()), vec!["reload".to_owned()])
    );
    let error = steps::perform(&site, &steps, &Step::Stop).unwrap_err();
    assert_eq!((error.code, service.called()), (Code::AgentNotStopped, vec!["stop".to_owned()]));
    drop(agent);
    steps::perform(&site, &steps, &Step::Reload).unwrap();
    assert_eq!((site.before_reload.get(), service.called()), (None, vec!["stop".to_owned(), "start".to_owned()]));
    steps::perform(&site, &steps, &Step::Stop).unwrap();
    steps::perform(&site, &steps, &Step::Start).unwrap();
    assert_eq!(service.called(), ["stop", "start"]);
}

#[test]
fn an_agent_that_a_packages_scripts_stopped_is_started_again() {
    let mut bed = Bed::new();
    let service = Recorder::of(&bed);
    let pid_file = bed.layout.root.join("pid");
    // A host and no image: what is asked of systemd there is not asked here.
    bed.layout.root = "/".into();
    let reassert = |running| {
        let step = Step::Reassert { enabled: false, running, places: Vec::new() };
        steps::perform(&service.site(&bed), &plan(Vec::new()), &step).unwrap();
        service.called()
    };
    assert_eq!(reassert(true), ["start"]);
    assert_eq!(reassert(false), [""; 0]);
    let binary = bed.version("1.0.0").join("bin/teleport");
    durable::copy_synced(Path::new("/usr/bin/tail"), &binary, 0o755).unwrap();
    let agent = Child::start_with(&binary, &["start", "-f", "/dev/null"], None);
    durable::write(&pid_file, agent.0.id().to_string().as_bytes(), 0o644).unwrap();
    assert_eq!(reassert(true), [""; 0]);
    let unserved = Step::Reassert { enabled: false, running: true, places: Vec::new() };
    drop(agent);
    steps::perform(&bed.site(), &plan(Vec::new()), &unserved).unwrap();
}

#[test]
fn what_a_boot_starts_by_itself_is_not_started_by_an_undo() {
    let bed = Bed::new();
    let mut journal = bed.begin(&plan(Vec::new()));
    let stop_timer = Step::StopTimer { unit: "no-such.timer".into() };
    steps::undo(&Site { boot: true, ..bed.site() }, &stop_timer, &mut journal).unwrap();
    // An image has no manager that could start it.
    steps::undo(&bed.site(), &stop_timer, &mut journal).unwrap_err();
}
