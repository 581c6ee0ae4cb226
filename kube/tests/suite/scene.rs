//! A namespace with agents, their images, and the updater beside them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use kube_bed::{ApiClient, ApiProxy, KubeBed, Namespace, PatchKind, PodLife, image_of, wait_for};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use testing::loopback::{Reply, Request};
use testing::registry::StandInRegistry;

/// More than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The platform of all images.
const PLATFORMS: [&str; 2] = ["linux/amd64", "linux/arm64"];

/// What a test has.
pub struct Scene {
    pub space: Namespace,
    pub registry: StandInRegistry,
    /// `HOST:PORT/teleport`.
    pub repository: String,
    pub proxy: ApiProxy,
    /// As the updater's ServiceAccount.
    pub account: ApiClient,
    pub folder: tempfile::TempDir,
    /// What the updater has beside an empty environment.
    pub environment: Vec<(&'static str, String)>,
    agents: Vec<String>,
    children: Vec<Child>,
}

impl Scene {
    /// `agents`: the names of their workloads, which the updater's Role names.
    pub fn new(bed: &KubeBed, name: &str, agents: &[&str]) -> Self {
        Self::through(bed, name, agents, |_, reply| reply)
    }

    /// The same; the registry's answers go `through` this.
    pub fn through(
        bed: &KubeBed,
        name: &str,
        agents: &[&str],
        through: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let space = bed.namespace(name);
        let registry = StandInRegistry::default();
        let host = registry.serve_through(through);
        for kind in ["ConfigMap", "Secret"] {
            space.client.create(&json!({"apiVersion": "v1", "kind": kind, "metadata": meta(&space, NAME)})).unwrap();
        }
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta(&space, NAME)});
        space.client.create(&lease).unwrap();
        let account = space.account(NAME, &rules(agents));
        let proxy = ApiProxy::start(bed);
        let scene = Self {
            space,
            registry,
            repository: format!("{host}/teleport"),
            proxy,
            account,
            folder: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
            agents: agents.iter().map(|&agent| agent.to_owned()).collect(),
            children: Vec::new(),
        };
        for version in ["1.0.0", "1.1.0", "2.0.0"] {
            scene.registry.push_image("teleport", version, Some(version), &PLATFORMS);
        }
        scene.want("1.0.0", "");
        scene.configure(BTreeMap::new());
        scene
    }

    /// One more Lease, which the updater's ServiceAccount may use as well.
    pub fn lease_too(&self, name: &str) {
        let rules = json!([{
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [name], "verbs": ["get", "patch", "update"],
        }]);
        let rbac = "rbac.authorization.k8s.io";
        let (meta, space) = (meta(&self.space, name), &self.space.name);
        for object in [
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": meta, "rules": rules}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": meta,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": space}],
            }),
        ] {
            self.space.client.create(&object).unwrap();
        }
    }

    /// The image of a version, without its digest.
    pub fn image(&self, version: &str) -> String {
        format!("{}:{version}", self.repository)
    }

    /// What becomes of pods of a version.
    pub fn live(&self, version: &str, life: PodLife) {
        self.space.lives.set(&self.image(version), life);
    }

    /// What the source, a file, says from now on.
    pub fn want(&self, version: &str, more: &str) {
        let text = format!("version: {version}\n{more}\n");
        std::fs::write(self.folder.path().join("release.yaml"), text).unwrap();
    }

    /// Writes kube.yaml: short times, and `more` keys of every agent.
    pub fn configure(&self, more: BTreeMap<&str, Value>) {
        let release = self.folder.path().join("release.yaml");
        let host = self.repository.split('/').next().unwrap();
        let agents = self.agents.iter().map(|name| {
            let kind = self.kind(name);
            let mut agent = json!({
                "name": name, "kind": kind, "watch": "2s", "progress_deadline": "8s", "unhealthy_after": "2s",
            });
            for (key, value) in &more {
                agent[*key] = value.clone();
            }
            agent
        });
        let config = json!({
            "version": "v1", "kind": "kube_update",
            "spec": {
                "source": format!("file://{}", release.display()), "verify": "none",
                "registry": {"insecure": [host]}, "agents": agents.collect::<Vec<_>>(),
            },
        });
        std::fs::write(self.folder.path().join("kube.yaml"), config.to_string()).unwrap();
    }

    fn kind(&self, name: &str) -> &'static str {
        ["Deployment", "DaemonSet"]
            .into_iter()
            .find(|kind| name.starts_with(&kind.to_lowercase()))
            .unwrap_or("StatefulSet")
    }

    /// By which an updater reaches the API server: through a proxy, as its ServiceAccount.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of(&self.proxy)
    }

    fn kubeconfig_of(&self, proxy: &ApiProxy) -> PathBuf {
        let port = proxy.url.rsplit(':').next().unwrap();
        let kubeconfig = self.folder.path().join(format!("kubeconfig-{port}"));
        // Another updater may be reading it.
        if !kubeconfig.exists() {
            std::fs::write(&kubeconfig, self.account.kubeconfig(Some(&proxy.url), &self.space.name)).unwrap();
        }
        kubeconfig
    }

    fn command(&self, proxy: &ApiProxy) -> Command {
        // Figures are of the binary that ships.
        let shipped = std::env::var_os("TEST_KUBE_UPDATER");
        let mut command = Command::new(shipped.unwrap_or_else(|| env!("CARGO_BIN_EXE_teleport-kube-update").into()));
        command.env_clear().envs(self.environment.iter().cloned());
        command.args(["--kubeconfig", self.kubeconfig_of(proxy).to_str().unwrap()]);
        command.args(["--config", self.folder.path().join("kube.yaml").to_str().unwrap()]);
        command
    }

    /// Certificates that the updater trusts.
    pub fn trust(&mut self, file: &std::path::Path) {
        self.environment.push(("SSL_CERT_FILE", file.display().to_string()));
    }

    /// Deletes pods of an agent that keep its set from going on, as a person would.
    pub fn free_stuck(&self, name: &str) {
        let ready = self.space.ready_pods();
        let is_ready = |pod: &Value| ready.iter().any(|ready| ready["metadata"]["name"] == pod["metadata"]["name"]);
        for pod in self.pods(name).iter().filter(|pod| !is_ready(pod)) {
            let place = self.space.path("v1", &format!("pods/{}", pod["metadata"]["name"].as_str().unwrap()));
            let _ = self.space.client.delete(&place, &json!({}));
        }
    }

    /// Starts the updater; gives its number.
    pub fn start(&mut self) -> usize {
        self.start_at("127.0.0.1:0")
    }

    /// The same, with its listener at that address.
    pub fn start_at(&mut self, listen: &str) -> usize {
        let command = self.command(&self.proxy);
        self.start_as(command, listen)
    }

    /// One that has a way of its own to the API server.
    pub fn start_by(&mut self, proxy: &ApiProxy) -> usize {
        let command = self.command(proxy);
        self.start_as(command, "127.0.0.1:0")
    }

    fn start_as(&mut self, mut command: Command, listen: &str) -> usize {
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        command.args(["run", "--listen", listen]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.children.push(command.spawn().unwrap());
        self.children.len() - 1
    }

    /// The process of an updater.
    pub fn process(&self, number: usize) -> Pid {
        Pid::from_raw(i32::try_from(self.children[number].id()).unwrap()).unwrap()
    }

    /// Ends an updater as kubelet does, or at once.
    pub fn stop(&mut self, number: usize, at_once: bool) {
        if at_once {
            self.children[number].kill().unwrap();
        } else {
            rustix::process::kill_process(self.process(number), Signal::TERM).unwrap();
        }
        self.children[number].wait().unwrap();
    }

    /// Asks the source anew, as a new process does.
    pub fn restart(&mut self) {
        self.stop_last();
        self.start();
    }

    /// Ends the updater that was started last.
    pub fn stop_last(&mut self) {
        let last = self.children.len() - 1;
        self.stop(last, false);
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Another command of the updater.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(&self.proxy).args(args).output().unwrap()
    }

    /// Its output, of success.
    pub fn ask(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {error}\n{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// `status` of an agent.
    pub fn status(&self, name: &str) -> Value {
        let all: Value = serde_json::from_str(&self.ask(&["status", "--format", "json"])).unwrap();
        all["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == name).unwrap().clone()
    }

    /// What the ConfigMap remembers of an agent.
    pub fn state(&self, name: &str) -> Value {
        let map = self.space.client.get(&self.space.path("v1", &format!("configmaps/{NAME}"))).unwrap();
        let key = format!("{}.{name}", self.kind(name).to_lowercase());
        map["data"][key].as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    /// Puts this into the ConfigMap, as any neighbour with that right could.
    pub fn forge(&self, name: &str, state: &str) {
        let key = format!("{}.{name}", self.kind(name).to_lowercase());
        let place = self.space.path("v1", &format!("configmaps/{NAME}"));
        self.space.client.patch(&place, PatchKind::Merge, &json!({"data": {key: state}})).unwrap();
    }

    /// The path of a workload.
    pub fn place(&self, name: &str) -> String {
        self.space.path("apps/v1", &format!("{}s/{name}", self.kind(name).to_lowercase()))
    }

    pub fn workload(&self, name: &str) -> Value {
        self.space.client.get(&self.place(name)).unwrap()
    }

    pub fn present(&self, name: &str) -> String {
        image_of(&self.workload(name), "teleport").unwrap().to_owned()
    }

    /// Creates a workload of two replicas that runs 1.0.0, and waits until it is ready.
    pub fn deploy(&self, name: &str) {
        self.create(name);
        self.settled(name, "1.0.0");
    }

    /// The process number of an updater.
    pub fn pid(&self, number: usize) -> u32 {
        self.children[number].id()
    }

    /// Creates a workload of two replicas that runs 1.0.0.
    pub fn create(&self, name: &str) {
        let image = self.image("1.0.0");
        let workload = match self.kind(name) {
            "Deployment" => kube_bed::deployment(&self.space, name, &image, 2),
            "DaemonSet" => kube_bed::daemon_set(&self.space, name, &image),
            _ => kube_bed::stateful_set(&self.space, name, &image, 2, "OrderedReady"),
        };
        self.space.client.create(&workload).unwrap();
    }

    /// Waits until all pods of an agent are ready, and of that version.
    pub fn settled(&self, name: &str, version: &str) {
        let image = self.image(version);
        wait_for(PATIENCE, &format!("{name} runs {version}; {}", self.log()), || {
            let pods = self.pods(name);
            let ready = self.space.ready_pods();
            let is_ready = |pod: &Value| ready.iter().any(|ready| ready["metadata"]["name"] == pod["metadata"]["name"]);
            let is_it = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().starts_with(&image);
            (pods.len() == 2 && pods.iter().all(|pod| is_ready(pod) && is_it(pod))).then_some(())
        });
    }

    /// Waits until an agent is back on 1.0.0 because 2.0.0 failed with this code.
    #[track_caller]
    pub fn settled_after_failure(&self, name: &str, code: &str) {
        let state = self.told_any(name, &["rolled_back", "refused"]);
        let refused = &state["refused"][0];
        assert_eq!(refused["failure"]["code"], code, "{state}");
        assert_eq!(state["last"]["outcome"], "rolled_back", "{state}");
        self.settled(name, "1.0.0");
    }

    /// The Lease of the updaters.
    pub fn lease(&self) -> Value {
        let path = self.space.path("coordination.k8s.io/v1", &format!("leases/{NAME}"));
        self.space.client.get(&path).unwrap()
    }

    pub fn pods(&self, name: &str) -> Vec<Value> {
        self.space.pods().into_iter().filter(|pod| pod["metadata"]["labels"]["app"] == name).collect()
    }

    /// Waits until the state of an agent has this code.
    #[track_caller]
    pub fn told(&self, name: &str, code: &str) -> Value {
        self.told_any(name, &[code])
    }

    /// One of these codes.
    #[track_caller]
    pub fn told_any(&self, name: &str, codes: &[&str]) -> Value {
        let mut last;
        let place = std::panic::Location::caller();
        let begun = std::time::Instant::now();
        loop {
            last = self.state(name);
            if codes.iter().any(|code| last["told"]["code"] == *code) && last["attempt"].is_null() {
                return last;
            }
            assert!(begun.elapsed() < PATIENCE, "{place}: not {codes:?}: {last}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Changes the image as another hand does.
    pub fn set_image(&self, name: &str, version: &str, user_agent: &str, manager: &str) {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "teleport", "image": self.image(version)}]}}}});
        let client = self.space.client.named(user_agent, Some(manager));
        client.patch(&self.place(name), PatchKind::Strategic, &patch).unwrap();
    }

    /// The images that the updater wrote, in their order.
    pub fn written(&self) -> Vec<String> {
        let is_write = |call: &&kube_bed::ApiCall| call.method == "PATCH" && call.path.contains("/apis/apps/v1/");
        let image = |call: kube_bed::ApiCall| {
            let patch: Value = serde_json::from_str(&call.body).unwrap();
            patch.as_array().unwrap().iter().find(|step| step["op"] == "replace").unwrap()["value"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        self.proxy.calls().iter().filter(is_write).cloned().map(image).collect()
    }

    /// The versions of [`Self::written`].
    pub fn versions(&self) -> Vec<String> {
        let version = |image: String| image.split('@').next().unwrap().rsplit(':').next().unwrap().to_owned();
        self.written().into_iter().map(version).collect()
    }

    /// The names of the pods that the updater deleted.
    pub fn deleted(&self) -> Vec<String> {
        let calls = self.proxy.calls();
        let deleted = calls.iter().filter(|call| call.method == "DELETE");
        deleted.map(|call| call.path.rsplit('/').next().unwrap().to_owned()).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The name of ConfigMap, Secret, Lease and ServiceAccount.
pub const NAME: &str = "teleport-kube-update";

fn meta(space: &Namespace, name: &str) -> Value {
    json!({"name": name, "namespace": space.name})
}

/// The Role of KUBE §9.
pub fn rules(agents: &[&str]) -> Value {
    let wanted: Vec<_> =
        [NAME.to_owned()].into_iter().chain(agents.iter().map(|name| format!("{name}-wanted"))).collect();
    json!([
        {"apiGroups": ["apps"], "resources": ["statefulsets", "deployments", "daemonsets"], "resourceNames": agents, "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": wanted, "verbs": ["get", "patch", "update"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME], "verbs": ["get", "patch", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME], "verbs": ["get", "patch", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ])
}
