//! Kills, power cuts, full disks, and runs at the same time.

mod sandbox;
mod disks;
mod model;
mod power;
mod races;
mod recovery;
