//! The agent's life: open the database, become ready, reload, end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::Arguments;
use crate::database::{self, Writer};
use crate::identity::{Behaviour, Identity};
use crate::pid_file;
use crate::readyz::Readyz;
use crate::reload::{self, Successor};

/// What wakes the agent.
#[derive(Debug)]
pub(crate) enum Event {
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    End,
    /// The successor has taken over.
    SuccessorReady(u64),
    /// The successor died before it was ready.
    SuccessorGone(u64),
}

/// Runs `start` to its end.
pub(crate) fn run(program: &str, identity: &Identity, arguments: &Arguments) -> ExitCode {
    if identity.behaviour == Behaviour::ExitAtOnce {
        eprintln!("ERROR: this version exits at once");
        return ExitCode::FAILURE;
    }
    // Before anything else: a signal that comes during the migration is kept, and does not kill.
    let (sender, events) = channel();
    watch_signals(sender.clone());
    match Agent::start(program, identity, arguments, sender) {
        Ok(agent) => agent.live(&events),
        Err(error) => {
            eprintln!("ERROR: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Agent<'a> {
    program: &'a str,
    identity: &'a Identity,
    arguments: &'a Arguments,
    connection: Connection,
    writer: Option<Writer>,
    ready: Arc<AtomicBool>,
    readyz: Option<Readyz>,
    successor: Option<Successor>,
    reloads: u64,
    ready_at: Option<Instant>,
    dies_at: Option<Instant>,
    sender: Sender<Event>,
}

impl<'a> Agent<'a> {
    fn start(
        program: &'a str,
        identity: &'a Identity,
        arguments: &'a Arguments,
        sender: Sender<Event>,
    ) -> Result<Self, String> {
        let path = arguments.database();
        let connection = database::open(&path, identity)?;
        match identity.behaviour {
            Behaviour::CorruptsSchema => {
                database::spoil_schema(&connection)?;
                return Err("this version has spoilt the schema".to_owned());
            }
            Behaviour::CorruptsFile => {
                database::spoil_file(connection, &path).map_err(|error| error.to_string())?;
                return Err("this version has spoilt the database file".to_owned());
            }
            _ => {}
        }
        if let Some(word) = identity.refuses.as_ref().filter(|word| arguments.configuration.contains(*word)) {
            return Err(format!("this version does not know {word:?}, which stands in the configuration"));
        }
        write_host_uuid(&arguments.data_dir.join("host_uuid"))?;
        let ready = Arc::new(AtomicBool::new(false));
        let mut agent = Self {
            program,
            identity,
            arguments,
            connection,
            writer: None,
            ready,
            readyz: None,
            successor: None,
            reloads: 0,
            ready_at: ready_after(identity.behaviour).map(|wait| Instant::now() + wait),
            dies_at: None,
            sender,
        };
        agent.serve()?;
        if identity.writes() {
            let acked = arguments.data_dir.join("acked.log");
            agent.writer = Some(Writer::start(&path, &acked, identity));
        }
        Ok(agent)
    }

    fn live(mut self, events: &Receiver<Event>) -> ExitCode {
        loop {
            match next(events, self.ready_at.or(self.dies_at)) {
                None if self.ready_at.take().is_some() => {
                    if let Err(error) = self.become_ready() {
                        eprintln!("ERROR: {error}");
                        return ExitCode::FAILURE;
                    }
                }
                None => {
                    eprintln!("ERROR: this version dies now");
                    return ExitCode::FAILURE;
                }
                Some(Event::End) if self.identity.behaviour == Behaviour::IgnoresTerm => {}
                Some(Event::End) => return self.end(),
                Some(Event::Reload) if self.identity.behaviour == Behaviour::HangsOnReload => {}
                Some(Event::Reload) => self.reload(),
                Some(Event::SuccessorReady(number)) if self.awaits(number) => {
                    // The successor lives on, and must not be ended with this process.
                    self.successor = None;
                    return self.end();
                }
                Some(Event::SuccessorGone(number)) if self.awaits(number) => self.go_on(),
                Some(Event::SuccessorReady(_) | Event::SuccessorGone(_)) => {}
            }
        }
    }

    fn become_ready(&mut self) -> std::io::Result<()> {
        self.ready.store(true, Ordering::SeqCst);
        // The pid file comes before the parent's end: systemd reads there who the main process is now.
        if let Some(path) = &self.arguments.pid_file {
            pid_file::write(path)?;
        }
        reload::tell_parent();
        self.dies_at = dies_after(self.identity.behaviour).map(|wait| Instant::now() + wait);
        println!("ready: Teleport v{} pid {}", self.identity.version, std::process::id());
        Ok(())
    }

    fn reload(&mut self) {
        // A second reload takes the place of one that never came to its end.
        if let Some(stuck) = self.successor.take() {
            stuck.end();
        }
        self.reloads += 1;
        match Successor::start(self.program, &self.arguments.words, self.reloads, self.sender.clone()) {
            Ok(successor) => self.successor = Some(successor),
            Err(error) => eprintln!("ERROR: cannot start {}: {error}", self.program),
        }
    }

    fn awaits(&self, number: u64) -> bool {
        self.successor.as_ref().is_some_and(|successor| successor.number() == number)
    }

    /// After the death of a successor, which may have taken the socket already.
    fn go_on(&mut self) {
        eprintln!("ERROR: the new process died, the old one goes on");
        if let Some(successor) = self.successor.take() {
            successor.end();
        }
        if self.readyz.as_ref().is_some_and(|readyz| !readyz.is_current())
            && let Err(error) = self.serve()
        {
            eprintln!("ERROR: {error}");
        }
    }

    fn serve(&mut self) -> Result<(), String> {
        if self.identity.behaviour != Behaviour::NoSocket {
            let path = self.arguments.socket();
            let served = Readyz::serve(&path, &self.ready);
            self.readyz = Some(served.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        Ok(())
    }

    fn end(self) -> ExitCode {
        if let Some(successor) = self.successor {
            successor.end();
        }
        if let Some(writer) = self.writer {
            writer.stop();
        }
        drop(self.connection);
        if let Some(readyz) = &self.readyz {
            readyz.remove_own();
        }
        if let Some(path) = &self.arguments.pid_file {
            pid_file::remove_own(path);
        }
        ExitCode::SUCCESS
    }
}

fn next(events: &Receiver<Event>, deadline: Option<Instant>) -> Option<Event> {
    match deadline {
        None => events.recv().ok(),
        Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok(),
    }
}

fn ready_after(behaviour: Behaviour) -> Option<Duration> {
    match behaviour {
        Behaviour::NeverReady => None,
        Behaviour::SlowStart => Some(Duration::from_secs(3)),
        _ => Some(Duration::ZERO),
    }
}

fn dies_after(behaviour: Behaviour) -> Option<Duration> {
    match behaviour {
        Behaviour::CrashLoop => Some(Duration::from_secs(1)),
        Behaviour::DiesSoon => Some(Duration::from_millis(30)),
        Behaviour::ReadyThenDies => Some(Duration::from_secs(8)),
        Behaviour::DiesAfterTen => Some(Duration::from_secs(10)),
        _ => None,
    }
}

fn watch_signals(sender: Sender<Event>) {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).expect("these signals can be caught");
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let _ = sender.send(if signal == SIGHUP { Event::Reload } else { Event::End });
        }
    });
}

fn write_host_uuid(path: &Path) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    let source = PathBuf::from("/proc/sys/kernel/random/uuid");
    std::fs::read_to_string(&source)
        .and_then(|uuid| std::fs::write(path, uuid.trim()))
        .map_err(|error| format!("{}: {error}", path.display()))
}
