//! What runs go through in spite of a trouble, and what must be true after each.

use super::{Ends, Running, SETTINGS, Trouble, agent, story};
use crate::support::*;

/// What a broken 1.0.0 finds in its configuration.
const REFUSED_WORD: &str = "no_such_setting";

/// A run from one version to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// To 2.0.0, which is healthy.
    Update,
    /// To 3.0.0, which dies before it touches anything.
    UpdateToDead,
    /// To 3.0.0, which spoils the database and dies.
    UpdateToSpoiler,
    /// To 1.0.0 with its database.
    Downgrade,
    /// To 1.0.0, which dies by now.
    DowngradeToDead,
    /// To 1.0.0 by `rollback`.
    Rollback,
}

/// Who starts the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Hand,
    Unit,
}

impl Flow {
    fn from(self) -> &'static str {
        if self == Self::Update { "1.0.0" } else { "2.0.0" }
    }

    fn to(self) -> &'static str {
        match self {
            Self::Update => "2.0.0",
            Self::UpdateToDead | Self::UpdateToSpoiler => "3.0.0",
            Self::Downgrade | Self::DowngradeToDead | Self::Rollback => "1.0.0",
        }
    }

    fn is_to_healthy(self) -> bool {
        matches!(self, Self::Update | Self::Downgrade | Self::Rollback)
    }

    /// An agent that runs the version from which this goes, and what the cluster names then.
    fn host(self, name: &str) -> Option<Rig> {
        let mut one = Archive::simple("1.0.0");
        if self == Self::DowngradeToDead {
            one = one.trailer_field("refuses", REFUSED_WORD.into());
        }
        let rig = Rig::living(name, SETTINGS, &one)?;
        let two = Archive::simple("2.0.0").schema(2).unit(&unit_of_two(&rig));
        if self == Self::Update {
            rig.release(&two);
            return Some(rig);
        }
        rig.update_to(&two);
        match self {
            Self::UpdateToDead => rig.release(&Archive::simple("3.0.0").schema(3).behaviour("exit-at-once")),
            Self::UpdateToSpoiler => rig.release(&Archive::simple("3.0.0").schema(3).behaviour("corrupts-schema")),
            _ => rig.wish("1.0.0"),
        }
        if self == Self::DowngradeToDead {
            rig.edit("/etc/teleport.yaml", "teleport:", &format!("# {REFUSED_WORD}\nteleport:"));
        }
        Some(rig)
    }

    fn run(self, rig: &Rig, by: By) -> Ran {
        match (by, self) {
            (_, Self::Rollback) => rig.updater(&["rollback"]),
            (By::Hand, _) => rig.updater(&["update"]),
            (By::Unit, _) => Ran::of(&rig.bed.run(&["systemctl", "start", "teleport-update.service"])),
        }
    }

    /// The whole of it: the host, the trouble, the run, the mending, and the next run.
    pub(super) fn go(self, trouble: &Trouble, by: By) {
        let word = format!("{self:?}-{by:?}").to_lowercase();
        let Some(rig) = self.host(&bed_name(trouble, &word)) else { return };
        if !trouble.host.is_empty() {
            rig.bed.sh(trouble.host);
        }
        let before = agent(&rig, "before");
        assert_eq!(before.version, self.from());
        rig.note("of the old version");
        trouble.begin(&rig);
        let ran = self.run(&rig, by);
        self.judge(trouble, &rig, &before, &ran);

        trouble.mend(&rig);
        let target = if self.is_to_healthy() { self.to() } else { self.from() };
        rig.wish(target);
        let next = rig.updater(&["update", "--now"]);
        assert_eq!(next.status, 0, "the next run: {next:#?}\nafter {ran:#?}\n{}", story(&rig));
        assert_eq!(agent(&rig, "after the next run").version, target);
        assert_eq!(rig.status()["recovery_pending"], false);
        rig.assert_tidy();
    }

    #[track_caller]
    fn judge(self, trouble: &Trouble, rig: &Rig, before: &Running, ran: &Ran) {
        let ends = trouble.ends;
        let is_down = !rig.bed.run(&["systemctl", "is-active", "-q", "teleport"]).status.success();
        if ends == Ends::PerhapsDown && is_down {
            assert_ne!(ran.status, 0, "an agent that is down is no success: {ran:#?}");
            return;
        }
        let after = agent(rig, &format!("after the run, which said {ran:#?}"));
        let told = || format!("{ran:#?}\n{}", story(rig));
        if !self.is_to_healthy() {
            assert_eq!((after.version.as_str(), ran.status != 0), (self.from(), true), "{}", told());
            assert!(rig.has_note("of the old version"), "{}", told());
            // Its successor died, and the database is as it was: an undo stops nothing that it need not.
            if self == Self::UpdateToDead && !trouble.unit.contains("ExecReload") {
                assert_eq!(after.pid, before.pid, "{}", told());
            }
            assert_eq!(rig.status()["recovery_pending"], false, "{}", told());
            return;
        }
        let expected = if ran.status == 0 { self.to() } else { self.from() };
        assert_eq!(after.version, expected, "the exit status says something else: {}", told());
        match ends {
            Ends::There => assert_eq!(ran.status, 0, "{}", told()),
            Ends::Untouched => assert_ne!(ran.status, 0, "{}", told()),
            Ends::ThereOrUntouched | Ends::Anywhere | Ends::PerhapsDown => {}
        }
        if ran.status != 0 && matches!(ends, Ends::Untouched | Ends::ThereOrUntouched) {
            assert_eq!(after.pid, before.pid, "found after the first step: {}", told());
            assert_eq!(rig.status()["refused"], serde_json::json!([]), "the version is not to blame: {}", told());
        }
        assert_eq!(rig.status()["recovery_pending"], false, "{}", told());
    }
}

/// A bed's name is a host's, which may be no longer than 64 bytes with what makes it unique.
fn bed_name(trouble: &Trouble, word: &str) -> String {
    let all = format!("wb-{}-{word}", trouble.name).replace('_', "-");
    all.chars().take(36).collect::<String>().trim_end_matches('-').to_owned()
}

/// Another unit than that of 1.0.0, so that the manager has something to read again.
fn unit_of_two(rig: &Rig) -> String {
    let unit = rig.bed.sh("cat $(systemctl show -p FragmentPath --value teleport)");
    unit.replace("[Service]", "[Service]\nEnvironment=OF_TWO=1")
}
