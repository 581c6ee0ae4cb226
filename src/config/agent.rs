//! The few things the updater reads from the agent's `teleport.yaml`; it never writes there (SPEC §1, §5).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::installer::MAX_NAMED;
use yaml::Node;
use yaml::view::{View, read_document};

use crate::report::Result;

/// What `teleport.yaml` says of interest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentConfig {
    /// `teleport.data_dir`, as written.
    pub data_dir: Option<PathBuf>,
    /// `teleport.proxy_server`, else `teleport.auth_server`, else the first of `teleport.auth_servers`; as written.
    pub proxy: Option<String>,
    /// The static labels of the agent: `teleport.labels`, and over them `ssh_service.labels`. What is no label is left out.
    pub labels: BTreeMap<String, String>,
    /// Teleport's services that the file enables by `enabled:`, as Teleport calls them (`node`, `app`, `kube`); sorted, at most 16. What
    /// Teleport enables by default, and what the agent's command line says, is not among them.
    pub services: Vec<String>,
    /// Labels whose values programs print: of `teleport.commands` and of `ssh_service.commands`. What is none is left out.
    pub commands: Vec<LabelCommand>,
}

/// A label whose value is what a program prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelCommand {
    /// The label.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// How long a value counts.
    pub period: Duration,
}

/// Longest name of a service, bytes.
const MAX_SERVICE: usize = 32;

/// The agent's own, where the configuration names none.
const PERIOD: Duration = Duration::from_secs(60);

impl AgentConfig {
    /// Reads the file; `None` if it is not there. The agent itself reads only the first document of it.
    ///
    /// Errors: `config_invalid` with the line; `permission`, `io`.
    pub fn read(file: &Path) -> Result<Option<Self>> {
        let Some(root) = read_document(file, false)? else { return Ok(None) };
        let teleport = View::new(file, &root).at("teleport")?;
        let text = |key: &str| -> Result<_> { Ok(teleport.at(key)?.text()?.filter(|text| !text.is_empty())) };
        let proxy = match text("proxy_server")? {
            Some(proxy) => Some(proxy),
            None => match text("auth_server")? {
                Some(server) => Some(server),
                None => teleport.at("auth_servers")?.texts()?.into_iter().find(|server| !server.is_empty()),
            },
        };
        let mut labels = teleport.at("labels")?.texts_by_name().unwrap_or_default();
        let of_ssh = View::new(file, &root).at("ssh_service").and_then(|ssh| ssh.at("labels")?.texts_by_name());
        labels.extend(of_ssh.unwrap_or_default());
        let commands_of =
            |section: &str| View::new(file, &root).at(section).and_then(|view| view.at("commands")?.items());
        let commands = ["teleport", "ssh_service"].iter().flat_map(|section| commands_of(section).unwrap_or_default());
        let commands = commands.filter_map(|view| LabelCommand::read(&view)).collect();
        let services = services(&View::new(file, &root), &root);
        Ok(Some(Self { data_dir: text("data_dir")?.map(PathBuf::from), proxy, labels, services, commands }))
    }
}

/// The services whose sections say `enabled: yes`.
fn services(view: &View<'_>, root: &Node) -> Vec<String> {
    let is_enabled =
        |key: &&str| view.at(&format!("{key}.enabled")).is_ok_and(|at| matches!(at.boolean(), Ok(Some(true))));
    let keys = root.pairs().unwrap_or_default().iter().filter_map(|(key, _)| key.as_str());
    let services =
        keys.filter(|key| !key.contains('.')).filter(is_enabled).filter_map(|key| key.strip_suffix("_service"));
    let names = services.map(|name| match name {
        "ssh" => "node",
        "kubernetes" => "kube",
        name => name,
    });
    let names = names.filter(|name| (1..=MAX_SERVICE).contains(&name.len()) && is_plain(name));
    let sorted: BTreeSet<String> = names.map(str::to_owned).collect();
    sorted.into_iter().take(MAX_NAMED).collect()
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl LabelCommand {
    fn read(view: &View<'_>) -> Option<Self> {
        let name = view.at("name").ok()?.text().ok()??;
        let command = view.at("command").ok()?.texts().ok().filter(|words| !words.is_empty())?;
        let period = view.at("period").ok()?.duration().ok().flatten().unwrap_or(PERIOD);
        Some(Self { name, command, period })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::durable;
    use crate::report::Code;

    fn read(content: &str) -> Result<Option<AgentConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("teleport.yaml");
        durable::write(&file, content.as_bytes(), 0o600).unwrap();
        AgentConfig::read(&file)
    }

    #[test]
    fn the_proxy_comes_first_then_the_auth_servers_of_either_form() {
        for (content, proxy) in [
            ("version: v3\nteleport:\n  proxy_server: p:443\n  auth_server: a:3025\n", Some("p:443")),
            ("version: v3\nteleport:\n  auth_server: a:3025\n", Some("a:3025")),
            ("teleport:\n  auth_servers: [b:3025, c]\n", Some("b:3025")),
            ("teleport:\n  auth_servers: b:3025\n", Some("b:3025")),
            ("teleport:\n  nodename: x\n", None),
            ("", None),
        ] {
            assert_eq!(read(content).unwrap().unwrap().proxy.as_deref(), proxy, "{content}");
        }
        let labels = "teleport:\n  labels: {a: 1, b: x}\nssh_service:\n  labels:\n    b: y\n";
        let expected = [("a", "1"), ("b", "y")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(labels).unwrap().unwrap().labels, expected.into());
        assert!(read("ssh_service: text\n").unwrap().unwrap().labels.is_empty());
    }

    #[test]
    fn commands_that_make_labels_are_read_and_what_is_none_is_left_out() {
        let commands = "teleport:\n  commands:\n  - {name: arch, command: [/bin/uname, -p], period: 1h0m0s}\n  - {name: no}\n  - x\n\
                        ssh_service:\n  commands: [{name: up, command: uptime}]\n";
        let command = |name: &str, words: &[&str], seconds: u64| LabelCommand {
            name: name.to_owned(),
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            period: Duration::from_secs(seconds),
        };
        let expected = [command("arch", &["/bin/uname", "-p"], 3600), command("up", &["uptime"], 60)];
        assert_eq!(read(commands).unwrap().unwrap().commands, expected);
        assert!(read("teleport:\n  commands: text\n").unwrap().unwrap().commands.is_empty());
        let config = read("teleport:\n  data_dir: /data\n").unwrap().unwrap();
        assert_eq!(config.data_dir.as_deref(), Some(Path::new("/data")));
    }

    #[test]
    fn services_are_those_that_the_file_enables_as_teleport_calls_them() {
        let text = "ssh_service: {enabled: yes}\nauth_service: {enabled: no}\nkubernetes_service:\n  enabled: true\n\
                    app_service: {}\nproxy_service: x\ndb_service: {enabled: 'yes'}\nteleport: {enabled: yes}\n";
        assert_eq!(read(text).unwrap().unwrap().services, ["db", "kube", "node"]);
        let many: String = (0..20).map(|at| format!("x{at:02}_service: {{enabled: yes}}\n")).collect();
        assert_eq!(read(&many).unwrap().unwrap().services.len(), 16);
    }

    #[test]
    fn an_absent_file_is_none_and_a_broken_one_names_its_line() {
        assert_eq!(AgentConfig::read(Path::new("/nonexistent/teleport.yaml")).unwrap(), None);
        let error = read("teleport:\n  data_dir: [\n").unwrap_err();
        assert_eq!(error.code, Code::ConfigInvalid);
        assert!(error.what.contains("line 3"), "{error}");
    }
}
