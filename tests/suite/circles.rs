//! No two files of a crate use each other, by whatever way round: who changes one reads one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates in which also a module and its children do not use each other.
const WHOLE: [&str; 2] = ["fleet/server/src", "fleet/store/src"];

/// Who uses whom.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The files of a crate by the path of their modules, without their tests and comments. The root is `""`.
fn modules(folder: &Path, path: &[String], found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let stem = entry.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = || path.iter().cloned().chain([stem.clone()]).collect::<Vec<_>>();
        if stem == "tests" {
            continue;
        }
        if entry.is_dir() {
            modules(&entry, &inner(), found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let is_of_folder = ["mod", "lib", "main"].contains(&stem.as_str());
            let module = if is_of_folder { path.to_vec() } else { inner() };
            let text = std::fs::read_to_string(&entry).unwrap();
            let code = text.split("\nmod tests {").next().unwrap();
            let code = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
            found.insert(module.join("::"), code);
        }
    }
}

/// The paths of a `use`, without braces: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        found.push(format!("{prefix}{}", tree.split(" as ").next().unwrap().trim()));
        return;
    };
    let inner = inner.rsplit_once('}').unwrap().0;
    let (mut depth, mut begin) = (0_i32, 0);
    for (at, char) in inner.char_indices().chain([(inner.len(), ',')]) {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[begin..at].trim().is_empty() {
                    expand(&format!("{prefix}{before}"), &inner[begin..at], found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// What a file's `use` lines name; `all`: else only what it gives on (`pub use`).
fn imports(code: &str, all: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let line = code[..at].rsplit('\n').next().unwrap().trim();
        let is_public = line.starts_with("pub") && !line.contains(' ') || line.ends_with(')');
        if (all && line.is_empty()) || (is_public && line.starts_with("pub")) {
            expand("", code[at + 4..].split(';').next().unwrap(), &mut found);
        }
    }
    found
}

/// Paths within the crate that stand in the code.
fn mentions(code: &str) -> Vec<String> {
    let is_of_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
    let words = code.split(|char: char| !is_of_path(char));
    let begins = ["crate::", "super::", "self::"];
    words
        .filter(|word| !word.ends_with("::") && begins.iter().any(|begin| word.starts_with(begin)))
        .map(str::to_owned)
        .collect()
}

struct Crate {
    files: BTreeMap<String, String>,
}

impl Crate {
    /// The crate whose source is in `source`, a folder of this repository.
    fn read(source: &Path) -> Self {
        let mut files = BTreeMap::new();
        modules(source, &[], &mut files);
        Self { files }
    }

    /// A path of the module `from` as the crate has it, with nothing before its first module; `None`: it is of another crate.
    fn absolute(&self, from: &str, path: &str) -> Option<Vec<String>> {
        let own: Vec<&str> = from.split("::").filter(|part| !part.is_empty()).collect();
        let parts: Vec<&str> = path.split("::").map(str::trim).filter(|part| !part.is_empty()).collect();
        let joined =
            |base: &[&str], rest: &[&str]| Some([base, rest].concat().into_iter().map(str::to_owned).collect());
        match *parts.first()? {
            "crate" => joined(&[], &parts[1..]),
            "self" => joined(&own, &parts[1..]),
            "super" => {
                let up = parts.iter().take_while(|part| **part == "super").count();
                joined(&own[..own.len().saturating_sub(up)], &parts[up..])
            }
            first => {
                let child = own.iter().copied().chain([first]).collect::<Vec<_>>().join("::");
                self.files.contains_key(&child).then(|| joined(&own, &parts)).flatten()
            }
        }
    }

    /// The file in which that stands what `path` leads to: names that a file gives on are followed.
    fn file(&self, from: &str, path: &str) -> Option<String> {
        let mut path = self.absolute(from, path)?;
        for _ in 0..8 {
            let depth = (0..=path.len()).rev().find(|depth| self.files.contains_key(&path[..*depth].join("::")))?;
            let (file, rest) = (path[..depth].join("::"), path[depth..].to_vec());
            let given = imports(&self.files[&file], false);
            let next = rest.first().filter(|_| file != from).and_then(|name| {
                let given = given.iter().find(|given| given.rsplit("::").next() == Some(name))?;
                self.absolute(&file, given)
            });
            match next {
                Some(next) => path = next.into_iter().chain(rest.into_iter().skip(1)).collect(),
                None => return Some(file),
            }
        }
        None
    }

    /// Between files. `is_whole`: also of children to what their module holds; else that is no use, for a module's own file is the
    /// place of what its children share. What the root of a crate holds is everybody's.
    fn uses(&self, is_whole: bool) -> Uses {
        let is_left_out = |used: &str, from: &str| {
            let is_own_module = !is_whole && from.starts_with(&format!("{used}::"));
            is_own_module || used.is_empty() || from.is_empty()
        };
        let of = |(from, code): (&String, &String)| {
            let paths = imports(code, true).into_iter().chain(mentions(code));
            let used = paths.filter_map(|path| self.file(from, &path));
            let used = used.filter(|used| used != from && !is_left_out(used, from));
            (from.clone(), used.collect())
        };
        self.files.iter().map(of).collect()
    }
}

/// Between rooms: what stands first in the path of a module.
fn rooms(uses: &Uses) -> Uses {
    let room = |module: &str| module.split("::").next().unwrap().to_owned();
    let mut rooms = Uses::new();
    for (from, used) in uses {
        let used = used.iter().map(|used| room(used)).filter(|used| *used != room(from));
        rooms.entry(room(from)).or_default().extend(used);
    }
    rooms
}

/// Those that reach each other.
fn circles(uses: &Uses) -> BTreeSet<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(at) = left.pop() {
            left.extend(uses.get(at).into_iter().flatten().filter(|used| seen.insert((*used).clone())));
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = uses.keys().map(|from| (from, reached(from))).collect();
    let circle = |from: &&String| {
        let around = reached[from].iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(*from)));
        around.cloned().collect::<Vec<_>>()
    };
    uses.keys().map(|from| circle(&from)).filter(|circle| !circle.is_empty()).collect()
}

/// The sources of all crates: the agent's, the Kubernetes updater's, and those below these folders.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let below = ["crates", "fleet", "kube"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let crates = below.into_iter().flatten().map(|entry| entry.unwrap().path().join("src"));
    crates
        .filter(|source| source.is_dir())
        .chain(["src", "kube/src", "kube/registry/src"].map(|own| root.join(own)))
        .collect()
}

#[test]
fn no_files_of_a_crate_use_each_other() {
    let (mut found, mut count) = (BTreeSet::new(), 0);
    for source in sources() {
        let uses = Crate::read(&source).uses(WHOLE.iter().any(|whole| source.ends_with(whole)));
        count += uses.values().map(BTreeSet::len).sum::<usize>();
        let both = circles(&uses).into_iter().chain(circles(&rooms(&uses)));
        found.extend(both.map(|circle| (source.clone(), circle)));
    }
    assert!(count > 1000, "only {count} uses were found");
    assert!(found.is_empty(), "these use each other: {found:#?}");
}

#[test]
fn a_circle_is_found_also_by_way_of_a_name_that_is_given_on() {
    let files = [
        ("", "mod a;\nmod b;"),
        ("a", "use crate::b::{self, Thing as Other};\nuse std::fmt;"),
        ("b", "mod c;\npub(crate) use c::Thing;"),
        ("b::c", "fn of(a: &crate::a::A) {}"),
    ];
    let files = files.map(|(module, code)| (module.to_owned(), code.to_owned())).into();
    let uses = Crate { files }.uses(false);
    assert!(circles(&uses).contains(["a", "b", "b::c"].map(str::to_owned).as_slice()), "{uses:?}");
    assert!(circles(&rooms(&uses)).contains(&vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn a_child_that_uses_what_its_module_holds_is_a_circle_where_that_is_asked() {
    let files = [("", "mod a;"), ("a", "mod b;\nuse b::B;\nstruct A;"), ("a::b", "use super::A;")];
    let files = Crate { files: files.map(|(module, code)| (module.to_owned(), code.to_owned())).into() };
    assert!(circles(&files.uses(false)).is_empty());
    assert_eq!(circles(&files.uses(true)), [vec!["a".to_owned(), "a::b".to_owned()]].into());
}
