//! `updates.yaml`: the RFD's facts in their places, ours beside them, everybody else's left alone (SPEC §2).

use std::path::{Path, PathBuf};

use yaml::Node;
use yaml::view::{View, read_document};

use super::spec::Spec;
use super::status::Status;
use crate::config::record::Field;
use crate::host::durable;
use crate::report::{Code, Error, Result};

/// `version` of `updates.yaml` (RFD 0169).
const FORMAT: &str = "v1";
/// `kind` of `updates.yaml` (RFD 0169).
const KIND: &str = "agent_versions";

/// `updates.yaml` as read: the document, and its typed parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updates {
    file: PathBuf,
    root: Node,
    spec: Spec,
    status: Status,
}

impl Updates {
    /// Reads `file`; an absent file is an empty configuration.
    ///
    /// Errors: `config_invalid` naming file and line for YAML, version, kind or types that are not ours; `permission`,
    /// `io`. The file is never changed by a failed read (SPEC §2).
    pub fn read(file: &Path) -> Result<Self> {
        let Some(root) = read_document(file, true)? else { return Ok(Self::empty(file)) };
        let document = View::new(file, &root);
        document.check_kind(FORMAT, KIND)?;
        let spec = Spec::read(&document.at("spec")?)?.unwrap_or_default();
        let status = Status::read(&document.at("status")?)?.unwrap_or_default();
        Ok(Self { file: file.to_owned(), root, spec, status })
    }

    /// The empty configuration that an absent `file` stands for.
    pub fn empty(file: &Path) -> Self {
        let root = Node::mapping([("version", Some(Node::text(FORMAT))), ("kind", Some(Node::text(KIND)))]);
        Self { file: file.to_owned(), root, spec: Spec::default(), status: Status::default() }
    }

    /// The file it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The settings.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What happened.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The document with all that others own.
    pub fn document(&self) -> &Node {
        &self.root
    }

    /// Takes over `spec`: only what differs is written, what became `None` goes, unknown keys stay. Credentials in
    /// URLs are dropped: take them out first with [`Spec::take_credentials`].
    pub fn set_spec(&mut self, spec: &Spec) {
        let mut spec = spec.clone();
        spec.take_credentials();
        self.change("spec", self.spec.node(), spec.node());
        if self.root.at(&["spec", "enabled"]).is_none() {
            self.root.set(&["spec", "enabled"], Node::plain(spec.enabled));
        }
        self.spec = spec;
    }

    /// Takes over `status`, as [`Updates::set_spec`] does.
    pub fn set_status(&mut self, status: &Status) {
        self.change("status", self.status.node(), status.node());
        self.status = status.clone();
    }

    /// The file's new content, for whoever writes it. Errors: `config_invalid` for what [`Updates::read`] would refuse by its
    /// length.
    pub fn render(&self) -> Result<String> {
        let text = self.root.emit();
        if text.len() > ::yaml::MAX_BYTES {
            let what = format!("{} would be larger than {} bytes", self.file.display(), ::yaml::MAX_BYTES);
            return Err(Error::new(Code::ConfigInvalid, what).advise("shorten it; it was not changed"));
        }
        Ok(text)
    }

    /// Replaces the file durably, mode 0644. Errors: those of [`Updates::render`] and of writing.
    pub fn write(&self) -> Result<()> {
        durable::write(&self.file, self.render()?.as_bytes(), durable::FILE_MODE)
    }

    fn change(&mut self, key: &str, old: Option<Node>, new: Option<Node>) {
        let (Some(old), Some(new)) = (old, new) else { return };
        // Not even an empty section goes that stood there.
        if old == new {
            return;
        }
        if self.root.at(&[key]).is_none_or(|node| node.pairs().is_none()) {
            self.root.set(&[key], Node::mapping([]));
        }
        let mut part = self.root.at(&[key]).cloned().unwrap_or_else(|| Node::mapping([]));
        part.apply(&old, &new);
        if part.is_bare() {
            self.root.remove(&[key]);
        } else {
            self.root.set(&[key], part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::HealthSettings;
    use std::time::Duration;

    fn updates(content: &str) -> (tempfile::TempDir, Result<Updates>) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("updates.yaml");
        durable::write(&file, content.as_bytes(), 0o644).unwrap();
        let read = Updates::read(&file);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
        (dir, read)
    }

    fn good(content: &str) -> (tempfile::TempDir, Updates) {
        let (dir, read) = updates(content);
        (dir, read.unwrap())
    }

    const HEAD: &str = "version: v1\nkind: agent_versions\n";

    #[test]
    fn a_missing_file_is_an_empty_configuration_in_the_rfds_form() {
        let dir = tempfile::tempdir().unwrap();
        let mut updates = Updates::read(&dir.path().join("updates.yaml")).unwrap();
        assert_eq!((updates.spec(), updates.status()), (&Spec::default(), &Status::default()));
        let spec = Spec {
            proxy: Some("mytenant.teleport.sh".to_owned()),
            enabled: true,
            active_version: Some("15.1.1".parse().unwrap()),
            ..Spec::default()
        };
        updates.set_spec(&spec);
        updates.write().unwrap();
        let text = std::fs::read_to_string(updates.file()).unwrap();
        assert_eq!(
            text,
            format!("{HEAD}spec:\n  proxy: mytenant.teleport.sh\n  enabled: true\n  active_version: 15.1.1\n")
        );
        assert_eq!(Updates::read(updates.file()).unwrap().spec(), &spec);
    }

    #[test]
    fn a_change_that_changes_nothing_leaves_empty_sections_as_they_are() {
        for section in ["status:", "status: {}", "status:\n  # none\n"] {
            let (_dir, read) = updates(&format!("{HEAD}spec:\n  enabled: true\n{section}\n"));
            let before = read.unwrap();
            let mut after = before.clone();
            after.set_spec(before.spec());
            after.set_status(before.status());
            assert_eq!(after.render().unwrap(), before.render().unwrap(), "{section}");
        }
        // But for what each file of the RFD has.
        for section in ["spec:", "spec: {}", "spec: ~"] {
            let (_dir, read) = updates(&format!("{HEAD}{section}\n"));
            let mut after = read.unwrap();
            after.set_spec(&Spec::default());
            let text = after.render().unwrap();
            assert!(
                text.ends_with("spec:\n  enabled: false\n") || text.ends_with("spec: {enabled: false}\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_rfds_example_is_read_and_a_rewrite_changes_only_what_changed() {
        let content = "version: v1\nkind: agent_versions\ntheirs: 0123\nspec:\n  # specifies the proxy\n  proxy: mytenant.teleport.sh\n  enabled: yes\n  active_version: 15.1.1\n  watch: 90\n  health: {stable: 7s, newer: 1.10}\n  future: {deep: [~, {x: on}]}\n";
        let (_dir, mut updates) = good(content);
        assert!(updates.spec().enabled);
        assert_eq!(updates.spec().watch, Duration::from_secs(90));
        assert_eq!(
            updates.spec().health,
            HealthSettings { stable: Duration::from_secs(7), ..HealthSettings::default() }
        );
        let mut spec = updates.spec().clone();
        spec.active_version = Some("15.2.0".parse().unwrap());
        spec.health.stable = Duration::from_secs(8);
        spec.group = Some("1.10".to_owned());
        updates.set_spec(&spec);
        assert_eq!(
            updates.render().unwrap(),
            "version: v1\nkind: agent_versions\ntheirs: 0123\nspec:\n  # specifies the proxy\n  proxy: mytenant.teleport.sh\n  enabled: yes\n  active_version: 15.2.0\n  watch: 90\n  health:\n    stable: 8s\n    newer: 1.10\n  future:\n    deep:\n      - ~\n      - x: on\n  group: \"1.10\"\n"
        );
        spec.group = None;
        updates.set_spec(&spec);
        assert!(!updates.render().unwrap().contains("group"));
    }

    #[test]
    fn a_record_that_ends_takes_along_what_a_newer_updater_wrote_into_it() {
        let content = format!(
            "{HEAD}spec:\n  service: {{start: a, stop: b, reload: c, pid_file: /p, newer: 1}}\nstatus:\n  last_result: {{time: \"2026-01-02T03:04:05Z\", outcome: updated, newer: {{x: 1}}}}\n  previous: {{version: 1.0.0, edition: oss, newer: 1}}\n  watch: {{version: 1.1.0, edition: oss, until: \"2026-01-02T03:04:05Z\", newer: 1}}\n  database_busy: {{since: \"2026-01-02T03:04:05Z\", newer: 1}}\n"
        );
        let (_dir, mut updates) = good(&content);
        let status = updates.status();
        assert!(status.last_result.is_some() && status.previous.is_some());
        assert!(status.watch.is_some() && status.database_busy.is_some());
        updates.set_spec(&Spec::default());
        updates.set_status(&Status::default());
        updates.write().unwrap();
        let next = Updates::read(updates.file()).unwrap();
        assert_eq!((next.spec(), next.status()), (&Spec::default(), &Status::default()));
        assert!(!next.render().unwrap().contains("newer"), "{}", next.render().unwrap());
    }

    #[test]
    fn wrong_types_kinds_and_versions_are_errors_with_their_line() {
        for (content, line) in [
            ("version: v2\nkind: agent_versions\n".to_owned(), 1),
            ("version: v1\nkind: other\n".to_owned(), 2),
            (format!("{HEAD}spec: text\n"), 3),
            (format!("{HEAD}spec:\n  enabled: maybe\n"), 4),
            (format!("{HEAD}spec:\n  enabled: true\n  active_version: ../15\n"), 5),
            (format!("{HEAD}spec:\n  keep: 0\n"), 4),
            (format!("{HEAD}spec:\n  watch: 5 apples\n"), 4),
            (format!("{HEAD}spec:\n  network:\n    tries: 0\n"), 5),
            (format!("{HEAD}spec:\n  proxy: [a]\n"), 4),
            (format!("{HEAD}spec:\n  service:\n    start: a\n"), 5),
            (format!("{HEAD}status:\n  refused: x\n"), 4),
            (format!("{HEAD}spec:\n  labels: text\n"), 4),
            (format!("{HEAD}spec:\n  labels: {{a: [b]}}\n"), 4),
            (format!("{HEAD}spec:\n  labels: {{a: {}}}\n", "x".repeat(257)), 4),
            (format!("{HEAD}spec:\n  a: [\n"), 5),
        ] {
            let (_dir, read) = updates(&content);
            let error = read.unwrap_err();
            assert_eq!(error.code, Code::ConfigInvalid, "{content}");
            assert!(error.what.contains(&format!("updates.yaml line {line}:")), "{content}: {error}");
        }
    }

    #[test]
    fn nothing_is_written_that_could_not_be_read_again() {
        let (_dir, mut updates) = good(HEAD);
        let text = "x".repeat(::yaml::MAX_BYTES);
        updates.set_spec(&Spec { group: Some(text), ..Spec::default() });
        assert!(updates.write().is_err());
        assert_eq!(std::fs::read_to_string(updates.file()).unwrap(), HEAD);
    }

    #[test]
    fn passwords_never_reach_the_file() {
        let (_dir, mut updates) = good(HEAD);
        let full = Spec { https_proxy: Some("http://joe:s3cret@px:3128".to_owned()), ..Spec::default() };
        updates.set_spec(&full);
        assert!(!updates.render().unwrap().contains("s3cret"));
        let mut bare = full.clone();
        let credentials = bare.take_credentials();
        assert_eq!(updates.spec(), &bare);
        assert_eq!(bare.with_credentials(&credentials), full);
    }

    #[test]
    fn every_setting_survives_writing_and_reading() {
        // Each is nobody's default.
        let settings = r#"spec: {proxy: a:3080, source: channel+https://h/v1/stable, enabled: true, notify_only: true,
            window: "Tue,Wed *-*-* 00:00:00 UTC", window_length: 2h, stale_after: 14d, allow_downgrade: true,
            active_version: 15.1.1, active_edition: enterprise-fips, group: "yes", base_url: https://mirror/x, pinned: true,
            pinned_version: 15.1.1, keep: 5, components: [tsh, "123"], min_version: 14.0.0-rc.1, ca: "-----BEGIN\nx\n",
            public_key: "-----BEGIN\ny", insecure: true, watch: 61s,
            health: {stable: 1ms, without_readiness: 1h, deadline: 1d, version: 3s}, network: {connect: 1s, answer: 2s,
            stall: 3ms, question: 4s, tries: 1, deadline: 5s, min_speed: 6, speed_window: 7s, resumes: 0},
            backup_max_age: 5s, database_timeout: 6s, path: /opt/x/bin, data_dir: /srv/d e, https_proxy: http://px,
            http_proxy: px:1, no_proxy: "*.local,10.0.0.0/8", service: {start: rc-service teleport start,
            stop: "a 'b' \"c\"", reload: r, pid_file: /run/teleport.pid}, labels: {a.b/c: "1.10", env: "yes"},
            update_id: ae11, update_id_host: machine:0123}"#;
        let (_dir, read) = updates(&format!("{HEAD}{settings}\n"));
        let spec = read.unwrap().spec().clone();
        assert_eq!(spec.contested(&Spec::default(), &Spec::default()).len(), 35, "{spec:#?}");
        let (_dir, mut updates) = good(HEAD);
        updates.set_spec(&spec);
        let written = Node::parse(&updates.render().unwrap()).unwrap();
        assert_eq!(written.get("spec"), Node::parse(settings).unwrap().get("spec"));
        for wanted in [spec, Spec::default()] {
            updates.set_spec(&wanted);
            updates.write().unwrap();
            updates = Updates::read(updates.file()).unwrap();
            assert_eq!(updates.spec(), &wanted);
        }
    }
}
