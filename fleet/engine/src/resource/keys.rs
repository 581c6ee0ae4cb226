//! The keys of all resources: one row each, from which the reader, `docs/fleet-resources.md` and the JSON Schema come.
//!
//! A row: what the key means, its name, what may stand there, its default (of v2, and of RFD 0169 where that differs), and when a
//! change of it acts where that is not the same in the whole table; in the table of a model also the field that it sets. How to renew the page: `tests/page.rs`.

use super::fields::ResourceFields;
use super::key::KeyKind::{
    Address, Decimal, Empty, Flag, FlagOr, Kept, LabelExpression, List, Map, Mapping, Minutes, Name, Percentage,
    Sha256, Share, Text, Time, TimeZone, Version, Weekdays, Whole, Words,
};
use super::key::{Key, KeyTable};
use super::kind::Kind;
use crate::policy::GroupPolicy;

/// Most groups of a report (FLEET §5).
pub const MOST_GROUPS: usize = 50;
/// Most versions of a group of a report.
pub const MOST_VERSIONS: usize = 20;
/// Most hours between groups: a year. What waits longer waits for a person.
const YEAR: u32 = 8760;
/// Most hosts that a rate or a threshold can speak of.
const HOSTS: u32 = 10_000_000;
/// Of what people are told, where they choose.
pub(super) const ALERTS: [&str; 4] = ["new-version", "security-patch", "end-of-life", "stale"];
/// Largest nonce that may be written: from there the server has room to count on.
const LARGEST_NONCE: u32 = 2_000_000_000;
/// Most hosts of a count.
const COUNT: u32 = i32::MAX.unsigned_abs();
/// Most items of a list that has no limit of its own.
const ITEMS: usize = 100;
/// A list whose limit is said elsewhere.
pub(super) const ANY: usize = usize::MAX;
/// Least length of a window, minutes: Managed Updates v2 takes 10 minutes and more (FLEET §3, D3).
pub(super) const SHORTEST_WINDOW: i64 = 10;
/// Longest: after a week all have come round.
pub(super) const LONGEST_WINDOW: i64 = 7 * 24 * 60;
/// The words for modes.
const MODES: &[&str] = &["enabled", "disabled", "suspended"];

/// The keys of `spec`, and which column of defaults is theirs; `None`: no text has such.
pub(super) fn spec_of(kind: Kind) -> Option<(&'static KeyTable, usize)> {
    Some(match kind {
        Kind::Config => (&CONFIG, 0),
        Kind::Version => (&VERSION, 0),
        Kind::Report => (&REPORT, 0),
        Kind::Maintenance => (&MAINTENANCE, 1),
        Kind::Channel => (&CHANNEL, 0),
        Kind::Release => (&RELEASE, 0),
        Kind::Directive => (&DIRECTIVE, 2),
        Kind::VersionControl => (&VERSION_CONTROL, 0),
        Kind::Controller => (&CONTROLLER, 0),
        Kind::Installer => (&INSTALLER, 0),
        Kind::Draft => (&DRAFT, 2),
        Kind::Plan => (&PLAN, 2),
        Kind::Rollout => return None,
    })
}

/// The name of a key: what it is written as, where that is no word of Rust's.
const fn written(name: &'static str, written: &[&'static str]) -> &'static str {
    if let [written] = written { written } else { name }
}

macro_rules! tables {
    ($($table:ident $(of $model:ident)? = $heading:literal $rows:tt)*) => {
        $(keys!($table, $heading, $rows); $(values!($model, $rows);)?)*
    };
}

macro_rules! keys {
    ($table:ident, $heading:literal, {
        $($(#[doc = $meaning:literal])+ $name:ident $(as $written:literal)?: $kind:expr, $($default:literal)+ $(=> $acts:literal)?
            $(-> $($field:ident).+)?;)*
    }) => {
        pub(super) static $table: KeyTable = KeyTable {
            heading: $heading,
            keys: &[$(Key {
                name: written(stringify!($name), &[$($written)?]),
                kind: $kind,
                defaults: &[$($default),+],
                acts: concat!($($acts)?),
                meaning: &[$($meaning),+],
            }),*],
        };
    };
}

macro_rules! values {
    ($model:ident, {
        $($(#[doc = $meaning:literal])+ $name:ident $(as $written:literal)?: $kind:expr, $($default:literal)+ $(=> $acts:literal)?
            $(-> $($field:ident).+)?;)*
    }) => {
        impl $model {
            /// With the values of the keys that set a field, and defaults elsewhere.
            pub(super) fn of_keys(fields: &ResourceFields<'_>) -> Self {
                let mut model = Self::default();
                $($(model.$($field).+ = fields.value(stringify!($name));)?)*
                model
            }
        }
    };
}

tables! {
DOCUMENT = "Every kind" {
    ///
    kind: Text("one of the kinds above"), "required: a kind";
    /// the version of the format
    version: Words(&["v1"]), "`v1`";
    /// `tuf` for a `version-controller`, `local-script` for an `installer`; no other kind has one
    sub_kind: Kept, "none";
    /// below
    metadata: Mapping(&METADATA), "none";
    /// see each kind
    spec: Map("keys", ANY, &Kept), "required: what it says";
    /// only the server writes it
    status: Empty, "none";
}
METADATA = "`metadata`" {
    /// required for `autoupdate_agent_report` and `fleet_channel`. Default of a `fleet_release`: its version
    name: Name(""), "the only name of the kind";
    /// the server replaces it at each write; `update` with another than the stored one is refused
    revision: Kept, "none";
    /// kept, not used
    expires: Time, "none";
    /// kept, not used
    description: Kept, "none";
    /// kept, not used
    labels: Map("labels", ANY, &Kept), "none";
}
CONFIG = "`autoupdate_config`: `spec`" {
    /// agents. Absent: as without this resource
    agents: Mapping(&CONFIG_AGENTS), "none";
    /// `tsh` and `tctl`
    tools: Mapping(&CONFIG_TOOLS), "none";
}
CONFIG_TOOLS = "`autoupdate_config`: `spec.tools`" {
    /// whether `tsh` and `tctl` are allowed to update themselves
    mode: Words(&["enabled", "disabled"]), "`disabled`";
}
CONFIG_AGENTS = "`autoupdate_config`: `spec.agents`" {
    /// enabled: the rollout goes on. suspended: nothing starts, nobody is allowed to update. disabled: the same, and new
    /// installations get the target. If `autoupdate_version` has a mode too, the lower counts: disabled, suspended, enabled
    mode: Words(MODES), "required: enabled, disabled or suspended" => "next step";
    /// one group after the other, or each in its own window
    strategy: Words(&["halt-on-error", "time-based"]), "`halt-on-error`" => "new rollout";
    /// length of the windows of `time-based`. With `halt-on-error`: absent or 0
    maintenance_window_duration: Minutes(SHORTEST_WINDOW, LONGEST_WINDOW), "required with `time-based`" => "next step";
    /// the groups
    schedules: Mapping(&CONFIG_SCHEDULES), "none" => "next rollout";
    /// where hosts without a group go: nowhere, the last group, or this one
    unassigned: Name("`hold`, `last` or the name of a group"), "`last`" => "next rollout";
}
CONFIG_SCHEDULES = "`autoupdate_config`: `spec.agents.schedules`" {
    /// see [Groups](#groups)
    regular: List("groups", ANY, &Mapping(&GROUP)), "none";
    /// for versions of the schedule `critical`. Absent: the regular groups, without their windows
    critical: List("groups", ANY, &Mapping(&GROUP)), "none";
}
MAINTENANCE = "`cluster_maintenance_config`: `spec`" {
    /// false: updates are off. A mapping: on, and the schedule for hosts without a group (below)
    agent_auto_update: FlagOr(&UNGROUPED), "`true`";
    /// the groups
    agent_auto_update_groups: Mapping(&MAINTENANCE_GROUPS), "none";
    /// below
    agents: Mapping(&MAINTENANCE_AGENTS), "none";
    /// the cluster's maintenance window. Only if no configuration has groups: all hosts are in one group, `default-cmc`, in
    /// this window
    agent_upgrades: Mapping(&MAINTENANCE_WINDOW), "none";
}
UNGROUPED = "`cluster_maintenance_config`: `spec.agent_auto_update`" {
    /// window for regular versions, one hour long. Absent: these hosts are held
    regular: Mapping(&UNGROUPED_WINDOW), "none";
    /// window for critical versions. Absent: as `regular`, at any time
    critical: Mapping(&UNGROUPED_WINDOW), "none";
    /// versions of the schedule `immediate`
    immediate: Mapping(&UNGROUPED_IMMEDIATE), "none";
}
UNGROUPED_WINDOW = "`cluster_maintenance_config`: `spec.agent_auto_update.regular`" {
    /// days on which the window opens
    days: Weekdays, "`[\"*\"]`";
    /// hour in which it opens
    start_hour: Whole(0, 23), "`0`";
    /// where `days` and `start_hour` are read
    timezone: TimeZone, "`UTC`";
    /// longest random wait, seconds
    jitter_seconds: Whole(0, 60), "`0`";
}
UNGROUPED_IMMEDIATE = "`cluster_maintenance_config`: `spec.agent_auto_update.immediate`" {
    /// longest random wait, seconds
    jitter_seconds: Whole(0, 60), "`0`";
}
MAINTENANCE_GROUPS = "`cluster_maintenance_config`: `spec.agent_auto_update_groups`" {
    /// see [Groups](#groups)
    regular: List("groups", ANY, &Mapping(&GROUP)), "none";
    /// for critical versions. Absent: the regular groups, without their windows
    critical: List("groups", ANY, &Mapping(&GROUP)), "none";
}
MAINTENANCE_AGENTS = "`cluster_maintenance_config`: `spec.agents`" {
    /// where hosts without a group go. Not beside a mapping in `agent_auto_update`
    unassigned: Name("`hold`, `last` or the name of a group"), "`hold`";
}
MAINTENANCE_WINDOW = "`cluster_maintenance_config`: `spec.agent_upgrades`" {
    /// when the window opens, UTC; one hour long
    utc_start_hour: Whole(0, 23), "`0`";
    /// days on which it opens
    weekdays: Weekdays, "all of them";
}
GROUP of GroupPolicy = "A group" {
    /// unique in its list. v2: a host is in the group that it declares (`teleport-update enable --group`)
    name: Name(""), "required: the group's name" => "next rollout";
    /// members by labels. Not in a directive
    agents: Mapping(&MEMBERS), "by name" "all hosts" "none" => "next rollout";
    /// a directive's alone: whom it takes; any that holds. A host is in the first entry that takes it, whatever it finds there
    selectors: List("selectors", GroupPolicy::MOST_SELECTORS, &Mapping(&SELECTOR)), "none" "none" "required" => "next rollout";
    /// a directive's alone: `{version, ATTRIBUTE: value, …}`. Each host gets the first that fits: of its major or the next one, not
    /// below its major's first release, no attribute `arch`, `edition` or `fips` other than the host's, not blocked, reachable.
    /// `length` and `sha256` are of the archive; other attributes are for scripts
    targets: List("targets", GroupPolicy::MOST_TARGETS, &Map("attributes", 33, &Kept)), "none" "none" "required" => "next rollout";
    /// a directive's alone: what installs; the first that the host lets act
    installers: List("installers", GroupPolicy::MOST_INSTALLERS, &Mapping(&INSTALLER_NAME)), "`[]`" => "next rollout";
    /// a directive's alone: what its hosts run before their turn, and go back to
    start_version: Version, "none" => "next rollout";
    /// days on which the window opens. 169 without `window_duration`: hosts are released on these days alone
    days: Weekdays, "`[Mon, Tue, Wed, Thu]`" "`[\"*\"]`" "`[\"*\"]`" => "next rollout" -> gate.opening.days;
    /// when the group may start; the window is one hour long. `time-based`: as long as `maintenance_window_duration`
    start_hour: Whole(0, 23), "`0`" => "next rollout" -> gate.opening.hour;
    /// of `days` and `start_hour`: a built-in IANA name
    timezone: TimeZone, "`UTC`" => "next rollout" -> gate.opening.zone;
    /// since the *start* of the group before. `halt-on-error` alone, not in the first group
    wait_hours: Whole(0, YEAR), "`0`" => "next rollout" -> gate.wait_hours;
    /// since the group before, or those in `requires`, were *done*
    soak_hours: Whole(0, YEAR), "`0`" => "next rollout" -> gate.soak_hours;
    /// groups that must be done before. No circles, none twice, no chain longer than a week
    requires: List("names of groups", ANY, &Name("")), "`[]`" => "next rollout";
    /// times in which no further host is allowed to update
    blackout: List("freezes", ITEMS, &Mapping(&FREEZE)), "`[]`" => "next step";
    /// waits until somebody with this role approves: `teleport-fleet approve GROUP`
    approval: Words(&["viewer", "operator", "admin"]), "none" => "next rollout" -> gate.approval;
    /// an external check
    gate: Mapping(&GATE), "none" => "next rollout";
    /// hosts that must update with success before the others. Not with `time-based`
    canary_count: Whole(0, 5), "`0`" => "next rollout" -> pace.canaries;
    /// most counted hosts that update at the same time
    max_in_flight: Percentage, "`100%`" => "next step" -> pace.max_in_flight;
    /// longest random wait, seconds
    jitter_seconds: Whole(0, 60), "`60`" "`0`" => "next step" -> pace.jitter;
    /// hosts are released only so long after the window opened, also across midnight. Absent: at any time after the
    /// start; 169: on its `days`, to midnight
    window_duration: Minutes(SHORTEST_WINDOW, LONGEST_WINDOW), "none" => "next step" -> pace.window;
    /// hosts per hour
    rate: Mapping(&RATE), "none" "none" "of `version-control-config`" => "next step";
    /// more failed hosts than this, of those counted at the start, halt the group; groups behind it then let no further host update either. v2 itself never halts on failures
    max_failed_before_halt: Percentage, "`10%`" "`0%`" "`2%`" => "next step" -> proof.max_failed;
    /// the same for hosts that timed out
    max_timeout_before_halt: Percentage, "`100%`" "`10%`" "`10%`" => "next step" -> proof.max_timeout;
    /// more failed hosts than this, of those that ended, halt the group, from `min_ended` on
    max_failed_of_ended: Percentage, "`50%`" "`100%`" "`100%`" => "next step" -> proof.max_failed_of_ended;
    /// 169: with more silent hosts the group is not done
    max_silent: Percentage, "`10%`" => "next step" -> proof.max_silent;
    /// from a host's `started` to its `switched`; then it has timed out
    timeout_seconds: Whole(30, 900), "off" "`60`" => "next step" -> proof.timeout_seconds;
    /// a host that began and sends no report for a report interval and this long has failed; 0: off
    failure_seconds: Whole(0, 900), "`0`" => "next step" -> proof.failure_seconds;
    /// more hosts than this that were told and then fell silent for three report intervals, of those counted at the start, halt the
    /// group. A directive: `churn_limit` of `version-control-config`
    max_churned_before_halt: Percentage, "`100%`" "`100%`" "`5%`" => "next step" -> proof.max_churned;
    /// fewer failed hosts than this halt nothing
    min_failed_before_halt: Whole(1, HOSTS), "`1`" => "next step" -> proof.min_failed;
    /// see `max_failed_of_ended`
    min_ended: Whole(1, HOSTS), "`20`" => "next step" -> proof.min_ended;
    /// what a halt does: nobody more may update; or also, hosts that were allowed to update go back to the start version
    on_halt: Words(&["stop", "rollback"]), "`stop`" => "next step" -> proof.on_halt;
}
MEMBERS = "A group: `agents`" {
    /// over labels of the host's SSH service
    node_labels_expression: LabelExpression, "all hosts";
    /// over labels of the host itself
    instance_labels_expression: LabelExpression, "all hosts";
}
SELECTOR = "A group: `selectors[]`" {
    /// labels with these values; `*` as a value: any; `'*': '*'`: every host
    labels: Map("labels", ITEMS, &Text("")), "none";
    /// one of these services of Teleport runs. Absent: neither `auth` nor `proxy` does
    services: List("services", ITEMS, &Name("")), "none";
    /// the group that the host declares
    group: Name(""), "none";
    /// an expression about its labels
    expression: LabelExpression, "none";
    /// hosts that run a pre-release are let go too
    permit_prerelease: Flag, "`false`";
}
INSTALLER_NAME = "A group: `installers[]`" {
    /// the updater; the updater with a trusted root of TUF; nothing but a recommendation; or a script of the host
    kind: Words(&["update", "tuf", "notify", "local-script", "script"]), "required: its kind";
    /// the script's
    name: Text(""), "none";
}
FREEZE = "A group: `blackout[]`" {
    /// first instant of the freeze
    from: Time, "required: its first instant";
    /// first instant after it, later than `from`
    to: Time, "required: the first instant after it";
    /// shown to all who ask why the group waits
    reason: Text(""), "none";
}
GATE = "A group: `gate`" {
    /// who is asked. No user, password or fragment in it
    url: Address, "required: the address that is asked";
    /// how long an answer may take
    timeout_seconds: Whole(1, 60), "`10`";
}
RATE = "A group: `rate`" {
    /// hosts that are released in the first hour
    base: Whole(1, HOSTS), "required: the hosts of the first hour";
    /// multiplies the rate after each hour with success and without failure
    factor: Decimal(1, 10), "`1`";
    /// highest rate, not less than `base`. Required with a factor above 1
    maximum: Whole(1, HOSTS), "the base";
}
DIRECTIVE = "`version-directive`: `spec`" {
    /// grows at each activation; not above the active one: refused
    nonce: Whole(1, LARGEST_NONCE), "counted by the server";
    /// disabled: nobody is told
    status: Words(&["enabled", "disabled"]), "`enabled`" => "next step";
    /// who made it. Shown
    version_controller: Text(""), "none" => "next step";
    /// from what. Shown
    config_id: Text(""), "none" => "next step";
    /// the same, as the RFD spells it
    confid_id: Text(""), "none" => "next step";
    /// from then on people are warned; what is active goes on
    stale_after: Time, "none" => "next step";
    /// nobody is told before
    not_before: Time, "none" => "next step";
    /// nobody is told from then on
    not_after: Time, "none" => "next step";
    /// whom people are warned of, whatever the targets are
    critical_floor: Mapping(&FLOOR), "none" => "next step";
    /// its entries: each is a [group](#groups). One that means the same keeps its state when others change
    directives: List("entries", MOST_GROUPS, &Mapping(&GROUP)), "required: its entries" => "next step";
}
FLOOR = "`version-directive`: `spec.critical_floor`" {
    /// this major, such as `v16`, and those below it are past their end of life
    end_of_life: Text(""), "none";
    /// hosts of a patch's major that are below it lack it
    security_patches: List("patches", ITEMS, &Mapping(&PATCH)), "`[]`";
}
PATCH = "`version-directive`: `spec.critical_floor.security_patches[]`" {
    /// the first version that has it
    version: Version, "required: the first version that has it";
    /// what it is about
    desc: Text(""), "none";
}
VERSION_CONTROL = "`version-control-config`: `spec`" {
    /// false: nothing is planned or applied
    enabled: Flag, "`true`";
    /// defaults of all entries of a directive
    rolling_install: Mapping(&ROLLING_INSTALL), "none";
    /// how a draft becomes active
    promotion: Mapping(&PROMOTION), "none";
    /// of what people are told
    notification: Mapping(&NOTIFICATION), "none";
    /// entries that a controller makes directives of, where it has none of its own
    basic_directives: List("entries", MOST_GROUPS, &Mapping(&BASIC)), "`[]`";
}
ROLLING_INSTALL = "`version-control-config`: `spec.rolling_install`" {
    /// more hosts than this that were told and fell silent halt an entry: a percentage, or a number of hosts
    churn_limit: Text("such as `5%` or `3`"), "`5%`";
    /// the same for hosts that failed
    fault_limit: Text("such as `2%` or `3`"), "`2%`";
    /// hosts that are let go: a share of the entry's hosts an hour, or a number an hour or a minute
    rate: Text("such as `20%/h`, `50/h`, `5/m`"), "`20%/h`";
}
PROMOTION = "`version-control-config`: `spec.promotion`" {
    /// automatic: a new draft of `from` is planned, and applied where nothing is against it
    strategy: Words(&["manual", "automatic"]), "`manual`";
    /// the draft, `KIND/NAME`
    from: Text("KIND/NAME"), "none";
    /// people who must approve a plan, beside its author
    approvals: Whole(0, 5), "`0`";
    /// the role that they need
    role: Words(&["viewer", "operator", "admin"]), "`operator`";
    /// how long a plan can be applied
    plan_ttl: Minutes(10, 30 * 24 * 60), "`24h`";
    /// required: a plan is applied only after a dry run that came to a good end on every host that answered
    dry_run: Words(&["none", "required"]), "`none`";
}
NOTIFICATION = "`version-control-config`: `spec.notification`" {
    /// the draft whose versions are recommended, `KIND/NAME`
    from: Text("KIND/NAME"), "none";
    /// of what people are told; of all of it where none is named
    alert_on: List("events", ITEMS, &Words(&ALERTS)), "`[]`";
}
BASIC = "`version-control-config`: `spec.basic_directives[]`" {
    /// the entry's name
    name: Name(""), "required: the entry's name";
    /// which versions, the newest of them. Absent: the newest of each host's major
    version: Text("such as `v17.2.*`"), "none";
    /// whom it takes. Absent: every host
    selector: Mapping(&SELECTOR), "none";
    /// what installs
    installer: Text("such as `tuf`"), "`update`";
}
CONTROLLER = "`version-controller`: `spec`" {
    /// where the repository's metadata is
    url: Address, "required: where the repository's metadata is";
    /// the trusted root, as `root.json` has it
    root: Kept, "required: the trusted root, as root.json has it";
    /// how often it is asked
    interval: Minutes(5, 24 * 60), "`1h`";
    /// the entries of the directives that it drafts. Absent: those of `version-control-config`, else the newest of each host's major
    directives: List("entries", MOST_GROUPS, &Mapping(&TEMPLATE)), "`[]`";
}
TEMPLATE = "`version-controller`: `spec.directives[]`" {
    /// the entry's name
    name: Name(""), "required: the entry's name";
    /// which versions, the newest of each. Absent: the newest of each host's major
    target_selectors: List("selectors", GroupPolicy::MOST_TARGETS, &Mapping(&TARGET_SELECTOR)), "`[]`";
    /// whom it takes; any that holds. Absent: every host
    server_selectors: List("selectors", GroupPolicy::MOST_SELECTORS, &Mapping(&SELECTOR)), "`[]`";
    /// what installs
    installer: Text("such as `tuf`"), "`update`";
}
TARGET_SELECTOR = "`version-controller`: `spec.directives[].target_selectors[]`" {
    /// a version, or all of a major or minor
    version: Text("such as `v17.2.*`"), "required: a version, v17.2.* or v17.*";
}
INSTALLER = "`installer`: `spec`" {
    /// whether it counts
    enabled: Flag, "`true`";
    /// the script's variables: a text, or `{target.ATTRIBUTE}`
    env: Map("variables", 16, &Kept), "none";
    /// what runs it
    shell: Words(&["bash", "sh"]), "the script's first line";
    /// what the host's file must be
    sha256: Sha256, "none";
    /// how long it may run
    timeout: Minutes(1, 60), "`15m`";
    /// the script, for configuration management: `get installer/NAME`. No host gets it from here
    install_sh as "install.sh": Kept, "none";
}
DRAFT = "`version-directive-draft`: `spec`" {
    /// who wrote it
    author: Text(""), "none";
    /// when
    time: Time, "required: when it was written";
    /// what it would be
    directive: Mapping(&DIRECTIVE), "required: what it would be";
}
PLAN = "`version-directive-plan`: `spec`" {
    /// the draft that it was made of
    draft: Text(""), "none";
    /// who made it
    author: Text(""), "none";
    /// when
    time: Time, "required: when it was made";
    /// until when it can be applied
    expires: Time, "required: until when it can be applied";
    /// the nonce that was active then
    for_nonce: Whole(0, COUNT), "`0`";
    /// of what it would be
    digest: Text(""), "none";
    /// who approved it
    approved: List("people", ITEMS, &Name("")), "`[]`";
    /// who denied it, and why
    denied: Text(""), "none";
    /// when its dry run began
    dry_run: Time, "none";
    /// whether it was applied
    applied: Flag, "`false`";
    /// what it would be
    directive: Mapping(&DIRECTIVE), "required: what it would be";
}
VERSION = "`autoupdate_version`: `spec`" {
    /// `tsh` and `tctl`
    tools: Mapping(&VERSION_TOOLS), "none";
    /// the nested dialect
    agents: Mapping(&VERSION_AGENTS), "none";
    /// the flat dialect: what hosts shall run
    agent_version: Version, "none" => "new rollout";
    /// regular: by groups. critical: by the groups of the critical schedule, else by the regular ones without their windows.
    /// immediate: everybody at once, whatever groups say
    agent_version_schedule: Words(&["regular", "critical", "immediate"]), "`regular`" => "new rollout";
    /// what hosts run before their turn, and go back to. Default: the last target whose rollout was done, else the version
    /// that this one replaces, else `agent_version`
    agent_start_version: Version, "see right" => "new rollout";
}
VERSION_AGENTS = "`autoupdate_version`: `spec.agents`" {
    /// what new hosts install before their turn, and a rollback goes back to
    start_version: Version, "required: the version that hosts run before their turn" => "new rollout";
    /// what hosts shall run
    target_version: Version, "required: the version that hosts shall run" => "new rollout";
    /// by groups, or everybody at once: no window, canary, cap, freeze, approval or external check holds then
    schedule: Words(&["regular", "immediate"]), "`regular`" => "new rollout";
    /// **without it nobody updates.** The lower of this and `autoupdate_config`'s counts
    mode: Words(MODES), "`disabled`" => "next step";
}
VERSION_TOOLS = "`autoupdate_version`: `spec.tools`" {
    /// what `tsh` and `tctl` update to. Absent: the server's `server_version`, if set
    target_version: Version, "none";
}
REPORT = "`autoupdate_agent_report`: `spec`" {
    /// when it was made
    timestamp: Time, "required: the time when the report was made";
    /// by name
    groups: Map("groups", MOST_GROUPS, &Mapping(&REPORT_GROUP)), "none";
    /// agents that are not counted
    omitted: List("reasons", ITEMS, &Mapping(&REPORT_OMITTED)), "`[]`";
}
REPORT_GROUP = "`autoupdate_agent_report`: `spec.groups.NAME`" {
    /// by version
    versions: Map("versions", MOST_VERSIONS, &Mapping(&REPORT_VERSION)), "none";
}
REPORT_VERSION = "`autoupdate_agent_report`: `spec.groups.NAME.versions.VERSION`" {
    /// agents that run it
    count: Whole(0, COUNT), "`0`";
}
REPORT_OMITTED = "`autoupdate_agent_report`: `spec.omitted[]`" {
    /// how many
    count: Whole(0, COUNT), "`0`";
    /// why, for people
    reason: Text(""), "none";
}
CHANNEL = "`fleet_channel`: `spec`" {
    /// this version; `none`: frozen, the channel names none
    static_version: Version, "none";
    /// as another server's channel says; cached for a minute, then the last good answer for an hour, then an error
    forward_url: Address, "none";
    /// what a host of this group would be told. `none` while a person or a fault has stopped the group
    group: Name("the name of a group"), "none";
    /// install at once. A group's channel is also critical while its hosts are allowed to update
    critical: Flag, "`false`";
}
RELEASE = "`fleet_release`: `spec`" {
    /// the version
    version: Version, "required: the version";
    /// whose graphs have it; a channel has at most 250 releases
    channels: List("channels", ITEMS, &Name("")), "`[]`";
    /// install at once
    critical: Flag, "`false`";
    /// nobody goes past it without having run it
    barrier: Flag, "`false`";
    /// nobody leaves it
    deadend: Flag, "`false`";
    /// nobody new gets it, nobody is sent back to it, a rollout of it halts; hosts on it may leave. Refused as start version,
    /// target or static channel
    blocked: Mapping(&BLOCKED), "none";
    /// it is reached from these alone; empty: from any. From later ones: downward, and then nowhere up
    requires_from: List("versions", ITEMS, &Version), "`[]`";
    /// the share of hosts whose graphs show it, by time. With neither this nor `barrier`, no edge leads to it
    rollout: Mapping(&PHASED), "none";
    /// SHA-256 of its archives by edition and architecture, such as `oss/amd64`; hosts install no other archive of it
    digests: Map("digests", ITEMS, &Sha256), "none";
    /// SHA-256 of its container images, by the last part of their repository's name, such as `teleport-distroless`;
    /// Kubernetes agents get no other image of it. A multi-platform image: the digest of its index
    image_digests: Map("digests", ITEMS, &Sha256), "none";
}
BLOCKED = "`fleet_release`: `spec.blocked`" {
    /// shown to those who ask
    reason: Name(""), "required: the reason, for those who ask why";
}
PHASED = "`fleet_release`: `spec.rollout`" {
    /// nobody sees it before
    start: Time, "required: the time when it begins";
    /// share of hosts that see it at the start
    start_value: Share, "`0`";
    /// until all see it. Absent: the share stays
    duration_minutes: Whole(0, 366 * 24 * 60), "none";
}
}
