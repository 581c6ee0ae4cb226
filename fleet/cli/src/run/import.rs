//! `import`.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use fleet_api::{Import, Imported, Instance, MOST_INSTANCES};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::id;
use crate::args::{Format, ImportFile};
use crate::client::{Client, Question};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{imported, value};

/// Most instances of a file: as many as the server knows by imports.
const MOST: usize = 1_000_000;
/// Most bytes of a file: a million instances have less.
const MAX_BYTES: u64 = 2 << 30;

/// What helps where a file is none.
const EXPECTED: &str = "expected is what `tctl get instances --format json` writes";

/// Imports the file in parts; nothing of one that cannot be read.
pub(super) fn import(import: &ImportFile, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let instances = read(&import.file, screen)?;
    let mut sum = Imported::default();
    for part in instances.chunks(MOST_INSTANCES) {
        let request = Import { id: id(), dry_run: import.dry_run, instances: part.to_vec() };
        sum.add(client.ask(&Question::post("/v1/fleet/import", &request)?.dry(import.dry_run))?);
    }
    match screen.format() {
        Format::Text => Ok(imported::text(screen.out(), &sum, import.dry_run)?),
        format => {
            let json = serde_json::to_value(&sum).map_err(|error| Failure::local("cannot write JSON", error))?;
            value::write(screen.out(), format, &json)
        }
    }
}

fn read(file: &Path, screen: &mut Screen<'_, '_>) -> Result<Vec<Instance>, Failure> {
    let failed = |error: &dyn fmt::Display| Failure::local(format!("cannot read {}", file.display()), error);
    if file.as_os_str() == "-" {
        return parse(&mut *screen.console.input).map_err(|error| failed(&error));
    }
    let opened = File::open(file).map_err(|error| failed(&error))?;
    parse(opened).map_err(|error| failed(&error))
}

/// A list of instances, or one behind the other.
fn parse(reader: impl Read) -> Result<Vec<Instance>, String> {
    let reader = BufReader::new(reader.take(MAX_BYTES));
    let mut all = Vec::new();
    let mut is_empty = true;
    for part in serde_json::Deserializer::from_reader(reader).into_iter::<Part>() {
        is_empty = false;
        let Part(part) = part.map_err(|error| format!("{error}; {EXPECTED}"))?;
        all.extend(part);
        if all.len() > MOST {
            return Err(format!("it has more than {MOST} instances"));
        }
    }
    if is_empty {
        // What was to write it has failed: a list of nobody is written `[]`.
        return Err(format!("it is empty; {EXPECTED}"));
    }
    Ok(all)
}

/// One instance, or a list of them.
struct Part(Vec<Instance>);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Parts).map(Self)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Vec<Instance>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an instance or a list of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(instance) = list.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::custom(format!("it has more than {MOST} instances")));
            }
            all.push(instance);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Instance::deserialize(MapAccessDeserializer::new(map)).map(|instance| vec![instance])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        Ok(parse(text.as_bytes())?.into_iter().map(|instance| instance.metadata.name).collect())
    }

    #[test]
    fn a_list_one_object_and_several_behind_each_other_are_read() {
        let one = |name: &str| format!(r#"{{"kind": "instance", "metadata": {{"name": "{name}"}}, "spec": {{}}}}"#);
        for text in [
            format!("[{}, {}]", one("a"), one("b")),
            format!("{}\n{}\n", one("a"), one("b")),
            format!("[{}]{}", one("a"), one("b")),
        ] {
            assert_eq!(names(&text).unwrap(), ["a", "b"], "{text}");
        }
        assert_eq!(names("[]").unwrap(), [""; 0]);
        for empty in ["", "\n"] {
            assert!(names(empty).unwrap_err().starts_with("it is empty; "), "{empty:?}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_its_place() {
        for text in [
            "kind: instance\n",
            "7",
            "[7]",
            "[{\"spec\": 1}]",
            "[{\"spec\": {\"last_seen\": \"yesterday\"}}]",
            "[{\"spec\": {\"services\": \"Node\"}}]",
            "[{\"spec\": {}, \"spec\": {}}]",
            "[{}",
            "[{}] garbage",
            &format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
        ] {
            let told = names(text).unwrap_err();
            assert!(told.contains("column") && told.contains("tctl get instances"), "{text:.60}: {told}");
        }
    }
}
