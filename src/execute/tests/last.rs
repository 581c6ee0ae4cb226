//! Whether a journal is the host's last one, or came back with a backup.

use super::super::recovery::check_is_last;
use super::*;

/// A host whose run of these steps was killed before it did the first of them, with what the names say now.
struct Found {
    bed: Bed,
    journal: Journal,
}

impl Found {
    fn killed(steps: impl FnOnce(&Bed) -> Vec<Step>) -> Self {
        let bed = Bed::new();
        let plan = plan(steps(&bed));
        let mut journal = bed.begin(&plan);
        journal.append_all((0..plan.switch.len()).map(|step| Record::Intent { step }).collect()).unwrap();
        Self { bed, journal }
    }

    /// What is told with `node` at `path`; nothing if the journal is the last one.
    fn told(&self, path: &Path, node: &Node) -> Option<String> {
        durable::remove_file(path).unwrap();
        match node {
            Node::Link(target) => durable::symlink(target, path).unwrap(),
            Node::Text(text) => durable::write(path, text.as_bytes(), 0o755).unwrap(),
            _ => {}
        }
        let error = check_is_last(&self.journal, &self.bed.layout).err()?;
        assert_eq!(error.code, Code::JournalUnknown);
        Some(error.what)
    }

    fn version(&self, version: &str) -> Node {
        Node::Link(self.bed.target(version))
    }
}

fn elsewhere() -> Node {
    Node::Link("/opt/teleport/bin/teleport".into())
}

fn file() -> Node {
    Node::Text("an agent\n".into())
}

/// A helper's step beside the agent's.
fn helper(bed: &Bed) -> Placement {
    let now = Node::Link(bed.layout.path_inside(&bed.version("2.0.0").join("bin/tsh")));
    Placement { path: bed.layout.link_dir.join("tsh"), was: Node::Absent, now, part: Part::Helper }
}

#[test]
fn what_a_run_finds_puts_or_takes_away_is_its_own_and_another_version_or_agent_is_not() {
    let found = Found::killed(|bed| vec![bed.switch(), Step::Place(helper(bed))]);
    let agent = found.bed.agent();
    for own in [found.version("1.0.0"), found.version("2.0.0"), Node::Absent] {
        assert_eq!(found.told(&agent, &own), None, "{own:?}");
    }
    for (strange, words) in [(found.version("3.0.0"), "leads to"), (elsewhere(), "leads to"), (file(), "is a file")] {
        let told = found.told(&agent, &strange).unwrap_or_else(|| panic!("{strange:?}"));
        assert!(told.contains(&format!("{} {words}", agent.display())), "{told}");
    }
}

#[test]
fn a_helper_of_others_says_nothing_of_the_database_and_one_of_another_version_does() {
    let found = Found::killed(|bed| vec![bed.switch(), Step::Place(helper(bed))]);
    let place = helper(&found.bed);
    for quiet in [place.now.clone(), Node::Absent, elsewhere(), file()] {
        assert_eq!(found.told(&place.path, &quiet), None, "{quiet:?}");
    }
    assert!(found.told(&place.path, &found.version("3.0.0")).is_some());
    // What is the agent's own at its name is none of the helper's.
    assert!(found.told(&place.path, &found.version("1.0.0")).is_some());
}

#[test]
fn a_name_with_two_steps_may_be_left_as_either_found_or_put_it() {
    let found = Found::killed(|bed| {
        let of_old = Placement { was: Node::Link(bed.target("0.9.0")), now: Node::Absent, ..helper(bed) };
        vec![Step::Place(of_old), Step::Place(helper(bed))]
    });
    let place = helper(&found.bed);
    for own in [found.version("0.9.0"), place.now.clone(), Node::Absent] {
        assert_eq!(found.told(&place.path, &own), None, "{own:?}");
    }
    assert!(found.told(&place.path, &found.version("3.0.0")).is_some());
}

#[test]
fn after_its_commit_an_agent_of_others_is_a_later_matter_and_another_version_is_not() {
    let mut found = Found::killed(|bed| vec![bed.switch()]);
    found.journal.append(Record::Commit).unwrap();
    let agent = found.bed.agent();
    for later in [file(), elsewhere()] {
        assert_eq!(found.told(&agent, &later), None, "{later:?}");
    }
    assert!(found.told(&agent, &found.version("3.0.0")).is_some());
}

#[test]
fn an_agent_that_was_set_aside_may_be_back_at_its_name() {
    for is_kept_before in [true, false] {
        let found = Found::killed(|bed| {
            let mut step = bed.switch();
            let Step::LinkAgent { place, .. } = &mut step else { panic!() };
            let kept = Node::Kept(bed.layout.versions.join("kept"));
            *(if is_kept_before { &mut place.was } else { &mut place.now }) = kept;
            vec![step]
        });
        assert_eq!(found.told(&found.bed.agent(), &file()), None);
        assert!(found.told(&found.bed.agent(), &found.version("3.0.0")).is_some());
    }
}

#[test]
fn a_run_that_has_nothing_to_undo_or_is_over_is_nobodys_past() {
    let bed = Bed::new();
    let journal = bed.begin(&plan(vec![bed.switch()]));
    let begun = Found { bed, journal };
    assert_eq!(begun.told(&begun.bed.agent(), &begun.version("3.0.0")), None);
    let mut over = Found::killed(|bed| vec![bed.switch()]);
    let another = over.version("3.0.0");
    assert!(over.told(&over.bed.agent(), &another).is_some());
    over.journal.append(Record::Closed).unwrap();
    assert_eq!(over.told(&over.bed.agent(), &another), None);
}
