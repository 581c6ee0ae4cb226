//! Every call of every flow meets every fault (KUBE §11); `make test-kube` has a slice, `make kube-faults` the whole.
//! `KUBE_FAULTS_SEED` chooses the points of the slice, `KUBE_FAULTS_WIDTH` how many flows live side by side: on a machine that is
//! too small for them pods come late, and what waits for them fails.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kube_bed::KubeBed;
use testing::crash::Random;

use crate::scene::Scene;
use crate::stage::{Fault, Flow, Found, Place, Point, live, replay};

/// Flows that live side by side: each waits for pods and clocks most of its time.
const SIDE_BY_SIDE: usize = 24;
/// Points of the slice: what passes side by side at once.
const SLICE: usize = 24;
/// What an update asks its source for.
const SOURCE: [&str; 3] = ["webapi/find", "channel/version", "channel/critical"];

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Does `work` on each of `all`, side by side.
pub fn each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let width = variable("KUBE_FAULTS_WIDTH").map_or(SIDE_BY_SIDE, |width| width.parse().unwrap());
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..width.min(all.len()) {
            scope.spawn(|| {
                let take = || {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    Some((at, all.get(at)?))
                };
                while let Some((at, one)) = take() {
                    let result = work(one);
                    done.lock().unwrap().insert(at, result);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

/// A test's own panic is a violation too: the rest goes on.
fn found(bed: &KubeBed, flow: Flow, point: Option<&Point>) -> Found {
    let found = catch_unwind(AssertUnwindSafe(|| live(bed, flow, point)));
    found.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        Found { violations: [format!("a panic: {text}")].into(), ..Found::default() }
    })
}

/// The points of the flows, as the flows' calls are without a fault.
fn points(bed: &KubeBed, flows: &[Flow]) -> Vec<Point> {
    let faultless = each(flows, |flow| found(bed, *flow, None));
    let mut points = Vec::new();
    for (flow, found) in flows.iter().zip(faultless) {
        assert!(found.violations.is_empty(), "{flow:?} without a fault: {:?}", found.violations);
        let mut places: Vec<_> = found.calls.into_iter().map(|(kind, count)| (Place::Api(kind), count)).collect();
        if *flow == Flow::Update {
            places.push((Place::Registry, found.asked));
            places.extend(SOURCE.map(|path| (Place::Source(path), 1)));
        }
        for (place, count) in places {
            for number in 1..=count {
                points.extend(Fault::of(&place).map(|fault| Point {
                    flow: *flow,
                    place: place.clone(),
                    number,
                    fault,
                }));
            }
        }
    }
    points
}

/// Lives them all, and gives a table: flow, fault, points, how many were met, violations.
fn table(bed: &KubeBed, points: &[Point]) -> (String, Vec<String>) {
    let begun = Instant::now();
    let done = AtomicUsize::new(0);
    let all = each(points, |point| {
        let found = found(bed, point.flow, Some(point));
        let number = done.fetch_add(1, Ordering::SeqCst) + 1;
        for violation in &found.violations {
            eprintln!("{point:?}: {violation}");
        }
        if number.is_multiple_of(50) {
            eprintln!("{number} of {} points, {} s", points.len(), begun.elapsed().as_secs());
        }
        found
    });
    let mut rows = BTreeMap::<(String, Fault), [usize; 3]>::new();
    let mut violations = Vec::new();
    for (point, found) in points.iter().zip(all) {
        let place = match &point.place {
            Place::Api(_) => format!("{:?}", point.flow),
            Place::Registry => "Update, registry".to_owned(),
            Place::Source(_) => "Update, source".to_owned(),
        };
        let row = rows.entry((place, point.fault)).or_default();
        row[0] += 1;
        row[1] += usize::from(found.is_met);
        row[2] += usize::from(!found.violations.is_empty());
        violations.extend(found.violations.into_iter().map(|violation| format!("{point:?}: {violation}")));
    }
    let mut text = "flow              fault         points    met  violations\n".to_owned();
    for ((place, fault), [points, met, bad]) in rows {
        let _ = writeln!(text, "{place:<17} {:<12} {points:>7} {met:>6} {bad:>11}", format!("{fault:?}"));
    }
    (text, violations)
}

fn show(bed: &KubeBed, points: &[Point]) {
    let begun = Instant::now();
    let (table, violations) = table(bed, points);
    println!("{table}{} points in {} s", points.len(), begun.elapsed().as_secs());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn a_slice_of_all_calls_and_faults() {
    let Some(bed) = KubeBed::shared() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = variable("KUBE_FAULTS_SEED").map_or(now.subsec_nanos().into(), |seed| seed.parse().unwrap());
    println!("KUBE_FAULTS_SEED={seed}");
    let mut random = Random::new(seed);
    let all = points(bed, &Flow::ALL);
    let each = SLICE / Flow::ALL.len();
    let of = |flow| all.iter().filter(|point| point.flow == flow).cloned().collect::<Vec<_>>();
    let some: Vec<_> = Flow::ALL.into_iter().flat_map(|flow| random.some(&of(flow), each)).collect();
    show(bed, &some);
}

#[test]
fn a_write_that_comes_when_all_is_over_changes_nothing() {
    let Some(bed) = KubeBed::shared() else { return };
    let taken = each(&Flow::ALL, |flow| replay(bed, *flow));
    assert!(taken.iter().all(Vec::is_empty), "{taken:#?}");
}

#[test]
fn a_source_file_that_is_gone_is_said_and_touches_nothing() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "gone", &["agent"]);
    scene.deploy("agent");
    std::fs::remove_file(scene.folder.path().join("release.yaml")).unwrap();
    scene.start();
    let state = scene.told("agent", "source_unreachable");
    assert!(state["told"]["why"].as_str().unwrap().contains("release.yaml does not exist"), "{state}");
    scene.want("2.0.0", "");
    scene.restart();
    scene.told("agent", "updated");
    assert_eq!(scene.versions(), ["2.0.0"]);
}

/// `KUBE_FAULTS_FLOWS=Update,Publish`: these alone; `KUBE_FAULTS_KIND="PATCH statefulsets"`: points in whose text that stands
/// (`!leases`: does not stand).
#[test]
#[ignore = "half an hour: make kube-faults"]
fn all_calls_and_faults() {
    let Some(bed) = KubeBed::shared() else { return };
    let named = variable("KUBE_FAULTS_FLOWS");
    let is_named =
        |flow: &Flow| named.as_ref().is_none_or(|named| named.split(',').any(|name| name == format!("{flow:?}")));
    let flows: Vec<_> = Flow::ALL.into_iter().filter(is_named).collect();
    let kind = variable("KUBE_FAULTS_KIND");
    let is_meant = |point: &Point| {
        let stands = |kind: &str| format!("{point:?}").contains(kind);
        kind.as_ref().is_none_or(|kind| kind.strip_prefix('!').map_or_else(|| stands(kind), |kind| !stands(kind)))
    };
    let points: Vec<_> = points(bed, &flows).into_iter().filter(is_meant).collect();
    show(bed, &points);
}
