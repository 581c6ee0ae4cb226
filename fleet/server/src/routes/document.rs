//! `GET /v1/openapi.json`: the API as an OpenAPI 3.1 document. The paths stand here; what is taken and given is derived from its types.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use fleet_engine::resource::Kind;
use fleet_store::Finding;
use fleet_wire::answers::find::{Flat, Nested};
use fleet_wire::answers::graph::{GraphError, UpdateGraph};
use fleet_wire::answers::schedule::WindowList;
use fleet_wire::api::{
    Act, Acted, ApplyPlan, AuditEntry, AuditPage, AuditRange, BeginDryRun, DecideMany, Decided, DecidedMany, DraftView,
    ErrorAnswer, Explained, HostList, HostsQuery, JoinToken, KeptResource, KnownHead, MadeToken, NewDraft,
    NewJoinToken, NewPlan, NewToken, PlanView, Removal, Review, Role, RolloutsQuery, StateCounts, Token, TokenRemoval,
    Verified, VersionControlStatus, Write, WriteResult,
};
use fleet_wire::rollout::{AgentRollout, StopsAlone};
use protocol::report::Report;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::report::{ReportRefused, ReportTaken};

const JSON: &str = "application/json";
/// A `format` is a hint; a pattern is a rule. The nil UUID is nobody's.
const UUID: &str = "^(?!0{8}(-0{4}){3}-0{12}$)[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$";
const TEXT: &str = "text/plain";
/// Of everything that is done.
const DONE: &str = "Done.";

/// Parameters: where each stands (`?` behind it: it may be absent), its name, its type or words if it is no text, what it is.
type Parameters = &'static [&'static str];

const FIND: Parameters = &[
    "query? host: UUID of the host. What is no UUID counts as no host.",
    "query? group: The group that the host declares.",
    "query? update_id: UUID of the updater, for canaries.",
    "query? dry_run any: `true`: nobody updates by the answer. It is the same, and the host does not count as seen.",
];
const GRAPH: Parameters = &[
    "query channel channel: The channel.",
    "query? arch: Architecture.",
    "query? version version: The version that the client runs.",
    "query? id: Of a cluster.",
];
const SCHEDULE: Parameters = &["query kind systemd_timer|kube_controller: Another: 400.", "query? group: The group."];
const SCRIPT: Parameters = &["query? group: Letters, digits, `.`, `_` and `-`."];
const REPORT: Parameters = &[
    "header teleport-fleet-signature: `v1`, the key and the signature in lower-case hex, with a blank between.",
    "header? teleport-fleet-join: A join token.",
];
const TAGS: [(&str, &str); 4] = [
    ("hosts", "What hosts ask and report."),
    ("public", "What else anybody may ask."),
    ("fleet", "The rollout, its hosts and its resources."),
    ("administration", "Tokens, and the data."),
];
/// What stands in paths.
const PLACES: [(&str, &str); 7] = [
    ("{kind}", "path kind kind: The plural does as well."),
    ("{name}", "path name: Its name. Of a `fleet_channel` it may contain `/`."),
    ("hosts/{id}", "path id uuid: The host's UUID; one that was never seen is answered too."),
    ("plans/{id}", "path id uuid: The plan's UUID."),
    ("{from}", "path from: Who or what makes it, such as `static` or `tuf`."),
    ("{channel}", "path channel: Its name; it may contain `/`."),
    ("{file}", "path file: Its name, as clients of TUF ask: `timestamp.json`, `1.root.json`."),
];

const GRAPH_NOTE: &str = "Described for OpenShift's clients; errors are `{\"kind\",\"value\"}`. Fedora CoreOS's send `stream` and `basearch` in \
                          place of `channel`, `node_uuid` and `rollout_wariness` (0, first, to 1); errors have an empty body.";
const SCHEDULES: &str = "`systemd_timer`: an OnCalendar expression; `kube_controller`: windows of four weeks.";
const FORWARD_NOTE: &str =
    "502 `forward_failed` where the server it is forwarded from has given no usable answer within an hour.";
const REPORT_NOTE: &str = "The body is signed with Ed25519 over `teleport-fleet report v1`, a line feed, and its very bytes. It is \
                           answered when it is durable. At most 16 KiB; a key reports once in 10 s, six times at once.";
const NOT_READY: &str = "It does not: its store has not confirmed what is answered for 30 s, or its clock is behind its last decision \
                         (`store_unavailable`). Hosts are answered, and none may update.";
const NOT_TAKEN: &str = "Not taken: another epoch, a number that is not above the last one (then the answer has both to go on from), or \
                         another key.";

/// The document.
pub(super) async fn document() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| Document::new().finish().to_string());
    ([(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, "no-store")], TEXT.as_str()).into_response()
}

/// What hosts ask and say.
fn hosts(of: &mut Document) {
    of.tag = "hosts";
    of.add(None, "get /v1/webapi/find", "findFlat", "What a host shall run (RFD 0169)")
        .note("404 `no_rollout` where no rollout ever named a version. Nothing in the query is an error.")
        .takes(FIND)
        .gives::<Flat<'_>>();
    of.add(None, "get /webapi/find", "findNested", "What a host shall run (today's proxies)")
        .takes(FIND)
        .gives::<Nested<'_>>();
    of.add(None, "get /webapi/ping", "ping", "As /webapi/find, for clients that ask ping")
        .takes(FIND)
        .gives::<Nested<'_>>();
    of.add(None, "post /v1/webapi/agents/report", "report", "A host's report, signed by its key")
        .note(REPORT_NOTE)
        .takes(REPORT)
        .body::<Report>()
        .answer::<ReportTaken>("200", "Taken.", JSON)
        .answer::<ReportTaken>("202", "The host waits for an admin.", JSON)
        .answer::<ReportRefused>("409", NOT_TAKEN, JSON);
    let summary = "When the hosts of a group may update (RFD 0109)";
    of.add(None, "get /v1/maintenance-schedule", "maintenanceSchedule", summary)
        .note("404 `no_windows` where hosts may not update at all.")
        .takes(SCHEDULE)
        .answer::<String>("200", SCHEDULES, TEXT)
        .gives::<WindowList>();
    for (path, id) in [("get /v1/graph", "graph"), ("get /api/upgrades_info/v1/graph", "graphOpenShift")] {
        of.add(None, path, id, "The update graph of a channel")
            .note(GRAPH_NOTE)
            .takes(GRAPH)
            .gives::<UpdateGraph>()
            .answer::<GraphError>("default", "Not answered.", JSON);
    }
}

/// What else anybody may ask.
fn public(of: &mut Document) {
    const V1: &str = "/v1/{channel}";
    const WEBAPI: &str = "/webapi/automaticupgrades/channel/{channel}";
    of.tag = "public";
    of.add(None, "get /scripts/install.sh", "installScript", "The install script")
        .note("404 where `public_addr` is not configured.")
        .takes(SCRIPT)
        .answer::<String>("200", DONE, "text/x-shellscript");
    of.add(None, "get /tuf/metadata/{file}", "tufMetadata", "A file of the TUF repository")
        .note("404 where `tuf_repository` is not configured, and for a file that is not there.")
        .answer::<String>("200", DONE, "application/json");
    for (path, id, what) in [(V1, "V1", "without `v`, and with a line feed"), (WEBAPI, "Webapi", "with `v`")] {
        of.add(None, &format!("get {path}/version"), &format!("channelVersion{id}"), "A channel's version (RFD 0109)")
            .note(FORWARD_NOTE)
            .answer::<String>("200", &format!("The version, {what}; or `none`."), TEXT);
        let summary = "Whether a channel's version is to be installed at once";
        of.add(None, &format!("get {path}/critical"), &format!("channelCritical{id}"), summary)
            .note(FORWARD_NOTE)
            .answer::<String>("200", "`yes` or `no`.", TEXT);
    }
    of.add(None, "get /v1/openapi.json", "openapi", "This document").gives::<Map<String, Value>>();
    of.add(None, "get /healthz", "healthz", "The server answers").answer::<String>("200", DONE, TEXT);
    of.add(None, "get /readyz", "readyz", "The server decides: its store has confirmed its answers within 30 s")
        .answer::<String>("200", "It does; the text also says where everything is held.", TEXT)
        .answer::<ErrorAnswer>("503", NOT_READY, JSON);
    of.add(None, "get /metrics", "metrics", "Numbers for Prometheus")
        .note("Only on the listener of `--metrics`, which also has /healthz and /readyz.")
        .set("servers", json!([{ "url": "http://127.0.0.1:9443" }]))
        .answer::<String>("200", DONE, "text/plain; version=0.0.4");
}

/// The admin API.
fn fleet(of: &mut Document) {
    of.tag = "fleet";
    let [controller, viewer, operator, _] = Role::ALL.map(Some);
    of.add(operator, "post /v1/fleet/resources", "writeResources", "Write resources, all of them or none")
        .changes::<Write, WriteResult>();
    of.add(viewer, "get /v1/fleet/resources/{kind}", "listResources", "The resources of a kind")
        .gives::<Vec<KeptResource>>();
    of.add(operator, "delete /v1/fleet/resources/{kind}", "removeOnlyResource", "Remove the only resource of a kind")
        .asks::<Removal, WriteResult>();
    of.add(viewer, "get /v1/fleet/resources/{kind}/{name}", "getResource", "One resource, as a list of one")
        .gives::<Vec<KeptResource>>();
    of.add(operator, "delete /v1/fleet/resources/{kind}/{name}", "removeResource", "Remove a resource")
        .asks::<Removal, WriteResult>();
    of.add(viewer, "get /v1/fleet/rollout", "getRollout", "The rollout, with the reason why each group is as it is")
        .note("404 `no_rollout` where there is none.")
        .gives::<AgentRollout>();
    of.add(viewer, "get /v1/fleet/holds", "getHolds", "What is held, with a rollout and without one")
        .gives::<StopsAlone>();
    let summary = "The present rollout (`metadata.present`), and past ones as they were last; the newest first";
    of.add(viewer, "get /v1/fleet/rollouts", "listRollouts", summary).asks::<RolloutsQuery, Vec<AgentRollout>>();
    of.add(viewer, "get /v1/fleet/counts", "getCounts", "Hosts by group and version").gives::<StateCounts>();
    let summary = "How versions are controlled by directives: directive, installers, inventory and alerts";
    of.add(viewer, "get /v1/fleet/version-control", "getVersionControl", summary).gives::<VersionControlStatus>();
    let summary = "Start, mark done, roll back, halt, run, approve; or a gate's answer";
    of.add(operator, "post /v1/fleet/commands", "act", summary).changes::<Act, Acted>();
    of.add(controller, "get /v1/fleet/hosts", "listHosts", "Hosts, by UUID").asks::<HostsQuery, HostList>();
    of.add(operator, "post /v1/fleet/hosts", "decideHosts", "Accept or assign all hosts that a question finds")
        .note("`accept` needs the role admin.")
        .changes::<DecideMany, DecidedMany>();
    of.add(viewer, "get /v1/fleet/hosts/{id}", "explainHost", "What a host would be answered now, and why")
        .gives::<Explained>();
    of.add(operator, "post /v1/fleet/hosts/{id}", "decideHost", "Hold, release or assign a host")
        .note("`accept` and `forget` need the role admin.")
        .changes::<Decided, Explained>();
    directives(of);
    of.add(viewer, "get /v1/fleet/audit", "audit", "Records of decisions, the oldest first")
        .asks::<AuditRange, AuditPage>();
    of.add(viewer, "get /v1/fleet/audit/verify", "verifyAudit", "Whether the chain of hashes is whole")
        .query::<KnownHead>()
        .answer::<Verified>("200", "Also where it is not: see `fault`.", JSON);
    of.add(viewer, "get /v1/fleet/events", "events", "Records, one JSON object a line")
        .query::<AuditRange>()
        .answer::<AuditEntry>("200", DONE, "application/jsonl");
}

/// Drafts and plans of version directives.
fn directives(of: &mut Document) {
    const DRAFT: &str = "/v1/fleet/drafts/{from}/{name}";
    const PLAN: &str = "/v1/fleet/directive-plans/{id}";
    let [controller, viewer, operator, _] = Role::ALL.map(Some);
    of.add(controller, "get /v1/fleet/drafts", "listDrafts", "Drafts of version directives, without what they say")
        .gives::<Vec<DraftView>>();
    of.add(controller, &format!("get {DRAFT}"), "getDraft", "A draft").gives::<DraftView>();
    of.add(operator, &format!("put {DRAFT}"), "putDraft", "Write a draft, whole")
        .set("x-also", json!(controller))
        .note("A controller may as well, its own: the first that it wrote, if nobody else had.")
        .changes::<NewDraft, DraftView>();
    of.add(viewer, "get /v1/fleet/directive-plans", "listPlans", "Plans, the oldest first").gives::<Vec<PlanView>>();
    of.add(operator, "post /v1/fleet/directive-plans", "plan", "Freeze a draft or a text, and see what it would do")
        .changes::<NewPlan, PlanView>();
    of.add(viewer, &format!("get {PLAN}"), "getPlan", "A plan, with what it would do now").gives::<PlanView>();
    of.add(viewer, &format!("post {PLAN}/review"), "reviewPlan", "Approve or deny a plan that somebody else made")
        .note("The role is `promotion.role` of the `version-control-config`.")
        .changes::<Review, PlanView>();
    of.add(operator, &format!("post {PLAN}/dry-run"), "dryRunPlan", "Have each host that a plan would update try that")
        .note("Hosts are asked at the pace of their entries. The dry run of another plan that is pending ends.")
        .changes::<BeginDryRun, PlanView>();
    of.add(operator, &format!("post {PLAN}/apply"), "applyPlan", "Make a plan the active version directive")
        .changes::<ApplyPlan, WriteResult>();
}

/// What others may do, and the data.
fn admin(of: &mut Document) {
    of.tag = "administration";
    let admin = Some(Role::Admin);
    let whole = "A SQLite database. It holds digests of tokens, and no TLS keys.";
    of.add(admin, "get /v1/fleet/backup", "backup", "A consistent copy of the data").answer::<String>(
        "200",
        whole,
        "application/vnd.sqlite3",
    );
    of.add(admin, "get /v1/fleet/doctor", "doctor", "What is found in the data").gives::<Vec<Finding>>();
    of.add(admin, "get /v1/fleet/tokens", "listTokens", "Tokens, without their secrets").gives::<Vec<Token>>();
    of.add(admin, "post /v1/fleet/tokens", "makeToken", "Make a token").changes::<NewToken, MadeToken>();
    let summary = "Remove a token: from then on nobody gets in with it";
    of.add(admin, "delete /v1/fleet/tokens/{name}", "removeToken", summary).asks::<TokenRemoval, Map<String, Value>>();
    of.add(admin, "get /v1/fleet/join-tokens", "listJoinTokens", "Join tokens, without their secrets")
        .gives::<Vec<JoinToken>>();
    of.add(admin, "post /v1/fleet/join-tokens", "makeJoinToken", "Make a join token, with which hosts enrol")
        .changes::<NewJoinToken, MadeToken<JoinToken>>();
    let summary = "Remove a join token: no host enrols with it any more; those that did stay";
    of.add(admin, "delete /v1/fleet/join-tokens/{name}", "removeJoinToken", summary)
        .asks::<TokenRemoval, Map<String, Value>>();
}

/// The document as it is made.
struct Document {
    /// Schemas of what is given.
    given: SchemaGenerator,
    /// Schemas of what is taken: what has a default may be absent.
    taken: SchemaGenerator,
    paths: Map<String, Value>,
    /// Of the operations that are added next.
    tag: &'static str,
}

/// The names of kinds of resources, and their plurals; those of `is_change` can be removed.
fn kinds(is_change: bool) -> Vec<String> {
    let all = Kind::ALL.into_iter().filter(|kind| !is_change || kind.can_go());
    all.flat_map(|kind| [kind.to_string(), format!("{kind}s")]).collect()
}

/// What a derived schema of something that is taken does not say: that a command is about groups or about all.
fn of_groups_or_all(schema: &mut Schema) {
    // What is added below has no type.
    let properties = schema.get("type").and_then(|_| schema.get("properties"));
    let has = |name: &str| properties.is_some_and(|all| all.get(name).is_some());
    let all = ["all", "all_started"].into_iter().find(|all| has(all) && has("groups"));
    if let Some(all) = all {
        let some = json!({ "properties": { "groups": { "minItems": 1 }, all: { "const": false } } });
        let every = json!({ "properties": { "groups": { "maxItems": 0 }, all: { "const": true } } });
        schema.insert("anyOf".to_owned(), json!([some, every]));
    }
}

/// What a derived schema does not say: how far a number goes, and how a UUID is written.
fn bound(schema: &mut Schema) {
    // What an older server leaves out means nothing here.
    schema.remove("default");
    if schema.get("format").is_some_and(|format| format == "uuid") {
        schema.insert("pattern".to_owned(), UUID.into());
    }
    let most = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => u64::from(u32::MAX),
        Some("uint64") => u64::MAX,
        _ => 0,
    };
    if most > 0 && schema.get("maximum").is_none() {
        schema.insert("maximum".to_owned(), most.into());
    }
}

/// An operation of the document.
struct Operation<'a> {
    is_change: bool,
    given: &'a mut SchemaGenerator,
    taken: &'a mut SchemaGenerator,
    said: &'a mut Value,
}

impl Document {
    fn new() -> Self {
        let generator = |contract| {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            if matches!(contract, Contract::Deserialize) {
                settings.transforms.push(Box::new(RecursiveTransform(of_groups_or_all)));
            }
            settings.contract = contract;
            settings.with_transform(RecursiveTransform(bound)).into_generator()
        };
        Self {
            given: generator(Contract::Serialize),
            taken: generator(Contract::Deserialize),
            paths: Map::new(),
            tag: "",
        }
    }

    /// An operation for callers of this role; `None`: for anybody.
    fn add(&mut self, role: Option<Role>, route: &str, id: &str, summary: &str) -> Operation<'_> {
        let (method, path) = route.split_once(' ').unwrap_or_default();
        let mut said = json!({
            "operationId": id, "summary": summary, "description": summary, "tags": [self.tag], "security": [],
        });
        if let Some(role) = role {
            said["x-role"] = json!(role);
            said["security"] = json!([{ "token": [] }]);
        }
        let methods = self.paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = said;
        let (given, taken, is_change) = (&mut self.given, &mut self.taken, method != "get");
        let mut operation = Operation { is_change, given, taken, said: &mut methods[method] };
        let is_watched = matches!(path, "/healthz" | "/readyz" | "/metrics" | "/v1/openapi.json");
        if !is_watched {
            operation = operation.answer::<ErrorAnswer>("default", "Refused; nothing was changed.", JSON);
        }
        let places = PLACES.iter().filter(|(place, _)| path.contains(place));
        places.fold(operation, |operation, (_, place)| operation.takes(&[place]))
    }

    fn finish(mut self) -> Value {
        hosts(&mut self);
        public(&mut self);
        fleet(&mut self);
        admin(&mut self);
        let mut schemas = self.given.take_definitions(true);
        schemas.extend(self.taken.take_definitions(true));
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "teleport-fleet",
                "version": "1",
                "summary": "Tells every host of a fleet which version to run, and everybody why.",
                "description": "What hosts and updaters ask needs no credentials. Everything below /v1/fleet/ needs a token of the role \
                                in `x-role` or a higher one, or the admin socket, whose users may do everything. See docs/fleet-api.md.",
                "contact": { "name": "The operators of this server" },
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            },
            "servers": [{ "url": "https://fleet.example.com" }],
            "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
            "paths": self.paths,
            "components": {
                "securitySchemes": { "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`teleport-fleet tokens create NAME --role ROLE`",
                } },
                "schemas": schemas,
            },
        })
    }
}

impl Operation<'_> {
    fn set(self, key: &str, value: Value) -> Self {
        self.said[key] = value;
        self
    }

    fn note(self, text: &str) -> Self {
        self.set("description", text.into())
    }

    fn push(self, name: &str, place: &str, is_needed: bool, description: Value, schema: Value) -> Self {
        let mut all = self.said["parameters"].as_array().cloned().unwrap_or_default();
        all.push(json!({
            "name": name, "in": place, "required": is_needed, "description": description, "schema": schema,
        }));
        self.set("parameters", all.into())
    }

    fn takes(self, parameters: &[&str]) -> Self {
        parameters.iter().fold(self, |operation, parameter| {
            let (head, description) = parameter.split_once(": ").unwrap_or_default();
            let mut words = head.split(' ');
            let mut word = || words.next().unwrap_or("string");
            let (place, name) = (word(), word());
            let schema = match word() {
                "any" => json!({}),
                "channel" => json!({ "type": "string", "pattern": "^[A-Za-z0-9._/-]+$" }),
                "version" => {
                    json!({ "type": "string", "pattern": "^((0|[1-9][0-9]{0,8})(\\.(0|[1-9][0-9]{0,8})){2})?$" })
                }
                "kind" => json!({ "enum": kinds(operation.is_change) }),
                "uuid" => json!({ "type": "string", "format": "uuid", "pattern": UUID }),
                words if words.contains('|') => json!({ "enum": words.split('|').collect::<Vec<_>>() }),
                kind => json!({ "type": kind }),
            };
            let (is_needed, place) = (!place.ends_with('?'), place.trim_end_matches('?'));
            operation.push(name, place, is_needed, description.into(), schema)
        })
    }

    /// Each field is a parameter of the query.
    fn query<T: JsonSchema>(self) -> Self {
        let mut schema = T::json_schema(self.taken);
        RecursiveTransform(bound).transform(&mut schema);
        let schema = schema.to_value();
        let is_needed = |name: &String| schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        schema["properties"].as_object().into_iter().flatten().fold(self, |operation, (name, field)| {
            let mut field = field.clone();
            let description = field.as_object_mut().and_then(|field| field.shift_remove("description")).into();
            // A query has no null.
            if let Some(kind) = field.pointer("/type/0").cloned() {
                field["type"] = kind;
            }
            operation.push(name, "query", is_needed(name), description, field)
        })
    }

    fn body<T: JsonSchema>(self) -> Self {
        let schema = self.taken.subschema_for::<T>();
        self.set("requestBody", json!({ "required": true, "content": { JSON: { "schema": schema } } }))
    }

    fn answer<T: JsonSchema>(self, status: &str, description: &str, kind: &str) -> Self {
        let schema = self.given.subschema_for::<T>();
        let answer = &mut self.said["responses"][status];
        answer["description"] = description.into();
        answer["content"][kind]["schema"] = schema.to_value();
        self
    }

    fn gives<T: JsonSchema>(self) -> Self {
        let said = self.said["responses"]["200"]["description"].as_str().unwrap_or(DONE).to_owned();
        self.answer::<T>("200", &said, JSON)
    }

    fn asks<Q: JsonSchema, T: JsonSchema>(self) -> Self {
        self.query::<Q>().gives::<T>()
    }

    fn changes<B: JsonSchema, T: JsonSchema>(self) -> Self {
        self.body::<B>().gives::<T>()
    }
}
