//! Steps that change or look at files of an image, and at what the updater says of it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::go::{agent, go_host, put, upgrader};
use super::super::{Image, Signer, names, sql_of};

/// Whether this is one of:
///
/// * `write FILE TEXT` (anew with a mode behind it), `flip FILE` (a bit of it), `agent FILE V` (a program), `key FILE NUMBER` (the public one), `go`, `go pinned` (a host of the Go
///   updater), `upgrader ENDPOINT` (one of RFD 0109's), `names DIRECTORY NAMES`;
/// * `sql FILE STATEMENTS`, `select FILE COLUMNS… ROWS` (what stands there);
/// * of `updates.yaml`: `set LINES` below `spec`, `settings LINES` in place of all, `window EXPRESSION`, `edit FROM TO`, `config has|lacks TEXT`.
pub(super) fn is_of_files(image: &Image, verb: &str, words: &[&str]) -> bool {
    // Of an image also a place outside of it, such as the mirror.
    let at = |file: &str| if image.live.is_none() { image.root().join(file) } else { image.path(file) };
    match (verb, words) {
        ("write", [file, text]) => std::fs::write(at(file), text).unwrap(),
        ("write", [file, text, mode]) => {
            // By a process of its own: what this one has open for writing, another case may hand to a child, and nobody could run it.
            let written = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(&written, text).unwrap();
            let copied = Command::new("install").args(["-D", "-m", mode]).arg(written.path()).arg(at(file)).status();
            assert!(copied.unwrap().success());
        }
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

/// Whether this is one of `linked V`, `status FLAGS KEY=VALUE…`, `plan FLAGS KEY=VALUE…`: keys of the JSON, `/` between the parts of a path, and `~`
/// for "contains".
pub(super) fn is_of_status(image: &Image, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("linked", [version]) => assert_eq!(image.linked(), *version),
        ("status" | "plan", words) => {
            let flags = words.iter().take_while(|word| word.starts_with("--")).count();
            let args = [&[verb, "--format", "json"], &words[..flags]].concat();
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

/// `found` has these keys and values; `KEY>NUMBER`: above it; `KEY!`: none of that name.
#[track_caller]
pub(super) fn holds(found: &Value, wanted: &[&str]) {
    assert!(!wanted.is_empty());
    for wanted in wanted {
        let (key, value) = wanted.split_once(['=', '~', '>', '!']).unwrap();
        let place = found.pointer(&format!("/{key}"));
        let is_so = match (&wanted[key.len()..=key.len()], place) {
            ("!", place) => place.is_none(),
            (_, None) => panic!("no {key} in {found:#}"),
            (how, Some(place)) => {
                let text = place.as_str().map_or_else(|| place.to_string(), str::to_owned);
                match how {
                    "=" => text == value,
                    "~" => text.contains(value),
                    _ => text.parse::<i64>().unwrap() > value.parse().unwrap(),
                }
            }
        };
        assert!(is_so, "{wanted}: not so in {found:#}");
    }
}
