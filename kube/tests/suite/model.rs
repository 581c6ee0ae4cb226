//! A model of the API server for two updaters in one process: swaps by resourceVersion, JSON patches with their tests, preconditions
//! of a deletion, and a StatefulSet of two ordered pods. A seed says which call waits, before it or after it, while the other
//! updater goes on, and which reply is lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::crash::Random;

/// Longest that a call waits for the other updater.
const HOLD: Duration = Duration::from_millis(200);
/// One call in so many waits, and one write; one reply in so many is lost.
const HOLDS: usize = 6;
const HOLDS_WRITES: usize = 2;
const LOSES: usize = 25;
/// At most so many calls of the other one come first; for one that waits in so many it is a whole change, and its way back.
const OVERTAKERS: usize = 24;
const OVERTAKEN_WHOLLY: usize = 6;

/// What there is.
pub struct Objects {
    map: Value,
    secret: Value,
    pub workload: Value,
    pub pods: Vec<Value>,
    version: u64,
    /// Images of this version do not come up.
    bad: Option<&'static str>,
    /// Each image that was written, and by whom.
    pub written: Vec<(usize, String)>,
    /// Whether each pod that was deleted was ready.
    pub deleted: Vec<bool>,
}

pub struct ModelServer {
    pub objects: Mutex<Objects>,
    calls: [AtomicUsize; 2],
    holds: [AtomicBool; 2],
    seed: u64,
    has_ended: AtomicBool,
    listeners: Mutex<Vec<std::net::SocketAddr>>,
}

impl ModelServer {
    pub fn new(seed: u64, image: &str, bad: Option<&'static str>) -> Arc<Self> {
        let fields = json!([{"manager": "helm", "operation": "Update", "fieldsV1": {}}]);
        let workload = json!({
            "metadata": {"name": "agent", "uid": "u-set", "resourceVersion": "1", "generation": 1, "managedFields": fields},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "agent"}},
                "template": {"spec": {"containers": [{"name": "teleport", "image": image}]}},
            },
            "status": {"observedGeneration": 1, "updateRevision": "r1"},
        });
        let empty = |name: &str| json!({"metadata": {"name": name, "resourceVersion": "1"}});
        let (map, secret) = (empty("map"), empty("secret"));
        let objects = Objects {
            map,
            secret,
            workload,
            pods: Vec::new(),
            version: 1,
            bad,
            written: Vec::new(),
            deleted: Vec::new(),
        };
        let model = Self {
            objects: Mutex::new(objects),
            calls: Default::default(),
            holds: Default::default(),
            seed,
            has_ended: AtomicBool::new(false),
            listeners: Mutex::default(),
        };
        model.objects.lock().unwrap().control();
        Arc::new(model)
    }

    /// Listens for one of two updaters, 0 or 1; gives the address.
    pub fn listen(self: &Arc<Self>, whose: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        self.listeners.lock().unwrap().push(address);
        let own = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let own = Arc::clone(&own);
                std::thread::spawn(move || own.serve(&stream, whose));
            }
        });
        format!("http://{address}")
    }

    /// Nobody listens any more.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        for address in self.listeners.lock().unwrap().iter() {
            let _ = TcpStream::connect(address);
        }
    }

    fn serve(&self, stream: &TcpStream, whose: usize) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut lines = BufReader::new(stream);
        loop {
            let (mut first, mut length) = (String::new(), 0);
            lines.read_line(&mut first).ok()?;
            loop {
                let mut line = String::new();
                (lines.read_line(&mut line).ok()? > 0).then_some(())?;
                match line.trim().to_ascii_lowercase().split_once(':') {
                    Some(("content-length", value)) => length = value.trim().parse().ok()?,
                    Some(_) => {}
                    None => break,
                }
            }
            let mut body = vec![0; length];
            lines.read_exact(&mut body).ok()?;
            let mut words = first.split(' ');
            let (method, path) = (words.next()?, words.next()?.split('?').next()?);
            let number = self.calls[whose].fetch_add(1, Ordering::SeqCst) as u64;
            let mut random = Random::new(self.seed.wrapping_mul(1 << 20) + number * 2 + whose as u64);
            let holds = if method == "PATCH" { HOLDS_WRITES } else { HOLDS };
            let (before, after, is_lost) = (random.below(holds), random.below(holds), random.below(LOSES));
            let count = 1 + random.below(OVERTAKERS);
            let count = if random.below(OVERTAKEN_WHOLLY) == 0 { 4 * OVERTAKERS } else { count };
            if before == 0 {
                self.hold(whose, count);
            }
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (status, answer) = self.objects.lock().unwrap().answer(whose, method, path, &body);
            if after == 0 {
                self.hold(whose, count);
            }
            if is_lost == 0 {
                return None;
            }
            let answer = answer.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            (&mut &*stream).write_all((head + &answer).as_bytes()).ok()?;
        }
    }

    /// Waits for `count` calls of the other one, unless that one waits already.
    fn hold(&self, whose: usize, count: usize) {
        if self.holds[1 - whose].load(Ordering::SeqCst) {
            return;
        }
        self.holds[whose].store(true, Ordering::SeqCst);
        let other = &self.calls[1 - whose];
        let (begun, until) = (Instant::now(), other.load(Ordering::SeqCst) + count);
        while other.load(Ordering::SeqCst) < until && begun.elapsed() < HOLD {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.holds[whose].store(false, Ordering::SeqCst);
    }
}

impl Objects {
    pub fn image(&self) -> String {
        self.workload["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    }

    pub fn state(&self) -> Option<&str> {
        self.map["data"]["statefulset.agent"].as_str()
    }

    fn answer(&mut self, whose: usize, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut names = path.split("/namespaces/").nth(1).unwrap_or_default().split('/').skip(1);
        let (kind, name) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        match (method, kind) {
            ("GET", "configmaps") => (200, self.map.clone()),
            ("GET", "secrets") => (200, self.secret.clone()),
            ("GET", "statefulsets") => (200, self.workload.clone()),
            ("GET", "pods") => (200, json!({"items": self.pods})),
            ("PATCH", "configmaps") => merge(&mut self.map, &mut self.version, body),
            ("PATCH", "secrets") => merge(&mut self.secret, &mut self.version, body),
            ("PATCH", "statefulsets") => self.patch(whose, body),
            ("DELETE", "pods") => self.delete(name, body),
            ("POST", "events") => (201, body.clone()),
            _ => status(404, "NotFound"),
        }
    }

    fn patch(&mut self, whose: usize, steps: &Value) -> (u16, Value) {
        let mut new = self.workload.clone();
        for step in steps.as_array().unwrap() {
            let Some(place) = new.pointer_mut(step["path"].as_str().unwrap()) else { return status(422, "Invalid") };
            match step["op"].as_str().unwrap() {
                "test" if *place != step["value"] => return status(422, "Invalid"),
                "test" => {}
                "replace" => *place = step["value"].clone(),
                op => panic!("{op}"),
            }
        }
        let before = self.image();
        self.workload = new;
        let image = self.image();
        self.written.push((whose, image.clone()));
        if image != before {
            self.version += 1;
            let generation = self.workload["metadata"]["generation"].as_u64().unwrap() + 1;
            let field = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"teleport\"}": {"f:image": {}}}}}}});
            let fields = json!([{"manager": "teleport-kube-update", "operation": "Update", "fieldsV1": field}]);
            let meta = &mut self.workload["metadata"];
            meta["generation"] = generation.into();
            meta["resourceVersion"] = self.version.to_string().into();
            meta["managedFields"] = fields;
            // The revision of a template that was there before is that one's again.
            let revision = format!("r-{}", image.rsplit(':').next().unwrap());
            self.workload["status"] = json!({"observedGeneration": generation, "updateRevision": revision});
            self.control();
        }
        (200, self.workload.clone())
    }

    fn delete(&mut self, name: &str, options: &Value) -> (u16, Value) {
        let Some(at) = self.pods.iter().position(|pod| pod["metadata"]["name"] == name) else {
            return status(404, "NotFound");
        };
        let (meta, wanted) = (&self.pods[at]["metadata"], &options["preconditions"]);
        if ["uid", "resourceVersion"].iter().any(|key| meta[*key] != wanted[*key]) {
            return status(409, "Conflict");
        }
        let pod = self.pods.remove(at);
        self.deleted.push(is_ready(&pod));
        self.control();
        (200, json!({}))
    }

    /// The controller of an ordered set: from the highest pod down, and none before the one above it is ready.
    fn control(&mut self) {
        for ordinal in [1, 0] {
            let name = format!("agent-{ordinal}");
            let at = self.pods.iter().position(|pod| pod["metadata"]["name"] == name);
            let revision = self.workload["status"]["updateRevision"].clone();
            if let Some(at) = at {
                let pod = &self.pods[at];
                if pod["metadata"]["labels"]["controller-revision-hash"] == revision {
                    if is_ready(pod) {
                        continue;
                    }
                    return;
                }
                // kubernetes#67250: it waits for a pod that is not ready.
                if !is_ready(pod) {
                    return;
                }
                self.pods.remove(at);
            }
            let pod = self.pod(&name, &revision);
            let is_up = is_ready(&pod);
            self.pods.push(pod);
            if !is_up {
                return;
            }
        }
    }

    fn pod(&mut self, name: &str, revision: &Value) -> Value {
        self.version += 1;
        let image = self.image();
        let is_bad = self.bad.is_some_and(|bad| image.ends_with(bad));
        let (phase, ready) = if is_bad { ("Pending", "False") } else { ("Running", "True") };
        let state = if is_bad { json!({"waiting": {"reason": "InvalidImageName"}}) } else { json!({}) };
        json!({
            "metadata": {
                "name": name, "uid": format!("u{}", self.version), "resourceVersion": self.version.to_string(),
                "labels": {"app": "agent", "controller-revision-hash": revision},
                "ownerReferences": [{"kind": "StatefulSet", "name": "agent", "uid": "u-set"}],
            },
            "spec": {"containers": [{"name": "teleport", "image": image}]},
            "status": {
                "phase": phase, "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [{"name": "teleport", "ready": !is_bad, "restartCount": 0, "state": state}],
            },
        })
    }
}

pub fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

fn merge(object: &mut Value, version: &mut u64, change: &Value) -> (u16, Value) {
    let wanted = &change["metadata"]["resourceVersion"];
    if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
        return status(409, "Conflict");
    }
    for (key, value) in change["data"].as_object().unwrap() {
        object["data"][key] = value.clone();
    }
    *version += 1;
    object["metadata"]["resourceVersion"] = version.to_string().into();
    (200, object.clone())
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "the model says so", "reason": reason, "code": code,
    });
    (code, status)
}
