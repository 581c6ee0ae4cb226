//! Power cuts while a host's script installs: a cell whose agent lives, on a disk that notes each write and flush.

use std::path::Path;

use super::cell::Cell;
use super::flow::{Flow, succeeds, text};
use super::flows::flow;
use super::suite::{CELLS, can};
use super::whole;
use crate::crash::flow::Found;
use crate::crash::host::copy_to;
use crate::crash::power::{self, Cut, Image, Kind, Recording, Volume};
use crate::crash::suite::{Options, Row, explore};

/// The flow.
const NAME: &str = "live-script";
/// The file system: one that orders nothing by itself.
const KIND: Kind = Kind::Ext4Writeback;
/// Runs until the host is on the new version: a script that was cut short may have left half a program, which its author mends.
const RUNS: usize = 3;

/// Power cuts at and between the flushes of an update by a script.
pub fn script(options: &Options) -> Vec<Row> {
    if let Some(reason) = power::cannot(KIND).or_else(|| (!can()).then(|| "cells need root".to_owned())) {
        println!("skipped: power cuts on {}: {reason}", KIND.name());
        return Vec::new();
    }
    power::in_own_mounts(|| {
        let flow = flow(NAME, &options.program).unwrap_or_else(|reason| panic!("{reason}"));
        let empty = KIND.make().unwrap_or_else(|error| panic!("a new {}: {error}", KIND.name()));
        let recording = record(&flow, &empty).unwrap_or_else(|reason| panic!("{reason}"));
        let cuts = recording.cuts(options.seed).into_iter().enumerate();
        let cuts: Vec<Cut> = cuts.filter(|(number, _)| options.takes(*number)).map(|(_, cut)| cut).collect();
        vec![explore(&Options { threads: CELLS, ..options.clone() }, NAME, &cuts, |cut, _| {
            try_cut(&flow, &recording, cut).map_err(|reason| format!("{NAME}: {cut}: {reason}"))
        })]
    })
}

fn record(flow: &Flow, empty: &Image) -> Result<Recording, String> {
    let volume = Volume::mount(KIND, empty.clone()).map_err(text)?;
    std::fs::create_dir(volume.root()).map_err(text)?;
    copy_to(flow.template.path(), &volume.root()).map_err(text)?;
    let prepared = volume.unmount().map_err(text)?;
    let run = |dir: &Path| {
        let cell = Cell::boot(dir, &flow.updater).map_err(text)?;
        cell.start_agent()?;
        succeeds(&cell, flow.line).map(|_| ())
    };
    Recording::of(KIND, prepared, None, run, |_| Ok(Found::New))
}

/// Boots what `cut` left, recovers, and lets the timer's runs come.
fn try_cut(flow: &Flow, recording: &Recording, cut: &Cut) -> Result<Found, String> {
    let volume = Volume::mount(KIND, recording.image(cut)).map_err(text)?;
    let cell = Cell::boot(&volume.root(), &flow.updater).map_err(text)?;
    succeeds(&cell, "recover --boot")?;
    let found = flow.found(&cell)?;
    if cut.promised.is_some_and(|promised| promised != found) {
        return Err(format!("{found:?}, after the command had ended"));
    }
    for _ in 0..RUNS {
        if cell.agent().is_none() {
            let started = cell.start_agent();
            // What the settings say that it runs is whole.
            if found == Found::New {
                started?;
            }
        }
        cell.run(flow.next).map_err(text)?;
        succeeds(&cell, "recover")?;
        if flow.found(&cell)? == Found::New {
            break;
        }
    }
    match (flow.found(&cell)?, &flow.theirs) {
        (Found::New, Some((_, theirs))) => whole::check_theirs(&cell, theirs).map(|_| found),
        (then, _) => Err(format!("{then:?} after {RUNS} runs")),
    }
}
