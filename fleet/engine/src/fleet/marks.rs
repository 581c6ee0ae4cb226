//! Marks: which hosts were told to update in the present rollout, and how far each has come since.

use jiff::Timestamp;

use super::Fleet;
use crate::host::{Flags, Host, HostId, Mark, Outcome};
use crate::moment::Moment;
use crate::rollout::{GroupStatus, Rollout, State};
use crate::tally::{HostState, TallyContext};

impl Fleet {
    /// Marks a host as told at `now` to update; `back`: to the start version. Its turn had come when it was answered: what was decided
    /// since, a halt or a hold, takes nothing of that back.
    pub fn tell(&mut self, id: HostId, rollout: &Rollout, back: bool, now: Timestamp) {
        let may_be_told = |host: &Host| host.enrolled.is_some() || !self.is_proven;
        let Some(at) = self.at(id).filter(|at| self.hosts.get(*at).is_some_and(may_be_told)) else { return };
        let told = Moment::of(now);
        let takes = self.look(at, Some(rollout), now).zip(self.hosts.get(at)).is_some_and(|(look, host)| {
            let is_as_it_goes = back == (look.group.state == State::RolledBack);
            let wanted = if back { look.start } else { look.target };
            let is_new = || host.version != wanted && look.any_mark(host).is_none_or(|mark| mark.told < told);
            let flags = Flags { held: false, held_by_group: false, ..host.flags };
            let state =
                if host.flags.is_held() { look.state(&Host { flags, ..host.clone() }) } else { look.state(host) };
            match state {
                HostState::LetGo if is_as_it_goes => true,
                HostState::Told => is_as_it_goes && look.goes_the_other_way(host),
                HostState::LetGo | HostState::Pending | HostState::Silent => is_new(),
                HostState::Excluded | HostState::Updated | HostState::Failed | HostState::TimedOut => false,
            }
        });
        if let Some(host) = self.hosts.get_mut(at).filter(|_| takes) {
            (host.mark, host.told_back) = (Some(Mark::told(rollout.number, told)), back);
            self.note_change(at);
        }
    }

    /// What a report means for the rollout that the host was told of.
    pub(crate) fn follow(&mut self, at: usize, rollout: &Rollout, now: Timestamp) {
        self.note_change(at);
        let Some(look) = self.look(at, Some(rollout), now) else { return };
        let Some(host) = self.hosts.get_mut(at) else { return };
        let is_over = look.timed_out_at(host).is_some();
        let (version, last, told) = (host.version, host.last, look.told_version(host));
        let Some(mark) = host.mark.as_mut().filter(|mark| u64::from(mark.rollout) == rollout.number) else { return };
        let last = last.filter(|last| last.to == told && last.at >= mark.told);
        match last.map(|last| last.outcome) {
            Some(Outcome::Started) if !is_over => mark.started = mark.started.or(Some(look.now)),
            Some(Outcome::Switched) if !is_over => mark.switched = mark.switched.or(Some(look.now)),
            Some(Outcome::Started | Outcome::Switched) => {}
            _ if version == told => mark.arrived = mark.arrived.or(Some(look.now)),
            _ => {}
        }
    }

    pub(super) fn look<'a>(&self, at: usize, rollout: Option<&'a Rollout>, now: Timestamp) -> Option<TallyContext<'a>> {
        let rollout = rollout?;
        let group = rollout.group(self.hosts.get(at)?.place)?;
        Some(TallyContext::new(rollout, group, self, now))
    }

    pub(super) fn state(&self, at: usize, rollout: Option<&Rollout>, now: Timestamp) -> Option<HostState> {
        Some(self.look(at, rollout, now)?.state(self.hosts.get(at)?))
    }
}

// Here, and not beside the type, which knows one group and no fleet.
impl<'a> TallyContext<'a> {
    /// Of `group` at `now`.
    pub fn new(rollout: &'a Rollout, group: &'a GroupStatus, fleet: &Fleet, now: Timestamp) -> Self {
        let (start, target) = fleet.versions(rollout);
        let wanted = if group.state == State::RolledBack { start } else { target };
        let is_frozen = group.blackout(now).is_some() || group.is_changed().is_some();
        let listening = rollout.listening(now);
        let (rollout, now) = (rollout.number, Moment::of(now));
        Self { rollout, group, wanted, start, target, now, listening, is_frozen, admits_strangers: !fleet.is_proven }
    }
}

impl Mark {
    fn told(rollout: u64, told: Moment) -> Self {
        Self { rollout: u32::try_from(rollout).unwrap_or(u32::MAX), told, ..Self::default() }
    }
}
