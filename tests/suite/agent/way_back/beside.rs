//! What else runs on the machine is nobody's business, the unit tests' own included: an agent of somebody else is not taken for that
//! of an image.

use crate::support::*;

/// The unit tests that look at processes, at least: there are more.
const SOME: usize = 100;

#[test]
fn the_unit_tests_pass_beside_agents_of_others() {
    let may = Command::new("unshare").args(["-mpf", "true"]).output().is_ok_and(|output| output.status.success());
    if !may || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: no name spaces");
        return;
    }
    let Some(program) = unit_tests() else {
        eprintln!("skipped: the unit tests are not built");
        return;
    };
    let mut command = Command::new("unshare");
    command.args(["-mpf", "--mount-proc", "--kill-child"]).arg(beds::checkout("tests/suite/agent/way_back/beside.sh"));
    let ran = Ran::of(&command.arg(program).arg(updater().with_file_name("toy-agent")).output().unwrap());
    let count = ran.stdout.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0_usize);
    assert!(count >= SOME, "{ran:#?}");
    let failed: Vec<&str> = ran.stdout.lines().skip(1).collect();
    assert!(failed.is_empty(), "{} of {count}: {failed:#?}", failed.len());
}

/// The program with the library's unit tests, of the last build: it stands beside this one.
fn unit_tests() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let found = std::fs::read_dir(own.parent()?).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("teleport_update-") && path.extension().is_none()
    });
    let mut found: Vec<PathBuf> = found.collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().modified().unwrap()));
    found.into_iter().find(|path| {
        let list = Command::new(path).arg("--list").output();
        list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains("execute::tests::"))
    })
}
