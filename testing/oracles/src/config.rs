//! The configuration files: what is read comes back after a rewrite, with everything that others own, and an error
//! names file and line and changes nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use protocol::{Edition, Revision};
use teleport_update::testing::config::{AgentConfig, GoUpdater, LastResult, Outcome, Spec, Updates};
use teleport_update::testing::{Code, Error};
use tempfile::TempDir;
use yaml::Node;

use crate::strings::assert_version;
use crate::tree::is_line;

/// What `spec` and the mappings in it know; everything else there is somebody else's.
const SPEC: &str = "proxy source notify_only window window_length allow_downgrade enabled active_version active_edition group \
                    base_url pinned pinned_version keep components min_version ca public_key insecure watch health network \
                    backup_max_age database_timeout path https_proxy http_proxy no_proxy service update_id labels \
                    update_id_host data_dir";
const HEALTH: &str = "stable without_readiness deadline version";

thread_local! {
    static DIR: TempDir = crate::sandbox::dir();
}

/// Any bytes as `updates.yaml`.
pub fn updates_yaml(bytes: &[u8]) {
    with_file("updates.yaml", bytes, |file| {
        let updates = match Updates::read(file) {
            Ok(updates) => updates,
            Err(error) => return assert_names_line(&error, bytes, "updates.yaml"),
        };
        for version in [&updates.spec().active_version, &updates.spec().pinned_version, &updates.spec().min_version] {
            version.iter().for_each(assert_version);
        }
        assert!(updates.spec().keep > 0 && updates.spec().network.retry.tries > 0);
        let mut same = updates.clone();
        same.set_status(updates.status());
        assert_eq!(same.document(), updates.document(), "nothing changed, yet the document did");
        let same = reread(file, &updates);
        assert_eq!(same.document(), updates.document());
        assert_eq!((same.spec(), same.status()), (updates.spec(), updates.status()));
        for spec in [changed(updates.spec()), Spec::default()] {
            let mut next = updates.clone();
            next.set_spec(&spec);
            let next = reread(file, &next);
            assert_eq!(next.spec(), &bare(&spec), "{}", next.render().unwrap());
            assert_eq!(next.status(), updates.status());
            assert_foreign_stay(&updates, &next);
        }
        let mut status = updates.status().clone();
        status.attempts.clear();
        status.last_result = Some(LastResult {
            time: jiff::Timestamp::UNIX_EPOCH,
            outcome: Outcome::RolledBack,
            error_code: Some("unhealthy".to_owned()),
            message: Some("a: b\n#c".to_owned()),
            from: None,
            to: Some(Revision { version: "1.2.3".parse().unwrap(), edition: Edition::Oss }),
            run: Some("2026-01-02T03:04:04.5Z".to_owned()),
        });
        let mut next = updates.clone();
        next.set_status(&status);
        let next = reread(file, &next);
        assert_eq!((next.spec(), next.status()), (updates.spec(), &status), "{}", next.render().unwrap());
        assert_foreign_stay(&updates, &next);
    });
}

/// Any bytes as `teleport.yaml`.
pub fn teleport_yaml(bytes: &[u8]) {
    let first = with_file("teleport.yaml", bytes, |file| match AgentConfig::read(file) {
        Ok(config) => config,
        Err(error) => {
            assert_names_line(&error, bytes, "teleport.yaml");
            None
        }
    });
    let Some(first) = first else { return };
    assert!(first.proxy.as_deref() != Some("") && first.data_dir.as_deref() != Some(Path::new("")));
    // The agent reads the first document of the file, whatever follows.
    let longer = [bytes, b"\n---\nteleport: {proxy_server: other}\n"].concat();
    with_file("teleport.yaml", &longer, |file| {
        let config = AgentConfig::read(file).unwrap().unwrap();
        let was_empty = first == AgentConfig::default();
        assert!(config == first || was_empty, "{config:?} {first:?}");
    });
}

/// Any bytes as the Go updater's `update.yaml`.
pub fn go_updater_yaml(bytes: &[u8]) {
    with_file("update.yaml", bytes, |file| match GoUpdater::read(file) {
        Ok(found) => {
            let found = found.expect("the file is there");
            found.active.iter().for_each(|revision| assert_version(&revision.version));
            for text in [&found.proxy, &found.group, &found.base_url] {
                assert_ne!(text.as_deref(), Some(""));
            }
            assert!(found.group.as_deref() != Some("default") && found.base_url.as_deref() != Some("default"));
        }
        Err(error) => assert_names_line(&error, bytes, "update.yaml"),
    });
}

/// Writes `bytes` as `name`, and looks after `read` whether they are still there.
pub(crate) fn with_file<T>(name: &str, bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    DIR.with(|dir| {
        let file = dir.path().join(name);
        fs::write(&file, bytes).unwrap();
        let result = read(&file);
        assert!(fs::read(&file).unwrap() == bytes, "reading changed {name}");
        result
    })
}

/// The error says which line of which file to correct.
pub(crate) fn assert_names_line(error: &Error, bytes: &[u8], name: &str) {
    assert!(matches!(error.code, Code::ConfigInvalid | Code::BackupInvalid), "{error:?}");
    let (_, rest) = error.what.split_once(&format!("{name} line ")).unwrap_or_else(|| panic!("no line: {error}"));
    let line: usize = rest.split(':').next().unwrap().parse().unwrap();
    assert!(is_line(&String::from_utf8_lossy(bytes), line), "there is no line {line}: {error}");
}

/// What another run reads of what this one writes; `file` itself is left alone.
fn reread(file: &Path, updates: &Updates) -> Updates {
    let next = file.with_extension("next");
    fs::write(&next, updates.render().unwrap()).unwrap();
    let read = Updates::read(&next).unwrap_or_else(|error| panic!("{error}\n{}", updates.render().unwrap()));
    assert_eq!(read.document(), updates.document(), "{}", updates.render().unwrap());
    assert_eq!(read.render().unwrap(), updates.render().unwrap(), "a second rewrite changes the file");
    read
}

/// Different in each kind of value.
fn changed(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.proxy = Some("other.example.com:3080".to_owned());
    spec.enabled = !spec.enabled;
    spec.active_version = Some("99.9.9-rc.1".parse().unwrap());
    spec.active_edition = Some(Edition::EnterpriseFips);
    spec.group = match spec.group {
        None => Some("yes".to_owned()),
        Some(_) => None,
    };
    spec.keep = if spec.keep == 7 { 8 } else { 7 };
    spec.components = vec!["tsh".to_owned(), "- x: #".to_owned()];
    spec.ca = Some("-----BEGIN\n\n  x\n".to_owned());
    spec.health.stable = Duration::from_millis(1234);
    spec
}

/// As it may stand in the file.
fn bare(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.take_credentials();
    spec
}

/// Every key that is not ours has the value it had.
fn assert_foreign_stay(before: &Updates, after: &Updates) {
    let places: [(&[&str], &str); 3] =
        [(&[], "version kind spec status"), (&["spec"], SPEC), (&["spec", "health"], HEALTH)];
    for (path, ours) in places {
        let Some(pairs) = before.document().at(path).and_then(Node::pairs) else { continue };
        for (key, value) in pairs {
            let name = key.as_str().unwrap_or_default();
            if !name.is_empty() && ours.split(' ').all(|ours| ours != name) {
                let here = after.document().at(path).and_then(Node::pairs).unwrap_or_default();
                assert!(
                    here.contains(&(key.clone(), value.clone())),
                    "{path:?} lost {name:?}:\n{}",
                    after.render().unwrap()
                );
            }
        }
    }
}
