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

/// A helper's step beside the agent's.
fn helper(bed: &Bed) -> Placement {
    let now = Node::Link(bed.layout.path_inside(&bed.version("2.0.0").join("bin/tsh")));
    Placement { path: bed.layout.link_dir.join("tsh"), was: Node::Absent, now, part: Part::Helper }
}

/// The agent's step where one that is kept makes way for 2.0.0, or comes back for 1.0.0.
fn of_kept(bed: &Bed, is_kept_before: bool) -> Step {
    let mut step = bed.switch();
    let Step::LinkAgent { place, .. } = &mut step else { panic!() };
    let kept = Node::Kept(bed.layout.versions.join("kept"));
    *(if is_kept_before { &mut place.was } else { &mut place.now }) = kept;
    step
}

#[test]
fn what_a_run_finds_puts_or_takes_away_is_its_own_and_what_else_stands_there_tells_of_a_later_one() {
    let both = |bed: &Bed| vec![bed.switch(), Step::Place(helper(bed))];
    let old_helper = |bed: &Bed| {
        let of_old = Placement { was: Node::Link(bed.target("0.9.0")), now: Node::Absent, ..helper(bed) };
        vec![Step::Place(of_old), Step::Place(helper(bed))]
    };
    type Row<'a> = (&'a dyn Fn(&Bed) -> Vec<Step>, bool, &'a str, &'a [&'a str], &'a [&'a str]);
    // The steps, whether they were committed, at which name, and what may be there and what tells of others. Of a helper's name
    // the database says nothing, but what is another version's, or the agent's own, does; a name with two steps may be as either
    // has found or put it; after the commit an agent of others is a later matter; one that was set aside may be back.
    let rows: [Row<'_>; 6] = [
        (&both, false, "teleport", &["1.0.0", "2.0.0", "nothing"], &["3.0.0", "elsewhere", "a file"]),
        (&both, false, "tsh", &["its own", "nothing", "elsewhere", "a file"], &["3.0.0", "1.0.0"]),
        (&old_helper, false, "tsh", &["0.9.0", "its own", "nothing"], &["3.0.0"]),
        (&|bed| vec![bed.switch()], true, "teleport", &["a file", "elsewhere"], &["3.0.0"]),
        (&|bed| vec![of_kept(bed, true)], false, "teleport", &["a file"], &["3.0.0"]),
        (&|bed| vec![of_kept(bed, false)], false, "teleport", &["a file"], &["3.0.0"]),
    ];
    for (steps, is_committed, name, own, others) in rows {
        let mut found = Found::killed(steps);
        if is_committed {
            found.journal.append(Record::Commit).unwrap();
        }
        let path = found.bed.layout.link_dir.join(name);
        let node = |what: &str| match what {
            "nothing" => Node::Absent,
            "elsewhere" => Node::Link("/opt/teleport/bin/teleport".into()),
            "a file" => Node::Text("an agent\n".into()),
            "its own" => helper(&found.bed).now,
            version => found.version(version),
        };
        for what in own {
            assert_eq!(found.told(&path, &node(what)), None, "{name}: {what}");
        }
        for what in others {
            let told = found.told(&path, &node(what)).unwrap_or_else(|| panic!("{name}: {what}"));
            let how = if *what == "a file" { "is a file" } else { "leads to" };
            assert!(told.contains(&format!("{} {how}", path.display())), "{told}");
        }
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
