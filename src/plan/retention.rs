//! Which versions go after a commit (SPEC §5, retention). Pure.

use crate::plan::facts::{Facts, Installed, Name, is_updater_name};
use crate::store::VersionDir;
use protocol::Revision;

/// So many versions, the newest, stay for what users run who have nothing to do with the agent, such as a bot's `tbot`:
/// anybody can keep a program running, and must not fill the disk by it.
const KEPT_FOR_OTHERS: usize = 2;

/// The directories to be removed once `to` (in `to_dir`) is active. If it is `watched`, the version left stays whatever
/// `keep` says: with `keep: 1` it goes only after the watch, by [`after_watch`].
pub(crate) fn retire(facts: &Facts, to: &Revision, to_dir: &VersionDir, watched: bool) -> Vec<VersionDir> {
    let last_working = facts.active.as_ref().filter(|active| *active != to).or(facts.previous.as_ref());
    // A version still to be downloaded counts already, so that a plan tells what its run will do.
    let coming = u32::from(facts.installed.iter().all(|installed| installed.dir != *to_dir));
    let keep = if watched { facts.keep.max(2) } else { facts.keep };
    surplus(facts, keep - coming.min(keep), |installed| {
        installed.dir == *to_dir || (keep > 1 && Some(&installed.revision) == last_working)
    })
}

/// The directories to be removed when the active version has stood its watch.
pub(crate) fn after_watch(facts: &Facts) -> Vec<VersionDir> {
    let (Some(active), Some(linked)) = (&facts.active, facts.linked_dir()) else {
        return Vec::new();
    };
    // Two sources of truth that disagree: nothing is deleted.
    if facts.find(active).is_none_or(|installed| installed.dir != linked) {
        return Vec::new();
    }
    surplus(facts, facts.keep, |installed| {
        installed.revision == *active || (facts.keep > 1 && Some(&installed.revision) == facts.previous.as_ref())
    })
}

/// Everything but what `needed` names, what links or processes use, and the newest up to `keep` in all. Of what only other
/// users' processes use the newest [`KEPT_FOR_OTHERS`] stay.
fn surplus(facts: &Facts, keep: u32, needed: impl Fn(&Installed) -> bool) -> Vec<VersionDir> {
    let linked: Vec<VersionDir> = facts.links().filter_map(|node| facts.dir_of(node)).collect();
    let is_source = |name: &Name, dir| is_updater_name(&name.name) && facts.dir_of(&name.node).as_ref() == Some(dir);
    let is_updater_source = |dir| facts.names.iter().any(|name| is_source(name, dir));
    let (kept, mut others): (Vec<&Installed>, Vec<&Installed>) =
        facts.installed.iter().partition(|installed| needed(installed));
    others.sort_by(|a, b| (b.install_time, &b.revision).cmp(&(a.install_time, &a.revision)));
    let spare = (keep as usize).saturating_sub(kept.len());
    let active_dir = facts.active.as_ref().and_then(|active| facts.find(active)).map(|installed| &installed.dir);
    let is_used_by_others = |installed: &&Installed| facts.in_use_by_others.contains(&installed.dir);
    let unused = others.into_iter().skip(spare).filter(|installed| {
        let used = facts.in_use.contains(&installed.dir)
            || is_updater_source(&installed.dir)
            || (linked.contains(&installed.dir) && Some(&installed.dir) != active_dir);
        !used
    });
    let (for_others, mut surplus): (Vec<&Installed>, Vec<&Installed>) = unused.partition(is_used_by_others);
    surplus.extend(for_others.into_iter().skip(KEPT_FOR_OTHERS));
    surplus.into_iter().map(|installed| installed.dir.clone()).collect()
}
