//! The rooms of the source stand as `docs/architecture.md` lists them: a room uses only those below it.

use std::path::{Path, PathBuf};

/// The rooms named in the table of the page, from the top down.
fn floors() -> Vec<String> {
    let page = include_str!("../../docs/architecture.md");
    let table = page.split("| room | holds | does not |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    names.map(|name| name.trim_end_matches('/').to_owned()).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn no_room_uses_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floors = floors();
    let mut found = Vec::new();
    files(&source, &mut found);
    let mut uses = 0;
    for file in found {
        let inside = file.strip_prefix(&source).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        // These are for tests alone, or are the door to all of it.
        if ["model", "testing", "lib"].contains(&room.as_str()) || inside.iter().any(|part| part == "tests") {
            continue;
        }
        let floor = |name: &str| floors.iter().position(|known| known == name);
        let own = floor(&room).unwrap_or_else(|| panic!("docs/architecture.md does not list the room {room}"));
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for rest in code.split("crate::").skip(1) {
            let name: String = rest.chars().take_while(|char| char.is_ascii_lowercase() || *char == '_').collect();
            if let Some(used) = floor(&name).filter(|_| name != room) {
                assert!(used > own, "{} uses {name}, which stands above {room}", inside.display());
                uses += 1;
            }
        }
    }
    assert!(uses > 300, "only {uses} uses were found");
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
