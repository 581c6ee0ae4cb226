//! What every host is told, as of the last decision that the store has: questions are answered from it without a lock and
//! without the store (FLEET §4).
//!
//! The core publishes; whoever asks reads. A host has one word: the generation of a table, and the answer in it. Whoever meets a
//! word of another generation than its table's takes the table before.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use fleet_engine::answer::{HostAnswer, Question};
use fleet_engine::dry_run::DryRunOrders;
use fleet_engine::host::HostId;
use fleet_engine::inventory::VersionAlert;
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use fleet_wire::answers::find::{self, Cluster, Tools};
use fleet_wire::answers::graph::Catalogue;
use jiff::Timestamp;
use protocol::dry_run::DryRunOrder;
use protocol::report::{Key, SignedQuestion, Wanted};

use super::enrolments::KeyMark;
use super::host_table::{HostTable, Slot, name_of};

/// How long an answer is good after the store last confirmed it, milliseconds (FLEET §4).
const GOOD_FOR: u64 = 30_000;
/// Between two times that the core is told of the same host's questions, seconds. Silence begins after three report intervals of
/// 15 minutes; a question comes every ten.
const TELL_EVERY: u32 = 60;

/// A question that the core should know of.
#[derive(Debug, Clone)]
pub(crate) struct HostContact {
    /// Who asked.
    pub(crate) question: Question,
    /// When.
    pub(crate) at: Timestamp,
    /// It was allowed to update. Of a host that enrolled only where its question is signed by its key.
    pub(crate) told: Option<ToldTo>,
    /// Key, epoch and number of the signature.
    pub(crate) signed: Option<(Key, u64, u64)>,
}

/// To what a host was allowed to update.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct ToldTo {
    /// In this rollout.
    pub(crate) rollout: u64,
    /// In this attempt of its group.
    pub(crate) attempt: u32,
    /// Back to the start version.
    pub(crate) back: bool,
}

/// What the answers rest on that are not a host's own.
pub(crate) struct Public {
    /// What is wanted, and the rollout.
    pub(crate) rollouts: RolloutState,
    /// The resources.
    pub(crate) resources: ResourceSet,
    /// What is said of the cluster.
    pub(crate) cluster: Cluster,
    /// The releases.
    pub(crate) catalogue: Arc<Catalogue>,
    /// What people are warned of.
    pub(crate) alerts: Vec<VersionAlert>,
}

/// What every host is told.
pub(crate) struct Snapshot {
    /// What is said of the cluster, as the configuration has it.
    cluster: Cluster,
    /// Reports are wanted.
    wanted: ArcSwapOption<Wanted>,
    public: ArcSwap<Public>,
    table: ArcSwapOption<AnswerTable>,
    hosts: ArcSwap<HostTable>,
    /// What hosts are to try for a plan; mostly nothing.
    dry_runs: ArcSwapOption<DryRunOrders>,
    /// When the store last confirmed what is answered, for people; and in milliseconds from `start` on, which no change of the clock
    /// moves. 0: never.
    confirmed: AtomicI64,
    confirmed_after: AtomicU64,
    stop_waits: AtomicBool,
    /// The last decision, seconds, where the clock is too far behind it; 0: it is not.
    ahead: AtomicI64,
    start: Instant,
    contacts: SyncSender<Box<HostContact>>,
    /// Questions that the core could not be told of, because it was busy. They only make a wait longer.
    pub(crate) lost: Counter,
    /// How often somebody who is not known was refused.
    pub(crate) strangers: Counter,
    /// The write of the store that was read last.
    pub(crate) position: Counter,
    /// Names of groups and versions that are kept.
    pub(crate) names: Counter,
    /// Hosts that have a key that waits for an admin.
    pub(crate) waiting: Counter,
}

/// A number that anybody reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// The number.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// It is `count` from now on.
    pub(crate) fn set(&self, count: usize) {
        self.0.store(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// It is one more.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Public {
    fn of(rollouts: RolloutState, resources: ResourceSet, cluster: &Cluster, before: Option<&Self>) -> Self {
        let cluster = Cluster { tools: Tools::of(&resources), ..cluster.clone() };
        // Most decisions write no resource: what was written of the graphs stays.
        let catalogue = match before.filter(|before| before.resources == resources) {
            Some(before) => Arc::clone(&before.catalogue),
            None => Arc::new(Catalogue::of(&resources)),
        };
        Self { cluster, catalogue, rollouts, resources, alerts: Vec::new() }
    }
}

/// An answer to a question.
pub(crate) struct TimedAnswer {
    table: Arc<AnswerTable>,
    index: usize,
    /// The store has not confirmed it of late.
    is_stale: bool,
}

impl TimedAnswer {
    /// The answer as decided.
    fn decided(&self) -> Option<&HostAnswer> {
        self.table.answers.get(self.index)
    }

    /// The answer. One that the store has not confirmed since `confirmed` lets nobody go.
    pub(crate) fn answer(&self, confirmed: Timestamp) -> Option<Cow<'_, HostAnswer>> {
        let decided = self.decided()?;
        Some(if self.is_stale { Cow::Owned(find::stale(decided.clone(), confirmed)) } else { Cow::Borrowed(decided) })
    }
}

impl Snapshot {
    /// A snapshot that says nothing yet. What the core should know goes to `contacts`: boxed, as the queue's places are made at once.
    pub(crate) fn new(contacts: SyncSender<Box<HostContact>>, cluster: Cluster) -> Self {
        Self {
            public: ArcSwap::from_pointee(Public::of(RolloutState::default(), ResourceSet::default(), &cluster, None)),
            cluster,
            wanted: ArcSwapOption::empty(),
            table: ArcSwapOption::empty(),
            hosts: ArcSwap::default(),
            dry_runs: ArcSwapOption::empty(),
            confirmed: AtomicI64::new(0),
            confirmed_after: AtomicU64::new(0),
            stop_waits: AtomicBool::new(false),
            ahead: AtomicI64::new(0),
            start: Instant::now(),
            contacts,
            lost: Counter::default(),
            strangers: Counter::default(),
            position: Counter::default(),
            names: Counter::default(),
            waiting: Counter::default(),
        }
    }

    /// Answers `question`; `None` where no rollout ever named a version. With `now` the core notes it: else nobody counts as seen or as
    /// told by it.
    pub(crate) fn ask(
        &self,
        question: &Question,
        signed: Option<&SignedQuestion>,
        now: Option<Timestamp>,
    ) -> Option<TimedAnswer> {
        let mut table = self.table.load_full()?;
        let hosts = self.hosts.load();
        let declared = name_of(&question.group);
        // A copy of a host has its update id as well.
        let is_so = |slot: &&Slot| question.group.is_empty() || slot.declares() == declared;
        let by_update_id = || hosts.by_update_id(question.update_id).filter(|_| question.update_id != 0).filter(is_so);
        // Who names its host is that host, whatever update id another one has as well.
        let known = match question.host {
            Some(id) => hosts.get(id),
            None => by_update_id(),
        };
        let of_group =
            |table: &AnswerTable| table.unknown.get(question.group.as_str()).copied().unwrap_or(table.elsewhere);
        let (table, index) = loop {
            match known.map(|slot| (slot, look_up(&table, slot.word.load(Ordering::Acquire)))) {
                Some((slot, Lookup::Answer(found, index))) => break narrowed(slot, question, found, index, of_group),
                // The word is of a decision that was published meanwhile: its table is there already.
                Some((_, Lookup::Newer)) => table = self.table.load_full()?,
                Some((_, Lookup::Nothing)) | None => {
                    let index = of_group(&table);
                    break (table, index);
                }
            }
        };
        let is_stale = !self.is_good();
        let told = TimedAnswer { table, index, is_stale };
        if let Some(now) = now {
            let update = told.decided().filter(|answer| answer.update && !is_stale);
            let update = update.map(|answer| ToldTo {
                rollout: answer.rollout,
                attempt: answer.attempt,
                back: answer.goes_back(),
            });
            let key = known.map_or(0, |slot| slot.key.load(Ordering::Relaxed));
            // Who asks in the name of a host that enrolled is answered the same, and nobody is seen or told by it.
            let is_due = |slot: &Slot| !was_heard(slot, now);
            let is_worth_a_look = key != 0 && (update.is_some() || known.is_some_and(is_due));
            let signed = signed.filter(|signed| is_worth_a_look && is_by(question, signed, key));
            if key != 0 && signed.is_none() {
                return Some(told);
            }
            let signed = signed.map(|signed| (signed.key, signed.epoch, signed.number));
            self.tell(known, HostContact { question: question.clone(), at: now, told: update, signed });
        }
        Some(told)
    }

    /// Whether the store has confirmed what is answered within the last half minute.
    pub(crate) fn is_good(&self) -> bool {
        let confirmed = self.confirmed_after.load(Ordering::Relaxed);
        confirmed > 0 && self.age().saturating_sub(confirmed) <= GOOD_FOR
    }

    /// The store has what is answered, at `now`.
    pub(crate) fn confirm(&self, now: Timestamp) {
        self.stop_waits.store(false, Ordering::Relaxed);
        self.confirmed.store(now.as_second(), Ordering::Relaxed);
        self.confirmed_after.store(self.age(), Ordering::Relaxed);
    }

    /// The clock is too far behind the last decision, which was made at `last`; `None`: it is not.
    pub(crate) fn set_ahead(&self, last: Option<Timestamp>) {
        self.ahead.store(last.map_or(0, Timestamp::as_second), Ordering::Relaxed);
    }

    /// The time of the last decision, where the clock is too far behind it.
    pub(crate) fn ahead(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.ahead.load(Ordering::Relaxed)).ok().filter(|last| *last > Timestamp::UNIX_EPOCH)
    }

    /// A stop waits for the store: what is answered is not good any more, until the store confirms it again.
    pub(crate) fn doubt(&self) {
        self.stop_waits.store(true, Ordering::Relaxed);
        self.confirmed_after.store(0, Ordering::Relaxed);
    }

    /// Whether it is a stop that the store has not taken.
    pub(crate) fn stop_waits(&self) -> bool {
        self.stop_waits.load(Ordering::Relaxed)
    }

    /// Milliseconds since this began; at least 1.
    fn age(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// What is kept of those who ask, and how many of each.
    pub(crate) fn kept(&self) -> [(&'static str, u64); 4] {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let hosts = self.hosts();
        [
            ("hosts", count(hosts.len())),
            ("update_ids", count(hosts.update_ids())),
            ("names", self.names.get()),
            ("answers", count(self.table().map_or(0, |table| table.answers.len()))),
        ]
    }

    /// What is answered from now on; `None`: that there is no rollout.
    pub(crate) fn publish(&self, table: Option<AnswerTable>) {
        self.table.store(table.map(Arc::new));
    }

    /// What answers rest on that are not a host's own.
    pub(crate) fn public(&self) -> Arc<Public> {
        self.public.load_full()
    }

    /// Other resources, or another rollout, are answered from from now on.
    pub(crate) fn set_public(&self, rollouts: RolloutState, resources: ResourceSet, alerts: Vec<VersionAlert>) {
        let before = self.public.load_full();
        let reports = self.wanted.load().as_deref().copied();
        let cluster = Cluster { reports, ..self.cluster.clone() };
        let public = Public { alerts, ..Public::of(rollouts, resources, &cluster, Some(&before)) };
        self.public.store(Arc::new(public));
    }

    /// Reports are wanted from now on, which the next [`Snapshot::set_public`] says.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.wanted.store(Some(Arc::new(wanted)));
    }

    /// Whether reports are wanted.
    pub(crate) fn is_wanting(&self) -> bool {
        self.wanted.load().is_some()
    }

    /// When the store last confirmed what is answered.
    pub(crate) fn confirmed(&self) -> Timestamp {
        Timestamp::from_second(self.confirmed.load(Ordering::Relaxed)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// What keeps hosts from being let go while [`Snapshot::is_good`] does not hold, as a line for people.
    pub(crate) fn unconfirmed(&self) -> String {
        if let Some(last) = self.ahead() {
            return format!(
                "nobody new is allowed to update: the clock is behind the last decision, which is of {} UTC: set it (`timedatectl`), or wait",
                fleet_wire::text::time(last)
            );
        }
        if self.stop_waits() {
            return fleet_wire::words::holds::STOP_WAITS.to_owned();
        }
        let since = match self.confirmed.load(Ordering::Relaxed) {
            // The log has why.
            0 => "this server started: look at its log".to_owned(),
            _ => format!("{} UTC", fleet_wire::text::time(self.confirmed())),
        };
        format!("nobody new is allowed to update: the store has not confirmed what is answered since {since}")
    }

    /// The table that is answered from.
    pub(crate) fn table(&self) -> Option<Arc<AnswerTable>> {
        self.table.load_full()
    }

    /// The hosts that are known.
    pub(crate) fn hosts(&self) -> Arc<HostTable> {
        self.hosts.load_full()
    }

    /// Other hosts are known from now on.
    pub(crate) fn set_hosts(&self, hosts: HostTable) {
        self.hosts.store(Arc::new(hosts));
    }

    /// What hosts are to try from now on; `None`: nothing.
    pub(crate) fn set_dry_runs(&self, orders: Option<DryRunOrders>) {
        self.dry_runs.store(orders.map(Arc::new));
    }

    /// What the host is to try that asks; `None`: nothing, as where the store has not confirmed of late what is answered. A plan is
    /// nobody else's: the question must be signed by the host's key.
    pub(crate) fn dry_run(&self, question: &Question, signed: Option<&SignedQuestion>) -> Option<DryRunOrder> {
        let (orders, hosts) = (self.dry_runs.load(), self.hosts.load());
        let host = question.host?;
        let order = orders.as_ref()?.of(host).filter(|_| self.is_good())?;
        let key = hosts.get(host)?.key.load(Ordering::Relaxed);
        is_by(question, signed?, key).then(|| order.clone())
    }

    /// The core does not know any more what it heard last: the next question of each host tells it.
    pub(crate) fn tell_again(&self) {
        for slot in self.hosts.load().slots() {
            slot.heard.store(0, Ordering::Relaxed);
        }
    }

    /// The same of one host.
    pub(crate) fn tell_again_of(&self, host: HostId) {
        if let Some(slot) = self.hosts.load().get(host) {
            slot.heard.store(0, Ordering::Relaxed);
        }
    }

    /// Tells the core who asked: each host once a minute, and whenever it is another question or another answer than the last.
    fn tell(&self, slot: Option<&Slot>, contact: HostContact) {
        let HostContact { question, at: now, told, .. } = &contact;
        if question.host.is_none() && question.update_id == 0 {
            return;
        }
        if let Some(slot) = slot {
            let asked = fingerprint(question, *told);
            let is_same = slot.asked.swap(asked, Ordering::Relaxed) == asked;
            if is_same && was_heard(slot, *now) {
                return;
            }
            slot.heard.store(second(*now), Ordering::Relaxed);
        }
        if self.contacts.try_send(Box::new(contact)).is_err() {
            self.lost.add();
            if let Some(slot) = slot {
                // Its next question tells.
                slot.heard.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn second(now: Timestamp) -> u32 {
    u32::try_from(now.as_second()).unwrap_or(0)
}

/// Whether a question is signed, by the key of this mark.
fn is_by(question: &Question, signed: &SignedQuestion, key: u64) -> bool {
    KeyMark::of(signed.key).0.get() == key
        && question.host.is_some_and(|host| crate::report::is_signed_question(host, signed))
}

/// Tells two questions of a host apart, and to what it was allowed to update.
fn fingerprint(question: &Question, told: Option<ToldTo>) -> u32 {
    use std::hash::{BuildHasher, RandomState};
    // 32 bits can be searched: nobody outside knows the key.
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let hash = KEY.hash_one((question.host, &question.group, question.update_id, told));
    u32::try_from(hash >> 32).unwrap_or(0).max(1)
}

/// The answers of one decision.
#[derive(Clone)]
pub(crate) struct AnswerTable {
    /// Counted by decisions.
    pub(crate) generation: u32,
    /// The answers that hosts' words point to.
    pub(crate) answers: Vec<HostAnswer>,
    /// For hosts that are not known, by the group that they declare.
    pub(crate) unknown: HashMap<String, usize>,
    /// For those that declare none of these groups.
    pub(crate) elsewhere: usize,
    /// The table of the decision before.
    pub(crate) before: Option<Arc<AnswerTable>>,
}

/// The core was told of the host a short time before `now`.
fn was_heard(slot: &Slot, now: Timestamp) -> bool {
    second(now).saturating_sub(slot.heard.load(Ordering::Relaxed)) < TELL_EVERY
}

/// The answer at `index` of `table`; for a host that has no part in the rollout yet and declares another group than it is known
/// by, the one of both that does not let it go. Anybody may ask in its name.
fn narrowed(
    slot: &Slot,
    question: &Question,
    table: Arc<AnswerTable>,
    index: usize,
    of_group: impl Fn(&AnswerTable) -> usize,
) -> (Arc<AnswerTable>, usize) {
    if question.group.is_empty() || slot.is_bound() || slot.declares() == name_of(&question.group) {
        return (table, index);
    }
    let other = of_group(&table);
    let lets_go = |index: usize| table.answers.get(index).is_some_and(|answer| answer.update);
    let index = if lets_go(other) { index } else { other };
    (table, index)
}

/// What a word leads to.
enum Lookup {
    /// An answer.
    Answer(Arc<AnswerTable>, usize),
    /// Nothing was decided for the host yet.
    Nothing,
    /// It is of a later table than this one.
    Newer,
}

/// The answer of a word, from the table of its generation.
fn look_up(table: &Arc<AnswerTable>, word: u64) -> Lookup {
    let generation = u32::try_from(word >> 32).unwrap_or(0);
    let index = usize::try_from(word & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    // Generations wrap after four billion decisions.
    let ahead = generation.wrapping_sub(table.generation);
    let is_newer = ahead > 0 && ahead < u32::MAX / 2;
    let of = if ahead == 0 { Some(table) } else { table.before.as_ref() };
    match of.filter(|of| of.generation == generation) {
        _ if generation == 0 => Lookup::Nothing,
        Some(of) if index < of.answers.len() => Lookup::Answer(Arc::clone(of), index),
        // Tables grow by the answers of newcomers.
        Some(_) if ahead == 0 => Lookup::Newer,
        None if is_newer => Lookup::Newer,
        // A word that no later decision set: the host is known no more.
        Some(_) | None => Lookup::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use fleet_engine::reason::{WaitReason, Why};

    use super::*;

    fn table(generation: u32, answers: usize, before: Option<Arc<AnswerTable>>) -> Arc<AnswerTable> {
        let reason = WaitReason { why: Why::LetGo, since: Timestamp::UNIX_EPOCH, until: None };
        let answer = HostAnswer {
            version: "1.0.0".parse().unwrap(),
            target: None,
            update: true,
            jitter: 0,
            rollout: 1,
            attempt: 1,
            installer: None,
            attributes: std::collections::BTreeMap::new(),
            group: String::new(),
            reason,
        };
        let answers = vec![answer; answers];
        Arc::new(AnswerTable { generation, answers, unknown: HashMap::new(), elsewhere: 0, before })
    }

    fn word(generation: u32, index: u32) -> u64 {
        u64::from(generation) << 32 | u64::from(index)
    }

    #[test]
    fn a_word_leads_to_its_table_or_one_waits_for_it_or_the_host_is_a_stranger() {
        for first in [5, u32::MAX] {
            let next = first.wrapping_add(1).max(1);
            let now = table(next, 2, Some(table(first, 3, None)));
            let found = |generation, index| match look_up(&now, word(generation, index)) {
                Lookup::Answer(table, index) => format!("{} {index}", table.generation),
                Lookup::Nothing => "nothing".to_owned(),
                Lookup::Newer => "newer".to_owned(),
            };
            assert_eq!(found(next, 1), format!("{next} 1"));
            assert_eq!(found(first, 2), format!("{first} 2"));
            assert_eq!(
                found(next, 2),
                "newer",
                "a newcomer's answer is in the table that was published before its word"
            );
            assert_eq!(found(next + 1, 0), "newer");
            assert_eq!(found(first - 1, 0), "nothing", "nobody sets that word any more: waiting would never end");
            assert_eq!(found(0, 0), "nothing");
        }
    }

    #[test]
    fn a_question_in_a_hosts_name_takes_the_answer_that_lets_nobody_go() {
        let mut table = AnswerTable::clone(&table(1, 2, None));
        table.answers[1].update = false;
        table.unknown = HashMap::from([("open".to_owned(), 0), ("closed".to_owned(), 1)]);
        let table = Arc::new(table);
        let of_group = |table: &AnswerTable| table.unknown["open"];
        let asks = |slot: &Slot, group: &str, own: usize| {
            let question = Question { group: group.to_owned(), ..Question::default() };
            narrowed(slot, &question, Arc::clone(&table), own, of_group).1
        };
        let slot = Slot::default();
        slot.know(name_of("closed"), false);
        assert_eq!(asks(&slot, "closed", 1), 1);
        assert_eq!(asks(&slot, "open", 1), 1, "a stranger who names it and an open group");
        slot.know(name_of("open"), false);
        assert_eq!(asks(&slot, "open", 0), 0);
        slot.know(name_of("closed"), true);
        assert_eq!(asks(&slot, "open", 0), 0, "it was told, or reports: the question's group does not count");
    }
}
