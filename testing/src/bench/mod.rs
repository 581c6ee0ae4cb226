//! `make bench`: the updater beside what an operator could use instead, in one run on one machine, and a page that says
//! what came out. Programs are timed undisturbed, each in turn; what they need is looked at in further runs.

pub mod bed;
pub mod downtime;
pub mod host;
pub mod idle;
pub mod lab;
pub mod machine;
pub mod page;
pub mod probe;
pub mod run;
pub mod server;
pub mod statistics;
pub mod storm;
pub mod sysupdate;
pub mod updates;
pub mod ways;
