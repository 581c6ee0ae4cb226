//! What an operator configures: `kube.yaml`, or one agent by flags (KUBE §2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use error::{Code, Error, Result};
use jiff::tz::TimeZone;
use protocol::Version;
use sources::{Source, Window};
use yaml::Node;
use yaml::view::{LONGEST_FILE, View, document};

use crate::verdict::Patience;
use crate::workload::WorkloadKind;

/// Where the configuration is by default.
pub const DEFAULT_FILE: &str = "/etc/teleport-kube-update/kube.yaml";
/// The container of the chart `teleport-kube-agent`.
const DEFAULT_CONTAINER: &str = "teleport";
/// How long a calendar's window is open (RFD 0109).
const WINDOW_LENGTH: Duration = Duration::from_secs(3600);
/// Longest name of an object (RFC 1123), bytes.
const MAX_NAME: usize = 253;
/// Largest file of a key, a certificate or credentials, bytes.
pub const MAX_MOUNTED: u64 = 1 << 20;
/// Keys of an agent, beside those of `spec` that it may have for itself.
const AGENT_KEYS: [&str; 19] = [
    "name",
    "kind",
    "container",
    "group",
    "write",
    "window",
    "schedule",
    "source",
    "verify",
    "pin",
    "min_version",
    "tag",
    "image",
    "watch",
    "progress_deadline",
    "unhealthy_after",
    "allow_downgrade",
    "resolve",
    "labels",
];

/// The whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct KubeConfig {
    /// The agents, in their order.
    pub agents: Vec<KubeAgent>,
    /// How many of them may change at once.
    pub max_in_flight: usize,
    /// How registries are reached.
    pub registry: RegistrySettings,
    /// With which token the agents enrol at a rollout server.
    pub join_token_file: Option<PathBuf>,
}

/// How registries are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrySettings {
    /// Docker's `config.json`.
    pub auth_file: Option<PathBuf>,
    /// Further roots.
    pub ca_file: Option<PathBuf>,
    /// Hosts that may speak plain HTTP, or with a certificate that is not checked.
    pub insecure: Vec<String>,
}

/// Who has to have signed an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifySettings {
    /// One of these keys, PEM; none: nobody.
    pub keys: Vec<PathBuf>,
    /// Annotations that have to be signed; `{version}` stands for the version.
    pub require: BTreeMap<String, String>,
}

/// How an image gets into the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// By a patch of the workload.
    Image,
    /// By a ConfigMap, from which somebody else takes it.
    Publish,
}

/// Where the schedule is that agents export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleObject {
    /// It is a Secret; else a ConfigMap.
    pub is_secret: bool,
    /// The object's name.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// One agent.
#[derive(Debug, Clone, PartialEq)]
pub struct KubeAgent {
    /// The workload's name.
    pub name: String,
    /// Its kind.
    pub kind: WorkloadKind,
    /// The container whose image is changed.
    pub container: String,
    /// The update group.
    pub group: Option<String>,
    /// How the image is written.
    pub write: WriteMode,
    /// When it may be updated.
    pub window: Option<Window>,
    /// Where agents export when they may be updated.
    pub schedule: Option<ScheduleObject>,
    /// Who names the version.
    pub source: Source,
    /// Who has to have signed.
    pub verify: VerifySettings,
    /// The version that it stays at.
    pub pin: Option<Version>,
    /// No version below it.
    pub min_version: Option<Version>,
    /// How a tag is made of a version: `{version}`.
    pub tag: Option<String>,
    /// The repository, in place of the workload's.
    pub image: Option<String>,
    /// How patient a verdict is.
    pub patience: Patience,
    /// A lower version may be installed though data is on a volume.
    pub allow_downgrade: bool,
    /// A tag is resolved to a digest.
    pub resolve: bool,
    /// Labels of its reports.
    pub labels: BTreeMap<String, String>,
}

impl KubeAgent {
    /// Its key in the ConfigMap of the state.
    pub fn key(&self) -> String {
        format!("{}.{}", self.kind.name().to_ascii_lowercase(), self.name)
    }

    /// The version of one of its images; `None`: nobody can tell.
    pub fn version(&self, image: &str) -> Option<Version> {
        crate::image::version(image, self.tag.as_deref())
    }
}

/// The time zone of that name, as this program's own image has none: by the library's data.
pub fn zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" => Some(TimeZone::UTC),
        _ => TimeZone::get(name).ok(),
    }
}

impl KubeConfig {
    /// Reads `file`.
    ///
    /// Errors: `config_invalid` with file, line and key; what cannot be read.
    pub fn read(file: &Path) -> Result<Self> {
        let bytes = error::read_limited(file, LONGEST_FILE)?.ok_or_else(|| {
            Error::new(Code::ConfigInvalid, format!("{} does not exist", file.display()))
                .advise("mount kube.yaml there, or give --agent and --source")
        })?;
        Self::parse(file, &bytes)
    }

    /// Reads `bytes`, the content of `file`.
    ///
    /// Errors: `config_invalid` with file, line and key.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self> {
        let root = document(file, bytes, true)?;
        let view = View::new(file, &root);
        view.only_keys(&["version", "kind", "spec"])?;
        view.check_kind("v1", "kube_update")?;
        let spec = view.at("spec")?;
        spec.only_keys(&["source", "max_in_flight", "registry", "verify", "agents", "join_token_file"])?;
        let registry = spec.at("registry")?;
        registry.only_keys(&["auth_file", "ca_file", "insecure"])?;
        let items = spec.at("agents")?;
        let agents = items.items()?.iter().map(|item| agent(item, &spec)).collect::<Result<Vec<_>>>()?;
        if agents.is_empty() {
            return Err(items.wrong("a list with an agent"));
        }
        let mut keys = BTreeSet::new();
        if let Some(KubeAgent { kind, name, .. }) = agents.iter().find(|agent| !keys.insert(agent.key())) {
            return Err(items.wrong(&format!("a list of different agents: {kind} {name} is there twice")));
        }
        Ok(Self {
            agents,
            max_in_flight: spec.at("max_in_flight")?.count()?.map_or(1, |count| count as usize),
            registry: RegistrySettings {
                auth_file: registry.at("auth_file")?.absolute_path()?,
                ca_file: registry.at("ca_file")?.absolute_path()?,
                insecure: registry.at("insecure")?.texts()?,
            },
            join_token_file: spec.at("join_token_file")?.absolute_path()?,
        })
    }

    /// One agent of flags: what is not given is as in a file that does not name it.
    ///
    /// Errors: `usage` for a value that is none.
    pub fn of_flags(pairs: &[(&str, &str)]) -> Result<Self> {
        let pairs = pairs.iter().map(|(key, value)| (*key, Some(Node::text(*value))));
        let agent = Node::mapping(pairs);
        let spec = Node::mapping([("agents", Some(Node::list(vec![agent])))]);
        let text = |text: &str| Some(Node::text(text));
        let root = Node::mapping([("version", text("v1")), ("kind", text("kube_update")), ("spec", Some(spec))]);
        Self::parse(Path::new("the flags"), root.emit().as_bytes())
    }
}

fn source(view: &View<'_>) -> Result<Option<Source>> {
    let at = view.at("source")?;
    let Some(text) = at.text()? else { return Ok(None) };
    text.parse().map(Some).map_err(|error: Error| at.wrong(&format!("a source of versions: {}", error.what)))
}

fn verify(view: &View<'_>) -> Result<VerifySettings> {
    let at = view.at("verify")?;
    if at.is_word("none") {
        return Ok(VerifySettings::default());
    }
    at.only_keys(&["keys", "require"])?;
    let keys: Vec<_> = at.at("keys")?.texts()?.into_iter().map(PathBuf::from).collect();
    if at.is_there() && keys.is_empty() {
        return Err(at.wrong("`none`, or a mapping with `keys`"));
    }
    Ok(VerifySettings { keys, require: at.at("require")?.texts_by_name()? })
}

/// What `view` says of an agent; `spec`: what all have in common that say nothing of it.
fn agent(view: &View<'_>, spec: &View<'_>) -> Result<KubeAgent> {
    view.only_keys(&AGENT_KEYS)?;
    let seconds =
        |key: &str, default| Ok::<_, Error>(view.at(key)?.duration()?.unwrap_or(Duration::from_secs(default)));
    let source = source(view)?.or(source(spec)?);
    let common = verify(spec)?;
    let agent = KubeAgent {
        name: object_name(&view.at("name")?)?,
        kind: view.at("kind")?.parsed("StatefulSet, Deployment or DaemonSet")?.unwrap_or_default(),
        container: view.at("container")?.text()?.unwrap_or_else(|| DEFAULT_CONTAINER.to_owned()),
        group: view.at("group")?.text()?,
        write: write_mode(&view.at("write")?)?,
        window: window(&view.at("window")?)?,
        schedule: schedule(&view.at("schedule")?)?,
        source: view.at("source")?.needed("there, here or in spec", source)?,
        verify: if view.at("verify")?.is_there() { verify(view)? } else { common },
        pin: view.at("pin")?.parsed("a version")?,
        min_version: view.at("min_version")?.parsed("a version")?,
        tag: tag(&view.at("tag")?)?,
        image: repository(&view.at("image")?)?,
        patience: Patience {
            watch: seconds("watch", 60)?,
            progress_deadline: seconds("progress_deadline", 600)?,
            unhealthy_after: seconds("unhealthy_after", 300)?,
        },
        allow_downgrade: view.at("allow_downgrade")?.boolean()?.unwrap_or_default(),
        resolve: view.at("resolve")?.boolean()?.unwrap_or(true),
        labels: view.at("labels")?.texts_by_name()?,
    };
    if !agent.resolve && !agent.verify.keys.is_empty() {
        return Err(view.at("resolve")?.wrong("true: a signature is over a digest; or set verify: none"));
    }
    if agent.window.is_some() && agent.schedule.is_some() {
        return Err(view.at("schedule")?.wrong("usable beside `window`: give one of them"));
    }
    Ok(agent)
}

/// A text that fits, if there is one; `wanted` is what it would be.
fn fitting(view: &View<'_>, wanted: &str, fits: impl Fn(&str) -> bool) -> Result<Option<String>> {
    let text = view.text()?;
    if text.as_deref().is_some_and(|text| !fits(text)) { Err(view.wrong(wanted)) } else { Ok(text) }
}

/// A name as Kubernetes has it: it goes into paths.
fn object_name(view: &View<'_>) -> Result<String> {
    let wanted = "the name of an object: lower-case letters, digits, `-` and `.`";
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let name = fitting(view, wanted, |text| {
        (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_letter) && !text.starts_with(['.', '-'])
    });
    view.needed(wanted, name?)
}

fn write_mode(view: &View<'_>) -> Result<WriteMode> {
    let mode = fitting(view, "image or publish", |text| matches!(text, "image" | "publish"))?;
    Ok(if mode.as_deref() == Some("publish") { WriteMode::Publish } else { WriteMode::Image })
}

fn window(view: &View<'_>) -> Result<Option<Window>> {
    let lines = view.texts()?;
    if lines.is_empty() {
        return Ok(None);
    }
    let window = Window::parse(&lines.join("\n"), WINDOW_LENGTH, &zone);
    window.map(Some).map_err(|why| view.wrong(&format!("a window: {why}")))
}

fn schedule(view: &View<'_>) -> Result<Option<ScheduleObject>> {
    if !view.is_there() {
        return Ok(None);
    }
    view.only_keys(&["secret", "config_map", "key"])?;
    let (secret, config_map) = (view.at("secret")?, view.at("config_map")?);
    if secret.is_there() == config_map.is_there() {
        return Err(view.wrong("a mapping with either `secret` or `config_map`"));
    }
    let is_secret = secret.is_there();
    let name = object_name(if is_secret { &secret } else { &config_map })?;
    let key = view.at("key")?;
    Ok(Some(ScheduleObject { is_secret, name, key: key.needed("there", key.text()?)? }))
}

fn tag(view: &View<'_>) -> Result<Option<String>> {
    let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    fitting(view, "a tag with {version} in it", |text| {
        text.matches("{version}").count() == 1 && text.replace("{version}", "").bytes().all(is_tag)
    })
}

fn repository(view: &View<'_>) -> Result<Option<String>> {
    let is_bare = |image: registry::ImageReference| image.tag().is_none() && image.digest().is_none();
    fitting(view, "a repository, without tag and digest", |text| text.parse().is_ok_and(is_bare))
}

fn unusable(file: &Path, what: &str) -> Error {
    Error::new(Code::ConfigInvalid, format!("{} {what}", file.display())).advise("mount it there")
}

/// A file that kube.yaml names.
///
/// Errors: `config_invalid` with the file; what cannot be read.
pub fn mounted(file: &Path) -> Result<Vec<u8>> {
    error::read_limited(file, MAX_MOUNTED)?.ok_or_else(|| unusable(file, "does not exist"))
}

/// A file of keys or certificates.
///
/// Errors: as [`mounted`].
pub fn pem(file: &Path) -> Result<String> {
    String::from_utf8(mounted(file)?).map_err(|_| unusable(file, "is not PEM text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KubeConfig> {
        KubeConfig::parse(Path::new("kube.yaml"), text.as_bytes())
    }

    fn spec(lines: &str) -> Result<KubeConfig> {
        let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
        parse(&format!("version: v1\nkind: kube_update\nspec:\n{lines}"))
    }

    #[test]
    fn what_is_not_said_has_its_default_and_an_agent_has_what_spec_says() {
        let config =
            spec("source: https://example.com\nagents:\n- name: a\n- name: a\n  kind: Deployment\n  source: file:///x")
                .unwrap();
        let [first, second] = &config.agents[..] else { panic!("{config:?}") };
        assert_eq!((first.kind, first.container.as_str()), (WorkloadKind::StatefulSet, "teleport"));
        assert_eq!((first.write, first.resolve, config.max_in_flight), (WriteMode::Image, true, 1));
        assert_eq!(first.patience.watch, Duration::from_secs(60));
        assert_eq!(second.source, Source::File("/x".into()));
        assert_eq!((first.key(), second.key()), ("statefulset.a".into(), "deployment.a".into()));
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_key() {
        let one = "source: https://e.com\nagents:\n- name: a\n";
        for (lines, said) in [
            ("agents: []\nsource: https://e.com", "spec.agents is not a list with an agent"),
            ("agents:\n- name: a", "spec.agents[0].source is not there"),
            ("sauce: x", "spec.sauce"),
            (&format!("{one}  kint: x"), "spec.agents[0].kint"),
            (&format!("{one}  kind: Pod"), "StatefulSet, Deployment or DaemonSet"),
            (&format!("{one}- name: a"), "is there twice"),
            (&format!("{one}  name: A"), "line"),
            ("source: https://e.com\nagents:\n- name: ../x", "the name of an object"),
            ("source: ftp://e.com\nagents:\n- name: a", "its scheme is unknown"),
            (&format!("{one}  tag: latest"), "{version}"),
            (&format!("{one}  image: a/b:1"), "without tag and digest"),
            (&format!("{one}  watch: soon"), "a duration"),
            (&format!("{one}  window: never"), "window"),
            (&format!("{one}  window: 02:00\n  schedule: {{secret: s, key: k}}"), "give one of them"),
            (&format!("{one}  schedule: {{secret: s, config_map: c, key: k}}"), "either"),
            (&format!("{one}  verify: {{keys: []}}"), "`none`"),
            (&format!("{one}  verify: {{keys: [/k]}}\n  resolve: false"), "a signature is over a digest"),
            (&format!("{one}  write: both"), "image or publish"),
        ] {
            let error = spec(lines).unwrap_err();
            assert_eq!(error.code, Code::ConfigInvalid, "{lines}");
            assert!(error.to_string().contains(said) && error.to_string().contains("kube.yaml"), "{lines}: {error}");
        }
        for text in
            ["", "version: v2\nkind: kube_update", "version: v1\nkind: update_config\nspec: {}", "a: [", "\u{1}"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn flags_make_the_same_as_a_file() {
        let flags = KubeConfig::of_flags(&[("name", "a"), ("source", "https://e.com"), ("group", "g: #x")]).unwrap();
        assert_eq!(flags.agents[0].group.as_deref(), Some("g: #x"));
        assert!(KubeConfig::of_flags(&[("name", "a")]).unwrap_err().to_string().contains("the flags"));
    }
}
