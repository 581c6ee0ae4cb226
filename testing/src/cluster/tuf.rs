//! A TUF repository: changed and signed anew at will, rightly or wrongly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

/// When metadata ends, if nothing else is said.
const END: &str = "2040-01-01T00:00:00Z";
/// The roles, in the order in which they are published.
const ROLES: [&str; 4] = ["root", "targets", "snapshot", "timestamp"];

/// The repository in a directory: `state.json` and `metadata/`. Keys have names; who signs with `NAME` has the same key in every
/// run. At first root is 2 of `r1`, `r2`, `r3`, targets 2 of `t1`, `t2`, the others `online` alone.
#[derive(Debug)]
pub struct TufRepository {
    dir: PathBuf,
    /// What is signed, by role.
    signed: BTreeMap<String, Value>,
    /// The names of those who sign, by role.
    by: BTreeMap<String, Vec<String>>,
}

/// The key called `name`, as metadata has it.
pub fn key(name: &str) -> Value {
    let public = hex(pair(name).public_key().as_ref());
    json!({ "keytype": "ed25519", "scheme": "ed25519", "keyval": { "public": public } })
}

fn pair(name: &str) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(digest(&SHA256, name.as_bytes()).as_ref()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn role(keys: &[&str], threshold: u64) -> Value {
    json!({ "keyids": keys, "threshold": threshold })
}

impl TufRepository {
    /// The one in `dir`; a new one, published, if there is none.
    pub fn at(dir: &Path) -> Self {
        if let Ok(bytes) = fs::read(dir.join("state.json")) {
            let (signed, by) = serde_json::from_slice(&bytes).unwrap();
            return Self { dir: dir.to_owned(), signed, by };
        }
        fs::create_dir_all(dir.join("metadata")).unwrap();
        let keys: Map<String, Value> =
            ["r1", "r2", "r3", "t1", "t2", "online"].iter().map(|name| ((*name).to_owned(), key(name))).collect();
        let mut new = Self { dir: dir.to_owned(), signed: BTreeMap::new(), by: BTreeMap::new() };
        let mut add = |name: &str, by: &[&str], more: Value| {
            let mut signed = json!({ "_type": name, "spec_version": "1.0.34", "version": 1, "expires": END });
            signed.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            new.signed.insert(name.to_owned(), signed);
            new.by.insert(name.to_owned(), by.iter().map(|name| (*name).to_owned()).collect());
        };
        let roles = json!({
            "root": role(&["r1", "r2", "r3"], 2), "targets": role(&["t1", "t2"], 2),
            "snapshot": role(&["online"], 1), "timestamp": role(&["online"], 1),
        });
        add("root", &["r1", "r2"], json!({ "consistent_snapshot": true, "keys": keys, "roles": roles }));
        add("targets", &["t1", "t2"], json!({ "targets": {} }));
        add("snapshot", &["online"], json!({ "meta": { "targets.json": { "version": 1 } } }));
        add("timestamp", &["online"], json!({ "meta": { "snapshot.json": { "version": 1 } } }));
        new.link("targets");
        ROLES.iter().for_each(|role| new.publish(role));
        new
    }

    /// The metadata of the root's version `version`, as it was published.
    pub fn root(&self, version: u64) -> Vec<u8> {
        fs::read(self.dir.join(format!("metadata/{version}.root.json"))).unwrap()
    }

    /// Names `bytes` as `name` in the targets role `role`, and publishes a new version of it.
    pub fn add(&mut self, role: &str, name: &str, bytes: &[u8]) {
        let meant = json!({ "length": bytes.len(), "hashes": { "sha256": hex(digest(&SHA256, bytes).as_ref()) } });
        self.signed.get_mut(role).unwrap()["targets"][name] = meant;
        self.update(role);
    }

    /// Sets what `pointer` (RFC 6901) names in what `role` signs; `null` takes it away. Nothing is published.
    pub fn set(&mut self, role: &str, pointer: &str, value: Value) {
        let (above, name) = pointer.rsplit_once('/').unwrap();
        let fields = self.signed.get_mut(role).unwrap().pointer_mut(above).and_then(Value::as_object_mut).unwrap();
        let name = name.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Null => drop(fields.shift_remove(&name)),
            value => drop(fields.insert(name, value)),
        }
    }

    /// Who signs `role` from now on; whether the role's keys are his is another matter.
    pub fn by(&mut self, role: &str, names: &[&str]) {
        self.by.insert(role.to_owned(), names.iter().map(|name| (*name).to_owned()).collect());
    }

    /// Lets `name` speak of `paths`, and publishes it without a target.
    pub fn delegate(&mut self, from: &str, name: &str, keys: &[&str], paths: &[&str], is_terminating: bool) {
        let signed = self.signed.get_mut(from).unwrap();
        if signed.get("delegations").is_none() {
            signed["delegations"] = json!({ "keys": {}, "roles": [] });
        }
        for known in keys {
            signed["delegations"]["keys"][known] = key(known);
        }
        let mut delegated = role(keys, keys.len() as u64);
        delegated["name"] = json!(name);
        delegated["paths"] = json!(paths);
        delegated["terminating"] = json!(is_terminating);
        signed["delegations"]["roles"].as_array_mut().unwrap().push(delegated);
        if !self.signed.contains_key(name) {
            let targets =
                json!({ "_type": "targets", "spec_version": "1.0.34", "version": 0, "expires": END, "targets": {} });
            self.signed.insert(name.to_owned(), targets);
        }
        self.by(name, keys);
        self.update(name);
        self.update(from);
    }

    /// A new version of `role` and of those that name it, published in their order.
    pub fn update(&mut self, role: &str) {
        for role in std::iter::once(role).chain(self.above(role).iter().copied()) {
            let version = self.signed[role]["version"].as_u64().unwrap() + 1;
            self.signed.get_mut(role).unwrap()["version"] = json!(version);
            self.link(role);
        }
        self.publish(role);
        self.above(role).iter().for_each(|role| self.publish(role));
    }

    /// Those that name a role.
    fn above(&self, role: &str) -> &'static [&'static str] {
        match role {
            "root" | "timestamp" => &[],
            "snapshot" => &["timestamp"],
            _ => &["snapshot", "timestamp"],
        }
    }

    /// Writes into the role above it what `role` is now.
    pub fn link(&mut self, role: &str) {
        let Some(above) = self.above(role).first() else { return };
        let bytes = self.bytes(role);
        let mut meta = json!({ "version": self.signed[role]["version"] });
        meta["length"] = json!(bytes.len());
        meta["hashes"] = json!({ "sha256": hex(digest(&SHA256, &bytes).as_ref()) });
        self.signed.get_mut(*above).unwrap()["meta"][format!("{role}.json")] = meta;
    }

    fn bytes(&self, role: &str) -> Vec<u8> {
        let signed = &self.signed[role];
        let mut message = Vec::new();
        assert!(tuf::canonical(signed, &mut message));
        let signature = |name: &String| json!({ "keyid": name, "sig": hex(pair(name).sign(&message).as_ref()) });
        let signatures: Vec<Value> = self.by[role].iter().map(signature).collect();
        serde_json::to_vec(&json!({ "signatures": signatures, "signed": signed })).unwrap()
    }

    /// Signs `role` and writes it to its place, whatever the others say of it.
    pub fn publish(&self, role: &str) {
        let name = match self.signed[role]["version"].as_u64() {
            Some(version) if role != "timestamp" => format!("{version}.{role}.json"),
            _ => format!("{role}.json"),
        };
        fs::write(self.dir.join("metadata").join(name), self.bytes(role)).unwrap();
        self.save();
    }

    fn save(&self) {
        fs::write(self.dir.join("state.json"), serde_json::to_vec(&(&self.signed, &self.by)).unwrap()).unwrap();
    }

    /// One of `add ROLE NAME FILE`, `set ROLE POINTER JSON`, `by ROLE NAMES…`, `delegate FROM NAME KEYS PATHS [terminating]` (each
    /// with commas), `update ROLE`, `link ROLE`, `publish ROLE`.
    ///
    /// # Panics
    /// For words that are none of them.
    pub fn act(&mut self, words: &[&str]) {
        match *words {
            ["add", role, name, file] => self.add(role, name, &fs::read(file).unwrap()),
            ["set", role, pointer, value] => self.set(role, pointer, serde_json::from_str(value).unwrap()),
            ["by", role, ref names @ ..] => self.by(role, names),
            ["delegate", from, name, keys, paths, ref more @ ..] => {
                let (keys, paths): (Vec<&str>, Vec<&str>) = (keys.split(',').collect(), paths.split(',').collect());
                self.delegate(from, name, &keys, &paths, more == ["terminating"]);
            }
            ["update", role] => self.update(role),
            ["link", role] => self.link(role),
            ["publish", role] => self.publish(role),
            _ => panic!("no such step: tuf {words:?}"),
        }
        self.save();
    }
}
