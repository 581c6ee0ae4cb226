//! Nodes that share a store, hosts that ask and report, people that command, and what can go wrong: a model for stateright.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, RwLock};

use fleet_engine::command::Command;
use stateright::{Model, Property};

use crate::book::{Answer, Book, CAPS, Change, Clock, GROUPS, Input, START, TARGET, group_of};

/// How large, and what may happen.
pub(crate) struct Nodes {
    pub(crate) nodes: u8,
    /// Of both groups together.
    pub(crate) hosts: u8,
    /// Each is sent again and again, to any node, until it is answered.
    pub(crate) requests: Vec<Command>,
    pub(crate) crashes: u8,
    pub(crate) lost_replies: u8,
    /// Updates that fail.
    pub(crate) failures: u8,
    /// Reports that another node hears before the question is written in which their host was told.
    pub(crate) strays: u8,
    /// The clock of one node stands, as far as the others see: it is behind theirs.
    pub(crate) is_one_slow: bool,
    /// What a node heard is still heard when it does not know whether it was written; else it is lost.
    pub(crate) tries_again: bool,
    /// It may wait until all answers have ended that are good.
    pub(crate) waits: bool,
    pub(crate) plant: Plant,
    pub(crate) known: Known,
}

/// A fault of the protocol that has to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    Nothing,
    /// The store writes without a look at its position.
    NoCompare,
    /// Nobody looks whether a request's id is known.
    NoIds,
}

/// What a turn follows from: the version that it reads, what its node heard, a request, whether the clock stands.
type TurnKey = (Id, Vec<Input>, Option<u8>, Clock);

/// Each version of the store, and each turn, is computed once.
#[derive(Default)]
pub(crate) struct Known {
    versions: RwLock<HashMap<Id, Arc<Version>>>,
    answers: RwLock<HashMap<Answers, Arc<Vec<Answer>>>>,
    turns: RwLock<HashMap<TurnKey, Done>>,
    merged: RwLock<HashMap<(Id, Id, Id), Id>>,
}

/// Of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u64);

/// Of what hosts are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Answers(u64);

struct Version {
    book: Book,
    second: u8,
    answers: Answers,
    wrong: Option<Wrong>,
    /// Somebody started the second group, or called the first one done.
    is_open_by_hand: bool,
    /// The first group was done once.
    was_done: bool,
    /// See [`Book::awaited`].
    awaited: Vec<u8>,
}

/// What a turn comes to.
#[derive(Debug, Clone, Copy)]
enum Done {
    Nothing,
    Refused,
    Drafted(Id),
}

/// What must never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wrong {
    Cap,
    GateOrder,
    UnknownVersion,
    LostDecision,
    ActedTwice,
    ForgottenStop,
    SteppedTwice,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    store: Id,
    /// In order: which of them is which makes no difference.
    nodes: Vec<Node>,
    hosts: Vec<Host>,
    /// Requests that were answered, a bit for each.
    answered: u8,
    /// Groups that the store has as stopped by an operator, a bit for each.
    stopped: u8,
    /// All hosts of the first group really ran the target at one time.
    has_first_arrived: bool,
    crashes: u8,
    lost_replies: u8,
    failures: u8,
    strays: u8,
    clock: Clock,
    wrong: Option<Wrong>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Node {
    is_slow: bool,
    /// What it answers; `None`: it started or lost touch, and has confirmed nothing since. Nobody is told to update then.
    copy: Option<Copied>,
    /// It has taken over what the store has since a stop was answered.
    knows_stop: bool,
    heard: Vec<Input>,
    turn: Option<Turn>,
}

/// A node's copy, as far as hosts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Copied {
    answers: Answers,
    /// What a clock that stands says; of others, which say what the store's says, 0.
    second: u8,
    /// Hosts that were told to update since, a bit for each.
    told_since: u8,
}

/// Between its read and its write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Turn {
    base: Id,
    draft: Id,
    /// The store's position is the one that it read.
    is_current: bool,
    heard: Vec<Input>,
    request: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Host {
    runs: u8,
    changes: u8,
    /// It does not try this version again in this attempt of this rollout.
    refuses: Option<(u8, u8, u8)>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Rests,
    /// It was told to update, and has not ended.
    Updates {
        to: u8,
        rollout: u8,
        attempt: u8,
    },
    /// It ended, and nobody has its report.
    Ended(Change),
    /// It waits for the answer to its report.
    Reports(Change),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A host asks a node, and is told to update.
    Ask { node: u8, host: u8 },
    /// A host's update ended so, or did before, and it reports that to a node.
    Report { node: u8, host: u8, is_good: bool },
    /// A node reads, and computes its turn; with a request, where somebody sent it there.
    Read { node: u8, request: Option<u8> },
    /// The store takes a turn or refuses it, and the node hears which.
    Write { node: u8 },
    /// The same, and the node does not hear.
    WriteAndLoseReply { node: u8, is_kept: bool },
    /// A node takes over what others wrote.
    TakeOver { node: u8 },
    /// A node ends, and starts.
    Crash { node: u8 },
    /// So long that no answer is good any more that was before.
    Wait,
}

impl Nodes {
    pub(crate) fn new(nodes: u8, hosts: u8, requests: Vec<Command>) -> Self {
        let (plant, known) = (Plant::Nothing, Known::default());
        Self {
            nodes,
            hosts,
            requests,
            crashes: 1,
            lost_replies: 1,
            failures: 0,
            strays: 0,
            is_one_slow: false,
            tries_again: false,
            waits: false,
            plant,
            known,
        }
    }

    pub(crate) fn versions(&self) -> usize {
        self.known.versions.read().unwrap().len()
    }

    fn keep(&self, book: Book) -> Id {
        let id = Id(book.hash());
        if !self.known.versions.read().unwrap().contains_key(&id) {
            let (second, answers) = (book.second(), self.keep_answers(book.answers()));
            let (wrong, is_open_by_hand) = (self.look_at(&book), self.is_open_by_hand(&book));
            let first = book.state.rollout.iter().find_map(|rollout| rollout.groups.first());
            let was_done = first.is_some_and(|first| first.done_time.is_some());
            let awaited = book.awaited();
            let version = Arc::new(Version { book, second, answers, wrong, is_open_by_hand, was_done, awaited });
            self.known.versions.write().unwrap().insert(id, version);
        }
        id
    }

    fn keep_answers(&self, answers: Vec<Answer>) -> Answers {
        let mut hasher = DefaultHasher::new();
        answers.hash(&mut hasher);
        let id = Answers(hasher.finish());
        self.known.answers.write().unwrap().insert(id, Arc::new(answers));
        id
    }

    fn version(&self, id: Id) -> Arc<Version> {
        Arc::clone(&self.known.versions.read().unwrap()[&id])
    }

    fn turn(&self, base: Id, heard: &[Input], request: Option<u8>, clock: Clock) -> Done {
        let key = (base, heard.to_vec(), request, clock);
        if let Some(done) = self.known.turns.read().unwrap().get(&key).copied() {
            return done;
        }
        let version = self.version(base);
        let command = request.map(|number| (usize::from(number), &self.requests[usize::from(number)]));
        let done = match version.book.turn(heard, command, clock) {
            None => Done::Refused,
            Some(next) if next.is_as(&version.book) => Done::Nothing,
            Some(next) => Done::Drafted(self.keep(next)),
        };
        self.known.turns.write().unwrap().insert(key, done);
        done
    }

    fn merge(&self, draft: Id, base: Id, current: Id) -> Id {
        let key = (draft, base, current);
        if let Some(merged) = self.known.merged.read().unwrap().get(&key).copied() {
            return merged;
        }
        let [draft, base, current] = [draft, base, current].map(|id| self.version(id));
        let merged = self.keep(draft.book.over(&base.book, &current.book));
        self.known.merged.write().unwrap().insert(key, merged);
        merged
    }

    fn requests_of(&self, is_one: impl Fn(&Command) -> bool) -> impl Iterator<Item = usize> {
        self.requests.iter().enumerate().filter(move |(_, command)| is_one(command)).map(|(number, _)| number)
    }

    /// What is wrong with what the store has.
    fn look_at(&self, book: &Book) -> Option<Wrong> {
        let rollout = book.state.rollout.as_ref()?;
        if rollout.number > 1 {
            return Some(Wrong::SteppedTwice);
        }
        if book.acted.iter().any(|times| *times > 1) {
            return Some(Wrong::ActedTwice);
        }
        for (index, group) in rollout.groups.iter().enumerate() {
            let begins = |command: &Command| {
                let is_one = matches!(command, Command::Run { .. } | Command::Rollback { .. } | Command::Start { .. });
                is_one && (command.groups().is_empty() || command.groups().contains(&group.policy.name))
            };
            let attempts: u8 = self.requests_of(begins).map(|number| book.acted[number]).sum();
            if group.attempt > 1 + u32::from(attempts) {
                return Some(Wrong::SteppedTwice);
            }
            if group.tally.told + group.tally.let_go > self.cap(index) {
                return Some(Wrong::Cap);
            }
        }
        None
    }

    /// Of all members of a group, rounded up.
    fn cap(&self, group: usize) -> u64 {
        let members = (0..self.hosts).filter(|host| group_of(*host) == group).count();
        (u64::try_from(members).unwrap() * CAPS[group]).div_ceil(100)
    }

    fn is_open_by_hand(&self, book: &Book) -> bool {
        let names = |command: &Command, index: usize| command.groups().iter().any(|group| group == GROUPS[index]);
        let opens = |command: &Command| match command {
            Command::Start { .. } | Command::Run { .. } => names(command, 1),
            Command::MarkDone { .. } => names(command, 0),
            _ => false,
        };
        self.requests_of(opens).any(|number| book.acted[number] > 0)
    }

    fn start_node(&self, number: u8) -> Node {
        let is_slow = self.is_one_slow && number == 0;
        Node { is_slow, copy: None, knows_stop: true, heard: Vec::new(), turn: None }
    }
}

impl State {
    fn node(&mut self, node: u8) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    fn host(&mut self, host: u8) -> &mut Host {
        &mut self.hosts[usize::from(host)]
    }

    fn blame(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    fn answer(&mut self, request: u8) {
        self.answered |= 1 << request;
        for node in &mut self.nodes {
            node.knows_stop = node.copy.is_none();
        }
    }

    /// A host is updated: that took longer than an answer is good that was confirmed before the host was told.
    fn outlast(&mut self, host: u8) {
        for node in &mut self.nodes {
            node.copy = node.copy.filter(|copy| copy.told_since >> host & 1 == 0);
            node.knows_stop |= node.copy.is_none();
        }
    }

    /// Who reported that sends it again.
    fn drop_reports(&mut self, heard: &[Input]) {
        for input in heard {
            if let Input::Report { host, change, .. } = *input {
                self.host(host).phase = Phase::Ended(change);
            }
        }
    }

    /// A turn did not come about, or its node does not know: what it heard in questions is heard still, what hosts reported they
    /// report again.
    fn take_back(&mut self, node: u8, heard: Vec<Input>) {
        self.drop_reports(&heard);
        let waiting = std::mem::take(&mut self.node(node).heard);
        let told = heard.into_iter().filter(|input| !matches!(input, Input::Report { .. }));
        self.node(node).heard = told.chain(waiting).collect();
    }
}

impl Nodes {
    fn ask(&self, state: &mut State, node: u8, host: u8) -> Option<()> {
        let copy = state.node(node).copy?;
        let (answers, store) = (self.known.answers.read().unwrap()[&copy.answers].clone(), self.version(state.store));
        let (answer, group) = (answers[usize::from(host)], group_of(host));
        let second = if state.node(node).is_slow { copy.second } else { state.clock.second(store.second) };
        let Host { runs, refuses, phase, .. } = *state.host(host);
        let key = (answer.to, answer.rollout, answer.attempt);
        if !answer.update || answer.to == runs || refuses == Some(key) || phase != Phase::Rests {
            let asked = Input::Asked { host, second };
            let is_news = phase == Phase::Rests && state.clock == Clock::IsLate && store.awaited.contains(&host);
            let waits = is_news && !state.node(node).heard.contains(&asked);
            return waits.then(|| state.node(node).heard.push(asked));
        }
        for copy in state.nodes.iter_mut().filter_map(|node| node.copy.as_mut()) {
            copy.told_since |= 1 << host;
        }
        let Answer { to, rollout, attempt, back, .. } = answer;
        state.node(node).heard.push(Input::Told { host, second, rollout, back });
        state.host(host).phase = Phase::Updates { to, rollout, attempt };
        let is_on_the_way = |(of, host): &(usize, &Host)| {
            group_of(u8::try_from(*of).unwrap()) == group && matches!(host.phase, Phase::Updates { .. })
        };
        let in_flight = state.hosts.iter().enumerate().filter(is_on_the_way).count();
        if u64::try_from(in_flight).unwrap() > self.cap(group) {
            state.blame(Wrong::Cap);
        }
        if ![START, TARGET].contains(&to) {
            state.blame(Wrong::UnknownVersion);
        }
        let is_its_turn = store.is_open_by_hand || (store.was_done && state.has_first_arrived);
        if group == 1 && to == TARGET && !is_its_turn {
            state.blame(Wrong::GateOrder);
        }
        let halts = |command: &Command| matches!(command, Command::Halt { groups, all } if *all || groups.iter().any(|name| name == GROUPS[group]));
        let is_answered = self.requests_of(halts).any(|number| state.answered >> number & 1 == 1);
        if is_answered && state.stopped >> group & 1 == 1 && state.node(node).knows_stop {
            state.blame(Wrong::ForgottenStop);
        }
        Some(())
    }

    fn report(state: &mut State, node: u8, host: u8, is_good: bool) -> Option<()> {
        state.node(node).copy?;
        let is_of_host = |input: &Input| matches!(input, Input::Told { host: of, .. } if *of == host);
        let is_elsewhere = |(at, other): (usize, &Node)| {
            let of_turn = other.turn.iter().flat_map(|turn| &turn.heard);
            at != usize::from(node) && other.heard.iter().chain(of_turn).any(is_of_host)
        };
        if state.nodes.iter().enumerate().any(is_elsewhere) {
            state.strays = state.strays.checked_sub(1)?;
        }
        let change = match state.host(host).phase {
            Phase::Updates { to, rollout, attempt } => {
                state.failures = if is_good { state.failures } else { state.failures.checked_sub(1)? };
                if is_good {
                    state.outlast(host);
                    state.node(node).copy?;
                }
                let host = state.host(host);
                host.changes += 1;
                host.runs = if is_good { to } else { host.runs };
                host.refuses = (!is_good).then_some((to, rollout, attempt)).or(host.refuses);
                Change { number: host.changes, to, is_good, rollout, attempt }
            }
            Phase::Ended(change) if change.is_good == is_good => change,
            _ => return None,
        };
        state.host(host).phase = Phase::Reports(change);
        state.has_first_arrived |= state.hosts.iter().step_by(GROUPS.len()).all(|host| host.runs == TARGET);
        let runs = state.host(host).runs;
        state.node(node).heard.push(Input::Report { host, runs, change });
        Some(())
    }

    /// The node answers what the store has.
    fn take_over(&self, state: &mut State, node: u8) {
        let version = self.version(state.store);
        let node = state.node(node);
        let second = if node.is_slow { version.second } else { 0 };
        (node.copy, node.knows_stop) = (Some(Copied { answers: version.answers, second, told_since: 0 }), true);
    }

    fn read(&self, state: &mut State, node: u8, request: Option<u8>) -> Option<()> {
        let store = state.store;
        let Node { is_slow, turn: None, .. } = *state.node(node) else { return None };
        let is_known = request.is_some_and(|number| self.version(store).book.outcomes >> number & 1 == 1);
        if let Some(number) = request.filter(|_| is_known && self.plant != Plant::NoIds) {
            state.answer(number);
            return Some(());
        }
        let heard = state.node(node).heard.clone();
        let clock = if is_slow { Clock::Stands } else { state.clock };
        match self.turn(store, &heard, request, clock) {
            Done::Nothing => {
                self.take_over(state, node);
                state.node(node).heard.clear();
                for input in heard {
                    if let Input::Report { host, .. } = input {
                        state.host(host).phase = Phase::Rests;
                    }
                }
            }
            Done::Refused => request.into_iter().for_each(|number| state.answer(number)),
            Done::Drafted(draft) => {
                let node = state.node(node);
                node.heard.clear();
                node.turn = Some(Turn { base: store, draft, is_current: true, heard, request });
            }
        }
        Some(())
    }

    /// The store takes a turn; `None`: it refuses.
    fn commit(&self, state: &mut State, turn: &Turn) -> Option<()> {
        state.store = match (turn.is_current, self.plant) {
            (true, _) => turn.draft,
            (false, Plant::NoCompare) => self.merge(turn.draft, turn.base, state.store),
            (false, _) => return None,
        };
        for number in 0..self.nodes {
            let Some(mut other) = state.node(number).turn.take() else { continue };
            if self.plant == Plant::NoCompare {
                other.is_current = false;
                state.node(number).turn = Some(other);
            } else {
                // Its write will be refused. Its node answers from the same copy till then, so it is as if it had not begun.
                state.take_back(number, other.heard);
            }
        }
        let names = |groups: &[String]| {
            let bit = |(index, name): (usize, &&str)| u8::from(groups.iter().any(|group| group == name)) << index;
            GROUPS.iter().enumerate().map(bit).sum::<u8>()
        };
        match turn.request.map(|number| &self.requests[usize::from(number)]) {
            Some(Command::Halt { all: true, .. }) => state.stopped = 0b11,
            Some(Command::Halt { groups, .. }) => state.stopped |= names(groups),
            Some(Command::Run { all: true, .. }) => state.stopped = 0,
            Some(Command::Run { groups, .. }) => state.stopped &= !names(groups),
            _ => {}
        }
        Some(())
    }

    fn write(&self, state: &mut State, node: u8) -> Option<()> {
        let turn = state.node(node).turn.take()?;
        if self.commit(state, &turn).is_none() {
            if state.node(node).copy.is_some() {
                self.take_over(state, node);
            }
            state.take_back(node, turn.heard);
            return Some(());
        }
        self.take_over(state, node);
        for input in turn.heard {
            if let Input::Report { host, .. } = input {
                state.host(host).phase = Phase::Rests;
            }
        }
        if let Some(number) = turn.request {
            state.answer(number);
        }
        Some(())
    }

    fn write_unheard(&self, state: &mut State, node: u8, is_kept: bool) -> Option<()> {
        let turn = state.node(node).turn.take()?;
        state.lost_replies = state.lost_replies.checked_sub(1)?;
        if is_kept {
            self.commit(state, &turn)?;
        }
        let at = state.node(node);
        (at.copy, at.knows_stop) = (None, true);
        if self.tries_again {
            state.take_back(node, turn.heard);
        } else {
            state.drop_reports(&turn.heard);
        }
        Some(())
    }

    /// What each node answers has to be confirmed again, of which the next turn is the first.
    fn wait(state: &mut State) -> Option<()> {
        // What is not written so long is refused, or lost.
        if state.nodes.iter().any(|node| node.turn.is_some() || !node.heard.is_empty()) {
            return None;
        }
        state.clock = Clock::IsLate;
        for node in &mut state.nodes {
            (node.copy, node.knows_stop) = (None, true);
        }
        Some(())
    }

    fn crash(&self, state: &mut State, node: u8) -> Option<()> {
        state.crashes = state.crashes.checked_sub(1)?;
        let at = state.node(node);
        if at.heard.is_empty() && at.turn.is_none() {
            // It loses nothing: as if it had done nothing for a while.
            return None;
        }
        let began = Node { is_slow: at.is_slow, ..self.start_node(1) };
        let Node { heard, turn, .. } = std::mem::replace(at, began);
        state.drop_reports(&heard);
        state.drop_reports(&turn.map(|turn| turn.heard).unwrap_or_default());
        Some(())
    }

    /// What holds of the store holds after each write.
    fn look(&self, state: &mut State) {
        let version = self.version(state.store);
        if let Some(wrong) = version.wrong {
            state.blame(wrong);
        }
        let book = &version.book;
        let is_lost = |number: &usize| {
            state.answered >> number & 1 == 1 && book.outcomes >> number & 1 == 1 && book.acted[*number] == 0
        };
        let is_held = |group: usize| book.state.holds.has(GROUPS[group]);
        let are_held = (0..GROUPS.len()).all(|group| state.stopped >> group & 1 == 0 || is_held(group));
        if (0..self.requests.len()).any(|number| is_lost(&number)) || !are_held {
            state.blame(Wrong::LostDecision);
        }
    }
}

impl Model for Nodes {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = self.keep(Book::first(self.hosts, self.requests.len()));
        let host = Host { runs: START, changes: 0, refuses: None, phase: Phase::Rests };
        vec![State {
            store,
            nodes: (0..self.nodes).map(|number| self.start_node(number)).collect(),
            hosts: vec![host; usize::from(self.hosts)],
            answered: 0,
            stopped: 0,
            has_first_arrived: false,
            crashes: self.crashes,
            lost_replies: self.lost_replies,
            failures: self.failures,
            strays: self.strays,
            clock: Clock::Goes,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let requests = u8::try_from(self.requests.len()).unwrap();
        if self.waits && state.clock == Clock::Goes && !self.version(state.store).awaited.is_empty() {
            actions.push(Action::Wait);
        }
        for node in 0..self.nodes {
            // Nodes of which nothing tells the one from the other do the same.
            if node > 0 && state.nodes[usize::from(node)] == state.nodes[usize::from(node) - 1] {
                continue;
            }
            if state.nodes[usize::from(node)].turn.is_some() {
                actions.push(Action::Write { node });
                actions.extend([true, false].map(|is_kept| Action::WriteAndLoseReply { node, is_kept }));
            } else {
                let open = (0..requests).filter(|request| state.answered >> request & 1 == 0);
                actions.extend(open.map(Some).chain([None]).map(|request| Action::Read { node, request }));
            }
            actions.extend([Action::TakeOver { node }, Action::Crash { node }]);
            for host in 0..self.hosts {
                actions.push(Action::Ask { node, host });
                actions.extend([true, false].map(|is_good| Action::Report { node, host, is_good }));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        if last.wrong.is_some() {
            return None;
        }
        let mut state = last.clone();
        match action {
            Action::Ask { node, host } => self.ask(&mut state, node, host)?,
            Action::Report { node, host, is_good } => Self::report(&mut state, node, host, is_good)?,
            Action::Read { node, request } => self.read(&mut state, node, request)?,
            Action::Write { node } => self.write(&mut state, node)?,
            Action::WriteAndLoseReply { node, is_kept } => self.write_unheard(&mut state, node, is_kept)?,
            Action::TakeOver { node } => {
                state.node(node).copy?;
                self.take_over(&mut state, node);
            }
            Action::Crash { node } => self.crash(&mut state, node)?,
            Action::Wait => Self::wait(&mut state)?,
        }
        self.look(&mut state);
        state.nodes.sort_unstable();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("never more in flight than the cap", |_, state: &State| state.wrong != Some(Wrong::Cap)),
            Property::always("no group before its turn", |_, state: &State| state.wrong != Some(Wrong::GateOrder)),
            Property::always("no version that no rollout named", |_, state: &State| {
                state.wrong != Some(Wrong::UnknownVersion)
            }),
            Property::always("no decision is lost", |_, state: &State| state.wrong != Some(Wrong::LostDecision)),
            Property::always("no command acts twice", |_, state: &State| state.wrong != Some(Wrong::ActedTwice)),
            Property::always("no stop is forgotten", |_, state: &State| state.wrong != Some(Wrong::ForgottenStop)),
            Property::always("no rollout is stepped twice", |_, state: &State| {
                state.wrong != Some(Wrong::SteppedTwice)
            }),
            Property::sometimes("everybody is updated", |_, state: &State| {
                state.hosts.iter().all(|host| host.runs == TARGET && host.phase == Phase::Rests)
            }),
            Property::sometimes("every command is answered", |model: &Self, state: &State| {
                u32::try_from(model.requests.len()).unwrap() == state.answered.count_ones()
            }),
        ]
    }
}
