//! Real updaters that ask a real rollout server (`teleport-fleet`) which version to run, and get the archives elsewhere.

mod front;
mod packaged;
mod rollout;
mod server;
