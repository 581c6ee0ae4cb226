//! Real updaters that ask a real rollout server (`teleport-fleet`) which version to run, and get the archives elsewhere; and
//! what updaters report to a server that the test plays.

mod attempts;
mod crowd;
mod directed;
mod dry_run;
mod front;
mod identity;
mod migration;
mod packaged;
mod release;
mod reports;
mod rollout;
mod server;
mod sources;
mod visitor;
