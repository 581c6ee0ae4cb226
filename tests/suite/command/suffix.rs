//! `--install-suffix`: a second installation that shares nothing with the default one.

use crate::support::*;

#[test]
fn two_installations_share_nothing() {
    transcript::play("command/suffix.txt");
}
