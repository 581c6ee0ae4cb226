//! When a host reports, and what the server's answers do to it.

use crate::support::*;

#[test]
fn a_host_reports_to_whoever_asks_and_what_comes_of_it_harms_no_update() {
    transcript::play("fleet/reports.txt");
}
