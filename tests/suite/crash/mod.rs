//! Kills, power cuts, full disks, and runs at the same time.

mod cage;
mod disks;
mod model;
mod power;
mod races;
mod recovery;
