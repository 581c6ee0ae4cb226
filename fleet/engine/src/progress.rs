//! How far a group is that updates: what it still needs, when it ends by its pace so far, whom it waits for, and what keeps its
//! hosts from being canaries (FLEET §6).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::fleet::Fleet;
use crate::host::{GroupPlace, Host, HostId};
use crate::moment::Moment;
use crate::policy::{Schedule, Strategy};
use crate::reason::{CanaryObstacle, Why};
use crate::rollout::{GroupStatus, Rollout, State};
use crate::step::canaries::obstacle;
use crate::step::pace::paused;
use crate::step::reasons::{earliest_end, still_needed};
use crate::tally::{HostState, TallyContext};

/// Most hosts that are named of those that are waited for.
pub const NAMED: usize = 3;
/// Fewest hosts, behind the first that arrived, by which a pace is known; and one of so many that are needed.
const FEWEST: u64 = 2;
const OF: u64 = 20;
/// Shortest time in which they arrived, seconds: between two steps.
const SHORTEST: u32 = 60;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupProgress {
    /// Hosts that must still come to the target until the group is done; `None`: its end is no matter of theirs.
    pub needed: Option<u64>,
    /// When they will have come, by the pace of those that came; `None`: too few came, or what keeps the others has another end.
    pub end: Option<Timestamp>,
    /// The first of those that are on their way, by when they count as late if nothing is heard of them until then: that time, the
    /// host, when it was last seen, and as what it counts then (`silent`, `failed` or `timed_out`).
    pub awaited: Vec<(Timestamp, HostId, Timestamp, &'static str)>,
    /// Why hosts cannot be canaries, and how many, where too few could be chosen.
    pub obstacles: BTreeMap<CanaryObstacle, u64>,
}

/// How fast hosts arrive.
#[derive(Clone, Copy)]
struct Arrivals {
    first: Moment,
    last: Moment,
    /// Who arrived in the second of the first: that tells nothing of the time that one takes.
    at_first: u64,
    arrived: u64,
}

/// A look at a group's hosts.
struct GroupWalk<'a> {
    look: TallyContext<'a>,
    pace: Option<Arrivals>,
    latest: Option<Timestamp>,
    found: GroupProgress,
}

impl Rollout {
    /// Of each group that updates, by its place; of others there is nothing to say.
    pub fn progress(&self, fleet: &Fleet, now: Timestamp) -> Vec<Option<GroupProgress>> {
        let walk = |group| {
            let look = is_updating(group).then(|| TallyContext::new(self, group, fleet, now));
            look.map(|look| GroupWalk { look, pace: None, latest: None, found: GroupProgress::default() })
        };
        let mut walks: Vec<Option<GroupWalk<'_>>> = self.groups.iter().map(walk).collect();
        let is_any = walks.iter().any(Option::is_some);
        for host in fleet.hosts().iter().filter(|_| is_any) {
            let GroupPlace::Group(index) = host.place else { continue };
            if let Some(Some(walk)) = walks.get_mut(usize::from(index)) {
                walk.add(host);
            }
        }
        walks.into_iter().map(|walk| walk.map(|walk| walk.finish(self, now))).collect()
    }
}

fn is_updating(group: &GroupStatus) -> bool {
    match group.reason.why {
        Why::UpdateInProgress { .. } | Why::Rate { .. } | Why::WaitingForCanaries { .. } => true,
        Why::MaxInFlight { cap, .. } => cap > 0 && group.state == State::Active,
        _ => false,
    }
}

impl GroupWalk<'_> {
    fn add(&mut self, host: &Host) {
        let (look, group) = (self.look, self.look.group);
        if look.has_departed(host) {
            return;
        }
        let wanted = usize::try_from(group.policy.pace.canaries).unwrap_or(usize::MAX);
        if group.state == State::Canary && group.canaries.len() < wanted && !group.is_canary(host.id) {
            obstacle(&look, host).into_iter().for_each(|what| *self.found.obstacles.entry(what).or_default() += 1);
        }
        // Nobody waits for who only asks.
        if host.enrolled.is_none() {
            return;
        }
        match look.state(host) {
            // Canaries went alone: by them nobody knows how fast the others are.
            HostState::Updated if !group.is_canary(host.id) => {
                let arrived = look.mark(host).and_then(|mark| mark.arrived);
                arrived.into_iter().filter(|at| *at >= group.attempt_began).for_each(|at| self.arrive(at));
            }
            HostState::Told | HostState::LetGo => {
                let (becomes, at) = look.due(host);
                self.latest = self.latest.max(Some(at));
                self.found.awaited.push((at, host.id, host.heard.time(), becomes.name()));
                self.found.awaited.sort_unstable();
                self.found.awaited.truncate(NAMED);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, at: Moment) {
        let Arrivals { first, last, at_first, arrived } =
            self.pace.unwrap_or(Arrivals { first: at, last: at, at_first: 0, arrived: 0 });
        let before = if at < first { 0 } else { at_first };
        let at_first = if at <= first { before + 1 } else { before };
        self.pace = Some(Arrivals { first: first.min(at), last: last.max(at), at_first, arrived: arrived + 1 });
    }

    fn finish(self, rollout: &Rollout, now: Timestamp) -> GroupProgress {
        let group = self.look.group;
        let needed = (group.state == State::Active && rollout.strategy != Strategy::TimeBased)
            .then(|| still_needed(rollout, group));
        let end = needed.and_then(|needed| self.end(rollout, needed, now));
        // Of a rollout without groups there is nothing that could be done.
        let needed = needed.filter(|_| rollout.schedule != Schedule::Immediate);
        GroupProgress { needed, end, ..self.found }
    }

    /// The rule is in FLEET §6.
    fn end(&self, rollout: &Rollout, needed: u64, now: Timestamp) -> Option<Timestamp> {
        let (group, Arrivals { first, last, at_first, arrived }) = (self.look.group, self.pace?);
        let (tally, later) = (&group.tally, arrived - at_first);
        let is_known = later >= FEWEST.max(needed.div_ceil(OF)) && last.since(first) >= SHORTEST;
        if !is_known || needed == 0 || needed > tally.pending + tally.let_go + tally.told {
            return None;
        }
        // As long as it took those that came; where that is over already, as slow as it has become.
        let so_long = |span: u32, from: Timestamp| {
            let seconds = (u64::from(span) * needed).div_ceil(later);
            from.checked_add(SignedDuration::from_secs(i64::try_from(seconds).ok()?)).ok()
        };
        let by_pace = so_long(last.since(first), last.time())?;
        let end = if by_pace > now { by_pace } else { so_long(Moment::of(now).since(first), now)? };
        // Where all of them were told, who is not there by then has timed out.
        let are_told = tally.pending + tally.let_go == 0;
        let end = self.latest.filter(|_| are_told).map_or(end, |latest| end.min(latest));
        let end = end.max(earliest_end(rollout, group, now)?).max(now);
        // A window that closes or a freeze that begins before it moves it further than anybody can say.
        paused(rollout, group, end).is_none().then_some(end)
    }
}
