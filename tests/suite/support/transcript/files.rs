//! Steps that change or look at files of an image, and at what the updater says of it.

use std::path::Path;

use serde_json::Value;

use super::super::go::{agent, go_host, put, upgrader};
use super::super::{Image, Signer, names, sql_of};

/// Whether this is one of:
///
/// * `write FILE TEXT`, `flip FILE` (a bit of it), `agent FILE V` (a program), `key FILE NUMBER` (the public one), `go`, `go pinned` (a host of the Go
///   updater), `upgrader ENDPOINT` (one of RFD 0109's), `names DIRECTORY NAMES`;
/// * `sql FILE STATEMENTS`, `select FILE COLUMNS… ROWS` (what stands there);
/// * of `updates.yaml`: `set LINES` below `spec`, `settings LINES` in place of all, `window EXPRESSION`, `edit FROM TO`, `config has|lacks TEXT`.
pub(super) fn is_of_files(image: &Image, verb: &str, words: &[&str]) -> bool {
    let at = |file: &str| image.root().join(file);
    match (verb, words) {
        ("write", [file, text]) => std::fs::write(at(file), text).unwrap(),
        ("flip", [file]) => flip(&at(file)),
        ("key", [file, number]) => {
            std::fs::write(at(file), Signer::fixed(number.parse().unwrap()).public_key_pem()).unwrap();
        }
        ("agent", [file, version]) => {
            // A program that is running cannot be written to, and a link would be followed.
            let _ = std::fs::remove_file(at(file));
            put(at(file), agent(version), 0o755);
        }
        ("go", more) => go_host(&image.root(), &image.cluster.addr(), &image.cluster.base_url(), *more == ["pinned"]),
        ("upgrader", [endpoint]) => upgrader(&image.root(), endpoint),
        ("names", [directory, wanted @ ..]) => assert_eq!(names(&image.path(directory)), wanted),
        ("sql", [file, sql]) => {
            std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            rusqlite::Connection::open(at(file)).unwrap().execute_batch(sql).unwrap();
        }
        ("select", [file, sql, rows @ ..]) => assert_eq!(sql_of(&at(file), &format!("SELECT {sql}")), rows),
        ("set", lines) => lines.iter().for_each(|line| image.set(&format!("  {line}\n"))),
        ("settings", lines) => image.settings(&lines.iter().map(|line| format!("  {line}\n")).collect::<String>()),
        ("window", [window]) => image.set_window(window),
        ("edit", [from, to]) => image.edit(from, to),
        ("config", [has, text]) => {
            let config = image.config();
            assert_eq!(config.contains(text), *has == "has", "{config}");
        }
        _ => return false,
    }
    true
}

/// Whether this is one of `linked V`, `status KEY=VALUE…`, `plan FLAGS KEY=VALUE…`: keys of the JSON, `/` between the parts of a path, and `~`
/// for "contains".
pub(super) fn is_of_status(image: &Image, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("linked", [version]) => assert_eq!(image.linked(), *version),
        ("status", wanted) => holds(&image.status(), wanted),
        ("plan", words) => {
            let flags = words.iter().take_while(|word| word.starts_with("--")).count();
            let args = [&["plan", "--format", "json"], &words[..flags]].concat();
            holds(&image.run(&args).ok().json(), &words[flags..]);
        }
        _ => return false,
    }
    true
}

/// Changes a bit in the middle of a file.
fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// `found` has these keys and values.
#[track_caller]
pub(super) fn holds(found: &Value, wanted: &[&str]) {
    assert!(!wanted.is_empty());
    for wanted in wanted {
        let (key, value) = wanted.split_once(['=', '~']).unwrap();
        let found_value = found.pointer(&format!("/{key}")).unwrap_or_else(|| panic!("no {key} in {found:#}"));
        let text = found_value.as_str().map_or_else(|| found_value.to_string(), str::to_owned);
        let is_so = if wanted[key.len()..].starts_with('=') { text == value } else { text.contains(value) };
        assert!(is_so, "{wanted}: {text} in {found:#}");
    }
}
