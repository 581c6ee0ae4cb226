//! Another link directory for a host that is installed already: what systemd loads goes with the links, or nothing does.

use crate::support::*;

#[test]
fn the_unit_goes_with_the_links_or_nothing_does() {
    transcript::play("command/link_directory.txt");
}
