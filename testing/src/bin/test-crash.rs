//! `test-crash`: runs crash suites and prints a table for each.

use std::process::ExitCode;

use testing::crash::suite::{self, Suite};
use testing::crash::{NAMES, Updater, live, power, suites};

/// Every suite; a new one is a line here.
const SUITES: &[Suite] = &[
    Suite { name: "kill", about: "killed before each changing call", run: suites::kill::run },
    Suite { name: "recovery", about: "recovery killed before each changing call", run: suites::recovery::run },
    Suite {
        name: "written",
        about: "killed after the switch; the new version's agent writes",
        run: suites::written::run,
    },
    Suite { name: "fault", about: "each changing call fails once, in each way", run: suites::fault::run },
    Suite { name: "lasting", about: "from each changing call on, nothing can be written", run: suites::lasting::run },
    Suite { name: "recovery-fault", about: "each call of a recovery fails once", run: suites::recovery_fault::run },
    Suite { name: "looks", about: "looking calls fail, a sample", run: suites::looks::run },
    Suite { name: "signal", about: "SIGTERM or SIGINT at each changing call", run: suites::signal::run },
    Suite { name: "power-ext4", about: "power cuts at and between flushes, on ext4", run: power::ext4 },
    Suite { name: "power-busy", about: "the same, while somebody else syncs there all the time", run: power::busy },
    Suite { name: "power-writeback", about: "the same, ext4 with data=writeback", run: power::ext4_writeback },
    Suite { name: "power-xfs", about: "the same, xfs", run: power::xfs },
    Suite { name: "power-recovery", about: "power cuts in the recovery from a power cut", run: power::recovery },
    Suite { name: "live", about: "killed before each changing call while the agent lives", run: live::suite::kill },
    Suite { name: "live-recovery", about: "the same, and its recovery killed as well", run: live::suite::recovery },
    Suite { name: "live-signal", about: "SIGTERM or SIGINT at each step, the agent lives", run: live::suite::signal },
    Suite { name: "live-fault", about: "each call fails, or the disk is full; hosts report", run: live::suite::fault },
    Suite { name: "live-power", about: "power cuts while a script installs", run: live::power::script },
    Suite { name: "writers", about: "undisturbed, the agent writes hard", run: live::suite::writers },
];

fn main() -> ExitCode {
    // For scripts: whether there is such a suite, and it can run here.
    if let [flag, suite] = std::env::args().skip(1).collect::<Vec<_>>().as_slice()
        && flag == "--can"
    {
        let is_live = suite.starts_with("live") || suite == "writers";
        let can = SUITES.iter().any(|known| known.name == suite)
            && power::cannot_run(suite).is_none()
            && (!is_live || live::suite::can());
        return ExitCode::from(u8::from(!can));
    }
    let flows = NAMES.iter().chain(&live::flows::NAMES).copied();
    let flows: Vec<&str> = flows.chain(live::flows::WRITERS.map(|(name, _)| name)).collect();
    suite::main("test-crash", SUITES, &flows, Updater::new)
}
