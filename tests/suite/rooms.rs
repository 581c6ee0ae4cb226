//! The rooms of the source stand as `docs/architecture.md` lists them: a room uses only those below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The rooms that the table under this heading of the page names, from the top down.
fn floors(heading: &str) -> Vec<String> {
    let page = include_str!("../../docs/architecture.md").split_once(heading).unwrap().1;
    let table = page.split_once("\n|---").unwrap().1;
    let rows = table.lines().skip(1).take_while(|line| line.starts_with("| `"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    names.map(|name| name.trim_end_matches('/').to_owned()).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Reads the source in `folder`, but for the rooms in `others`. Gives how often a room uses another one.
fn uses_of_rooms_below(folder: &str, heading: &str, others: &[&str]) -> usize {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let floors = floors(heading);
    let mut found = Vec::new();
    files(&source, &mut found);
    let (mut uses, mut used_floors) = (0, BTreeSet::new());
    for file in found {
        let inside = file.strip_prefix(&source).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if inside.iter().any(|part| part == "tests") {
            continue;
        }
        let floor = |name: &str| floors.iter().position(|known| known == name);
        let own = floor(&room);
        used_floors.extend(own);
        if others.contains(&room.as_str()) {
            continue;
        }
        let own = own.unwrap_or_else(|| panic!("docs/architecture.md does not list the room {room} of {folder}"));
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("\nmod tests {").next().unwrap();
        for name in code.split("crate::").skip(1).flat_map(first_names) {
            if let Some(used) = floor(&name).filter(|_| name != room) {
                assert!(used > own, "{folder}: {} uses {name}, which stands above {room}", inside.display());
                uses += 1;
            }
        }
    }
    assert_eq!(used_floors.len(), floors.len(), "docs/architecture.md lists a room that {folder} has not: {floors:?}");
    uses
}

/// The rooms that a path names, of which this is what follows `crate::`: of `{a, b::{c, d}}` these are `a` and `b`.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|char| char.is_ascii_lowercase() || *char == '_').collect();
    let Some(list) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut names) = (1, vec![name(list.trim_start())]);
    for (at, char) in list.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(list[at + 1..].trim_start())),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[test]
fn no_room_of_the_agent_uses_one_above_it() {
    // These are for tests alone, or are the door to all of it.
    let uses = uses_of_rooms_below("src", "## The rooms of the source", &["model", "testing", "lib"]);
    assert!(uses > 300, "only {uses} uses were found");
}

#[test]
fn no_room_of_the_rollout_server_uses_one_above_it() {
    let uses = uses_of_rooms_below("fleet/server/src", "The rooms of `fleet/server`", &[]);
    assert!(uses > 100, "only {uses} uses were found");
}

#[test]
fn no_file_of_the_store_uses_one_above_it() {
    let uses = uses_of_rooms_below("fleet/store/src", "The files of `fleet/store`", &["lib"]);
    assert!(uses > 40, "only {uses} uses were found");
}

#[test]
fn no_file_of_the_kubernetes_updater_uses_one_above_it() {
    let uses = uses_of_rooms_below("kube/src", "The files of `kube`", &["lib"]);
    assert!(uses > 60, "only {uses} uses were found");
}

#[test]
fn of_a_list_every_room_counts() {
    assert_eq!(first_names("a::{b, c};"), ["a"]);
    assert_eq!(first_names("{a, b::{c, d}, e_f::G};\nuse x, y;"), ["a", "b", "e_f"]);
}

/// What the agent is built from stays small: nothing of the rollout server reaches it, and no asynchronous runtime.
#[test]
fn the_agent_is_built_without_a_runtime_and_without_the_server() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "teleport-update", "--edges", "normal,build"])
        .args(["--target", "x86_64-unknown-linux-musl", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.contains(&"rustls") && names.len() > 50, "{names:?}");
    let unwanted = ["tokio", "hyper", "axum", "mio", "tracing"];
    let found: Vec<_> = names.iter().filter(|name| unwanted.contains(name) || name.starts_with("fleet-")).collect();
    assert!(found.is_empty(), "{found:?} reach the agent");
}
