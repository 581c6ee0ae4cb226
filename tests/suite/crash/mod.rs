//! Kills, power cuts, full disks, and runs at the same time.

mod disks;
mod model;
mod power;
mod races;
mod recovery;
mod samples;
mod sandbox;
