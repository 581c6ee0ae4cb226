//! `POST /v1/fleet/import` with [`Import`]: [`Imported`].

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{CountOf, Omission};

/// Most instances of a request.
pub const MOST_INSTANCES: usize = 2000;

/// Hosts that another system knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// A UUID; sent twice, it is imported once.
    pub id: String,
    /// Only say what would happen.
    #[serde(default)]
    pub dry_run: bool,
    /// The hosts; at most [`MOST_INSTANCES`].
    pub instances: Vec<Instance>,
}

/// A resource `instance` of Teleport, as `tctl get instances --format json` writes it. What is not named here is not read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Instance {
    /// `instance`.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    /// Its name is the host's UUID.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: InstanceMetadata,
    /// What is known of it.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: InstanceSpec,
}

/// The name of an instance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InstanceMetadata {
    /// The host's UUID.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// What Teleport knows of an instance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// What it runs; `v` may stand before it.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// Its services, as `Node`, `Auth`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// When it was last heard of.
    #[serde(default)]
    pub last_seen: Option<Timestamp>,
    /// What updates it: empty, `unit` (Managed Updates v1), `kube`, `binary`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub external_upgrader: String,
    /// What its updater says of itself.
    #[serde(default, alias = "UpdaterInfo", skip_serializing_if = "Option::is_none")]
    pub updater_info: Option<UpdaterInfo>,
}

/// What an updater says of itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct UpdaterInfo {
    /// The group that it asks for.
    #[serde(default, alias = "UpdateGroup", deserialize_with = "or_default")]
    pub update_group: String,
    /// Its id: a UUID, or its 16 bytes in base64.
    #[serde(default, alias = "UpdateUUID", deserialize_with = "or_default")]
    pub update_uuid: String,
    /// How it is.
    #[serde(default, alias = "UpdaterStatus", deserialize_with = "or_default")]
    pub updater_status: UpdaterStatus,
}

/// How an updater is: a number of Teleport's enumeration, or its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UpdaterStatus {
    /// 1 is good, 2 disabled, 3 pinned, 4 cannot be read.
    Number(i64),
    /// As `UPDATER_STATUS_OK`.
    Name(String),
}

impl Default for UpdaterStatus {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// What an import did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Imported {
    /// Hosts that were not known before.
    pub new: u64,
    /// Hosts that are counted, by group and version.
    pub counts: Vec<CountOf>,
    /// Hosts that are known and not counted.
    pub omitted: Vec<Omission>,
    /// Instances that changed nothing.
    pub passed_over: Vec<Omission>,
}

/// Go writes `null` for what is empty.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(reader: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}

impl Imported {
    /// Adds what another part of the same import did.
    pub fn add(&mut self, other: Self) {
        self.new += other.new;
        for count in other.counts {
            let is_same = |known: &&mut CountOf| (&known.group, &known.version) == (&count.group, &count.version);
            match self.counts.iter_mut().find(is_same) {
                Some(known) => known.count += count.count,
                None => self.counts.push(count),
            }
        }
        for (all, more) in [(&mut self.omitted, other.omitted), (&mut self.passed_over, other.passed_over)] {
            for omission in more {
                match all.iter_mut().find(|known| known.reason == omission.reason) {
                    Some(known) => known.count += omission.count,
                    None => all.push(omission),
                }
            }
        }
        self.counts.sort_by(|a, b| (&a.group, &a.version).cmp(&(&b.group, &b.version)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_read_as_tctl_writes_it_and_what_is_null_is_empty() {
        let text = r#"{"kind": "instance", "version": "v1", "metadata": {"name": "a", "expires": "2026-01-05T12:20:00Z"},
            "spec": {"version": "17.2.0", "services": ["Node", "App"], "hostname": "web01",
            "last_seen": "2026-01-05T12:00:00.25Z", "external_upgrader": "binary", "external_upgrader_version": "17.2.0",
            "updater_info": {"update_group": "dev", "update_uuid": "AAECAwQFBgcICQoLDA0ODw==", "updater_status": 1}}}"#;
        let instance: Instance = serde_json::from_str(text).unwrap();
        let spec = &instance.spec;
        assert_eq!((instance.kind.as_str(), instance.metadata.name.as_str()), ("instance", "a"));
        assert_eq!(
            (spec.version.as_str(), spec.services.len(), spec.external_upgrader.as_str()),
            ("17.2.0", 2, "binary")
        );
        let updater = spec.updater_info.as_ref().unwrap();
        assert_eq!((updater.update_group.as_str(), &updater.updater_status), ("dev", &UpdaterStatus::Number(1)));
        let again: Instance = serde_json::from_str(&serde_json::to_string(&instance).unwrap()).unwrap();
        assert_eq!(again, instance);
        let go = r#"{"spec": {"services": null, "version": null, "UpdaterInfo": {"UpdateGroup": "dev", "UpdateUUID": null,
            "UpdaterStatus": "UPDATER_STATUS_PINNED"}}}"#;
        let spec = serde_json::from_str::<Instance>(go).unwrap().spec;
        assert_eq!((spec.version.as_str(), spec.services.len()), ("", 0));
        let name = UpdaterStatus::Name("UPDATER_STATUS_PINNED".to_owned());
        assert_eq!(spec.updater_info.unwrap().updater_status, name);
    }

    #[test]
    fn parts_of_an_import_add_up() {
        let of = |group: &str, count| CountOf { group: group.to_owned(), version: "1.0.0".to_owned(), count };
        let why = |reason: &str, count| Omission { reason: reason.to_owned(), count };
        let mut sum = Imported { new: 1, counts: vec![of("b", 1)], omitted: vec![why("x", 1)], passed_over: vec![] };
        sum.add(Imported {
            new: 2,
            counts: vec![of("a", 4), of("b", 2)],
            omitted: vec![why("x", 2), why("y", 1)],
            passed_over: vec![why("x", 9)],
        });
        assert_eq!(sum.new, 3);
        assert_eq!(sum.counts, [of("a", 4), of("b", 3)]);
        assert_eq!((sum.omitted, sum.passed_over), (vec![why("x", 3), why("y", 1)], vec![why("x", 9)]));
    }
}
