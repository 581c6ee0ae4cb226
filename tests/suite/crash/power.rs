//! SPEC §8 on a real file system: slices of the power-cut suites (`make crash` runs them whole).

use testing::crash::power::{self, Kind};
use testing::crash::suite::{Options, Row};

use crate::support::*;

/// Which cuts the slices take, and every how manieth: some forty of a flow.
const SEED: u64 = 3;
const EVERY: usize = 8;

tests_of! { slice:
    power_may_be_cut_at_any_time_of_an_update("update", Kind::Ext4, EVERY, power::ext4);
    power_may_be_cut_at_any_time_of_a_downgrade_that_restores("downgrade", Kind::Ext4, EVERY, power::ext4);
    power_may_be_cut_at_any_time_of_an_update_on_xfs("update", Kind::Xfs, 2 * EVERY, power::xfs);
    power_may_be_cut_while_recovering_from_a_power_cut("downgrade", Kind::Ext4, 2 * EVERY, power::recovery);
}

fn slice(flow: &str, kind: Kind, every: usize, suite: fn(&Options) -> Vec<Row>) {
    if let Some(reason) = power::cannot(kind) {
        eprintln!("skipped: power cuts on {}: {reason}", kind.name());
        return;
    }
    let mut options = Options::all(Updater::new(&updater()));
    options.flow = Some(flow.to_owned());
    options.every = every;
    options.seed = SEED;
    let rows = suite(&options);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert!(row.violations.is_empty(), "{:#?}", row.violations);
    assert!(row.tried > 5 && row.old > 0, "{row:?}");
}
