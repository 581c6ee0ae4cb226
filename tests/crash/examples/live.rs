#![allow(missing_docs)]
use test_crash::live::suite::{self, Choice};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let updater = test_crash::Updater::new(args[1].as_ref());
    let begun = std::time::Instant::now();
    let count: usize = args[3].parse().unwrap();
    let choice = if count == 0 { Choice::All } else { Choice::Some { count, seed: 7 } };
    let line = suite::run(&args[2], &updater, choice, args.get(4).is_some());
    for violation in &line.violations { println!("VIOLATION {violation}"); }
    println!("{} points {} old {} new {} violations {} in {:?}", line.name, line.points, line.old, line.new, line.violations.len(), begun.elapsed());
}
