//! `enable`: installs now what the cluster names, then keeps it up to date (RFD 0169, 16 steps).

use crate::run::{apply, identity, network, record, source, tuf};
use std::path::Path;

use http_client::{only_certificates, redact};
use protocol::find::Directive;
use protocol::installer::{Installer, MAX_NAMED};
use protocol::{Edition, ParseError, Revision, Version};
use sources::{ProxyAddr, Source};

use crate::cli::Install;
use crate::config::credentials::{self, MODE};
use crate::config::fleet_host::FleetHost;
use crate::config::{Credentials, GoUpdater, Spec, Updates};
use crate::context::Context;
use crate::host::layout::{NOT_IN_UNIT, USUAL_LINK_DIR, fits_unit};
use crate::host::{Layout, durable, lock, machine};
use crate::inspect::{self, FactsFor, places, upgrader};
use crate::plan::Over;
use crate::plan::decide::{self, Terms};
use crate::release::{BaseUrl, PublicKey};
use crate::report::{Code, Error, IoContext, Result};
use crate::run::change::{self, Basis, Fetched, RunRequest};
use crate::run::wanted::{self, Asking, Purpose};

/// Longest name of a group, bytes.
const MAX_GROUP: usize = 255;
/// Word that forgets a setting.
const DEFAULT: &str = "default";
/// Word for every binary of the archive.
const ALL: &str = "all";

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Install) -> Result<u8> {
    let status = install(context, args, Kind::Enable)?;
    if let Some(why) = inspect::silent_timer(context) {
        context.report.warn(&why);
    }
    Ok(status)
}

/// Which of the two commands that install now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `enable`.
    Enable,
    /// `pin`.
    Pin,
}

/// What `enable` and `pin` share: the settings from flags, files and environment, the target, the request.
///
/// Errors: `overtaken` where another command, or a hand, came later and said otherwise.
pub(crate) fn install(context: &mut Context, args: &Install, kind: Kind) -> Result<u8> {
    let mut first = None;
    let token = args.join_token_file.as_deref().map(join_token).transpose()?;
    context.talk.token.replace(token.clone());
    // What is kept of the trusted repository and is damaged is mended before it is asked.
    if args.tuf_root.is_some() {
        tuf::settle(context)?;
    }
    let status = change::rounds(context, |context, fetched| {
        let updates = inspect::open(context)?;
        let known = match &first {
            Some(known) => known,
            None => first.insert(Basis::of(context, &updates)?),
        };
        if known.is_gone(context)? {
            let what = "another command uninstalled Teleport from this host while this command was running; nothing was \
                        installed";
            return Err(Error::new(Code::Overtaken, what).advise("run the command again if you still want it"));
        }
        once(context, args, kind, &updates, known, fetched)
    })?;
    if args.tuf_root.is_some() {
        tuf::settle(context)?;
    }
    // What was taken on the way is not kept.
    if let Some(token) = context.talk.token.borrow().as_deref().filter(|_| !context.talk.is_elsewhere.get()) {
        durable::write(&FleetHost::token_file(&context.layout.versions), token.as_bytes(), MODE)?;
    }
    Ok(status)
}

/// The join token in `file`. Errors: `usage`.
fn join_token(file: &std::path::Path) -> Result<String> {
    let usage = |error: Error| Error { code: Code::Usage, ..error.during("--join-token-file") };
    let missing = || Error::new(Code::Usage, format!("--join-token-file: {} does not exist", file.display()));
    FleetHost::token(file).map_err(usage)?.ok_or_else(missing)
}

/// One decision, from `updates`, and what comes of it; `first`: what stood there when the command began.
fn once(
    context: &mut Context,
    given: &Install,
    kind: Kind,
    updates: &Updates,
    first: &Basis,
    fetched: &mut Fetched,
) -> Result<Option<u8>> {
    let command = if kind == Kind::Pin { "pin" } else { "enable" };
    let basis = Basis::of(context, updates)?;
    let mut args = given.clone();
    // Without a version the present one is pinned.
    if kind == Kind::Pin && args.force_version.as_deref().is_none_or(str::is_empty) {
        args.force_version = updates.spec().active_version.as_ref().map(ToString::to_string);
    }
    let base = updates.spec().clone();
    let mut wanted = base.clone();
    let foreign = adopt_go_updater(context, &mut wanted)?;
    settings(context, &args, &mut wanted)?;
    // Who enables without it wants updates installed.
    wanted.notify_only = args.notify_only || (wanted.notify_only && kind == Kind::Pin);
    refuse_unused(given, &wanted)?;
    let installed = inspect::installed_now(context, updates)?;
    let active = inspect::active(updates, &installed).or(foreign);

    let told = target(context, &args, updates, &wanted, active.as_ref()).inspect_err(|error| {
        // A host that was never enabled stays untouched.
        if matches!(error.code, Code::Network | Code::ClusterAnswer) && updates.file().exists() {
            record::note(context, command, error);
        }
    })?;
    if let Some((target, _)) = &told
        && let Some(floor) = wanted.min_version.as_ref().filter(|floor| target.version.precedes(floor))
    {
        return Err(Error::new(Code::BelowMinVersion, format!("{target} is below min_version {floor}"))
            .advise("give a newer version, or change --min-version"));
    }
    let persist_insecure = context.global.insecure && wanted.public_key.is_some();
    if context.global.insecure && !persist_insecure {
        context.report.warn("--insecure applies to this run only: it is saved only together with --public-key");
    }
    identify(context, updates, &mut wanted)?;
    wanted.insecure = wanted.insecure || persist_insecure;
    match kind {
        Kind::Enable => wanted.enabled = true,
        Kind::Pin => wanted.pinned = true,
    }
    if let Some((target, _)) = &told {
        Spec::follow(&mut wanted, &target.version);
    }
    first.refuse_contested(&basis, &wanted, context.credentials.as_ref())?;
    let change = |spec: &mut Spec| *spec = spec.changed(&base, &wanted);
    let Some((target, terms)) = told else { return change::save_settings(context, command, &change, &basis) };
    apply(
        context,
        &RunRequest {
            terms,
            facts_for: FactsFor::Adopt,
            over: if args.overwrite { Over::Newer } else { Over::Foreign },
            change: &change,
            basis: Some(basis),
            ..RunRequest::new(command, target)
        },
        fetched,
    )
}

/// Errors: `usage` where a version or an edition is named that would not be installed.
fn refuse_unused(given: &Install, wanted: &Spec) -> Result<()> {
    let flags = [("--force-version", &given.force_version), ("--edition", &given.edition)];
    let unused = flags.into_iter().find(|(_, value)| value.as_deref().is_some_and(|value| !value.is_empty()));
    let Some((flag, _)) = unused.filter(|_| wanted.notify_only) else { return Ok(()) };
    let what = format!("{flag} has no effect on a host that only tells updates (--notify-only)");
    Err(Error::new(Code::Usage, what)
        .advise("leave one of them out; `teleport-update enable` without --notify-only installs updates"))
}

/// Errors: `usage` where the source names another edition than the one that was given, and that one counts.
fn refuse_other_edition(spec: &Spec, given: Option<Edition>, named: Edition) -> Result<()> {
    let Some(given) = given.filter(|given| *given != named) else { return Ok(()) };
    let what = format!("--edition {given} has no effect: {} names {named}", source::named(spec)?);
    Err(Error::new(Code::Usage, what).advise(format!("leave it out, or have {given} named there")))
}

/// This host's id towards the cluster, where it can be made now.
fn identify(context: &Context, updates: &Updates, spec: &mut Spec) -> Result<()> {
    // Where no systemd runs this may be the build of a container image: there the first `update` makes the id.
    let own = if machine::is_systemd_booted() { identity::completed(context, updates.spec())? } else { None };
    // Nothing that tells one host from another goes into an image.
    if context.layout.is_image() {
        (spec.update_id, spec.update_id_host) = (None, None);
    } else if let Some(own) = own {
        (spec.update_id, spec.update_id_host) = (own.update_id, own.update_id_host);
    }
    Ok(())
}

/// Which revision, and on which terms: the forced one, else the source's. `None`: nothing is to be installed.
fn target(
    context: &Context,
    args: &Install,
    updates: &Updates,
    spec: &Spec,
    active: Option<&Revision>,
) -> Result<Option<(Revision, Terms)>> {
    let edition = args.edition.as_deref().filter(|edition| !edition.is_empty()).map(str::parse).transpose()?;
    let forced = args.force_version.as_deref().filter(|version| !version.is_empty());
    let forced: Option<Version> = forced.map(str::parse).transpose()?;
    let forced = forced.or_else(|| spec.pinned_version.clone().filter(|_| spec.pinned));
    if let Some(version) = &forced {
        check_floor_of_file(spec, version)?;
    }
    if let (Some(version), Some(edition)) = (&forced, edition.or(active.map(|active| active.edition))) {
        let revision = Revision { version: version.clone(), edition };
        return Ok((!spec.notify_only).then(|| (revision, Terms::default())));
    }
    let client = network::client(context, spec)?;
    // The version that a person names is installed, whatever the cluster says: it is asked for the edition.
    let purpose = if forced.is_some() || spec.notify_only { Purpose::Show } else { Purpose::Act };
    let mut answer = wanted::ask(context, &Asking { spec, ..Asking::new(updates, active, &client, purpose) })?;
    if let Some(reason) = &answer.terms.reason {
        context.report.info(&format!("{}: {reason}", source::named(spec)?));
    }
    if spec.notify_only {
        return Ok(None);
    }
    let terms = std::mem::take(&mut answer.terms);
    match (answer.directive, forced, active) {
        (Some(directive), Some(version), _) => {
            let directive = Directive { version, ..directive };
            Ok(Some((wanted::revision(&directive, active, edition)?, Terms::default())))
        }
        (Some(directive), None, _) => {
            let revision = wanted::revision(&directive, active, edition)?;
            refuse_other_edition(spec, edition, revision.edition)?;
            decide::too_low(active, &revision, &terms, None).map_or(Ok(Some((revision, terms))), Err)
        }
        // No update: what is there stays.
        (None, None, Some(active)) => Ok(Some((active.clone(), Terms::default()))),
        (None, _, _) => {
            let what = format!("the source names no version to install: {}", terms.reason.unwrap_or_default());
            Err(Error::new(Code::ClusterAnswer, what).advise("give --force-version and --edition for the first one"))
        }
    }
}

/// A version that a person names need not be the source's, but the floor of a file holds for it as `min_version` in
/// updates.yaml does.
///
/// Errors: `below_min_version`; those of reading the file.
fn check_floor_of_file(spec: &Spec, version: &Version) -> Result<()> {
    let source = spec.source.as_deref().map(str::parse).transpose()?;
    let Some(Source::File(path)) = source else { return Ok(()) };
    match source::floor(&path)?.filter(|floor| version.precedes(floor)) {
        Some(floor) => {
            let what = format!("{version} is below min_version {floor} of the source {}", path.display());
            Err(Error::new(Code::BelowMinVersion, what).advise("give a newer version, or lower min_version there"))
        }
        None => Ok(()),
    }
}

/// Judges the values that can be judged by their words alone, before anything else is done.
///
/// Errors: [`Code::Usage`].
pub(crate) fn check_words(args: &Install) -> Result<()> {
    fn check<T: std::str::FromStr<Err = ParseError>>(flag: &str, value: Option<&String>) -> Result<()> {
        match value.filter(|value| !value.is_empty()).map(|value| value.parse::<T>()) {
            Some(Err(error)) => Err(Error { code: Code::Usage, ..Error::from(error).during(flag) }),
            _ => Ok(()),
        }
    }
    if let Some(source) = args.source.as_deref().map(str::trim).filter(|source| !matches!(*source, "" | DEFAULT)) {
        credentials::split_source(source).0.parse::<Source>().map_err(|error| error.during("--source"))?;
    }
    check_group(args.group.as_deref().unwrap_or_default())?;
    check::<Version>("--force-version", args.force_version.as_ref())?;
    check::<Version>("--min-version", args.min_version.as_ref())?;
    installers(args.installers.as_deref().unwrap_or_default())?;
    check::<Edition>("--edition", args.edition.as_ref())
}

/// Errors: `usage` for a name that no group of a rollout server can have (`fleet/engine/src/resource/reader.rs`): its hosts would be in
/// another group, and nobody would say so.
fn check_group(name: &str) -> Result<()> {
    if name.trim() == name && name.len() <= MAX_GROUP && !name.contains(char::is_control) {
        return Ok(());
    }
    let what = format!("--group {name:?}: no group has such a name");
    Err(Error::new(Code::Usage, what).advise(format!("give 1 to {MAX_GROUP} bytes without blanks around them")))
}

/// Flags, environment and `teleport.yaml` onto the settings. Credentials go apart: where they change they are the
/// command's own until its commit.
fn settings(context: &mut Context, args: &Install, spec: &mut Spec) -> Result<()> {
    let known = spec.clone();
    spec.proxy = proxy(context, args, spec.proxy.take())?;
    let given = |value: &Option<String>, kept: &mut Option<String>| match value.as_deref() {
        Some(DEFAULT) => *kept = None,
        // An environment variable without a value.
        Some("") => {}
        Some(value) => *kept = Some(value.to_owned()),
        None => {}
    };
    source(args, spec);
    adopt_upgrader(context, args, spec)?;
    given(&args.group, &mut spec.group);
    given(&args.base_url, &mut spec.base_url);
    if let Some(path) = &args.path {
        check_path(path)?;
        let usual = path == Path::new(USUAL_LINK_DIR) && context.layout.suffix.is_none();
        spec.path = (!usual).then(|| path.clone());
        context.lay_out(spec.path.as_deref())?;
    }
    if let Some(dir) = &args.data_dir {
        if !dir.is_absolute() && dir.as_os_str() != DEFAULT {
            return Err(Error::new(Code::Usage, format!("--data-dir {} is not absolute", dir.display())));
        }
        spec.data_dir = (dir.as_os_str() != DEFAULT).then(|| dir.clone());
        context.data_dir.clone_from(&spec.data_dir);
    }
    if args.path.is_some()
        && let Some(error) = places::unusable(context)?
    {
        return Err(Error { code: Code::Usage, ..error });
    }
    trusted(context, args, spec)?;
    if let Some(names) = &args.installers {
        spec.installers = installers(names)?;
    }
    spec.keep = args.keep.unwrap_or(spec.keep);
    if let Some(names) = &args.components {
        spec.components = components(names)?;
    }
    if let Some(floor) = args.min_version.as_ref().filter(|floor| !floor.is_empty()) {
        spec.min_version = Some(floor.parse()?);
    }
    let var = |name: &str| context.host.var(name).or_else(|| context.host.var(&name.to_uppercase())).map(str::to_owned);
    let all = var("all_proxy");
    spec.https_proxy = var("https_proxy").or(all.clone()).or(spec.https_proxy.take());
    spec.http_proxy = var("http_proxy").or(all).or(spec.http_proxy.take());
    spec.no_proxy = var("no_proxy").or(spec.no_proxy.take());
    // Before the addresses are looked at: they hold none from here on.
    let credentials = own_credentials(context, &known, spec)?;
    network::base_url(context, spec)?;
    context.credentials = credentials;
    Ok(())
}

/// Errors: `usage` where systemd could not start the agent from `path`.
fn check_path(path: &Path) -> Result<()> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(Error::new(Code::Usage, format!("--path {shown} is not absolute")));
    }
    if !fits_unit(path) {
        let what = format!("--path {shown}: systemd cannot start a program from a path with {NOT_IN_UNIT}");
        return Err(Error::new(Code::Usage, what));
    }
    Ok(())
}

/// The source, where one is given: an empty one is none, since no variable of the environment stands behind it.
fn source(args: &Install, spec: &mut Spec) {
    match args.source.as_deref().map(str::trim) {
        Some("" | DEFAULT) => spec.source = None,
        Some(source) => spec.source = Some(source.to_owned()),
        None => {}
    }
}

/// The cluster's address: the flag's, else `kept`, else the one of `teleport.yaml`.
fn proxy(context: &Context, args: &Install, kept: Option<String>) -> Result<Option<String>> {
    let agent_proxy = context.agent_config()?.and_then(|config| config.proxy);
    if let Some(proxy) = args.proxy.as_deref().filter(|proxy| !proxy.is_empty()) {
        let given: ProxyAddr = proxy.parse()?;
        let differs = |known: &&String| known.parse::<ProxyAddr>().is_ok_and(|known| known != given);
        if let Some(known) = agent_proxy.as_ref().filter(|_| !args.allow_proxy_conflict).filter(differs) {
            let file = context.layout.agent_config.display();
            let what = format!("--proxy {given} differs from the address {known} in {file}");
            return Err(
                Error::new(Code::ProxyConflict, what).advise("correct one of them, or add --allow-proxy-conflict")
            );
        }
        return Ok(Some(given.to_string()));
    }
    let of_agent = |proxy: String| proxy.parse::<ProxyAddr>().map(|proxy| proxy.to_string());
    kept.map_or_else(|| agent_proxy.map(of_agent).transpose(), |kept| Ok(Some(kept)))
}

/// Whom the settings trust: certificate authorities and the key of archives.
fn trusted(context: &Context, args: &Install, spec: &mut Spec) -> Result<()> {
    if let Some(file) = &args.ca_file {
        spec.ca = Some(network::authorities(file)?);
    } else if let Some(file) = context.host.var("SSL_CERT_FILE") {
        // What worked by hand works from the timer, which has no such variable; and what was given before goes on to.
        let given = network::authorities(file.as_ref()).map_err(|error| error.during("SSL_CERT_FILE"))?;
        spec.ca = Some(only_certificates(&(spec.ca.take().unwrap_or_default() + "\n" + &given))?);
    }
    if let Some(file) = &args.public_key {
        let text = network::pem(file)?;
        text.parse::<PublicKey>().map_err(|error| error.during(file.display()))?;
        spec.public_key = Some(text);
    }
    match args.tuf_root.as_deref() {
        Some("") => {
            if spec.tuf_root.take().is_some() {
                context.report.warn("archives are no longer checked against the TUF repository (--tuf-root \"\")");
            }
            spec.tuf_url = None;
        }
        Some(file) => {
            spec.tuf_root = Some(tuf::given_root(file.as_ref(), spec.tuf_root.as_deref(), context.host.now())?);
        }
        None => {}
    }
    match args.tuf_url.as_deref() {
        Some("" | DEFAULT) => spec.tuf_url = None,
        Some(url) => spec.tuf_url = Some(url.parse::<BaseUrl>()?.to_string()),
        None => {}
    }
    if spec.tuf_url.is_some() && spec.tuf_root.is_none() {
        return Err(Error::new(Code::Usage, "--tuf-url has no effect without a trusted root")
            .advise("give the repository's root with --tuf-root"));
    }
    Ok(())
}

/// The components that `--components` names; none for all.
fn components(names: &[String]) -> Result<Vec<String>> {
    if names.iter().any(|name| name == ALL) {
        return Ok(Vec::new());
    }
    if let Some(name) = names.iter().find(|name| name.is_empty() || name.contains('/') || name.starts_with('.')) {
        return Err(Error::new(Code::Usage, format!("--components: {name:?} is not a valid binary name"))
            .advise("give names like tsh,tbot"));
    }
    Ok(names.iter().map(|name| name.trim().to_owned()).collect())
}

/// What `--installers` names; none for the default. Errors: `usage`.
fn installers(names: &str) -> Result<Vec<Installer>> {
    if matches!(names, "" | DEFAULT) {
        return Ok(Vec::new());
    }
    let usage = |error: ParseError| Error { code: Code::Usage, ..Error::from(error).during("--installers") };
    let all: Vec<Installer> = names.split(',').map(|name| name.trim().parse().map_err(usage)).collect::<Result<_>>()?;
    if all.len() > MAX_NAMED {
        return Err(Error::new(Code::Usage, format!("--installers: more than {MAX_NAMED}")));
    }
    Ok(all)
}

/// Takes the credentials out of `spec`, and gives those to be kept beside it; `None` if the kept ones stay.
fn own_credentials(context: &Context, known: &Spec, spec: &mut Spec) -> Result<Option<Credentials>> {
    let given = spec.take_credentials();
    let on_disk = Credentials::known(&context.layout.versions)?;
    let kept = on_disk.clone().fitting(known.urls());
    // What was given for one server is never sent to another.
    let still = |known: &Option<String>, now: &Option<String>, kept: &Option<String>| {
        kept.clone().filter(|_| known.is_some() && known == now)
    };
    let credentials = Credentials {
        https_proxy: given.https_proxy.or(still(&known.https_proxy, &spec.https_proxy, &kept.https_proxy)),
        http_proxy: given.http_proxy.or(still(&known.http_proxy, &spec.http_proxy, &kept.http_proxy)),
        base_url: given.base_url.or(still(&known.base_url, &spec.base_url, &kept.base_url)),
        source: given.source.or(still(&known.source, &spec.source, &kept.source)),
        ..given
    }
    .bound(spec.urls());
    Ok((credentials != on_disk).then_some(credentials))
}

/// Tells of the updater of RFD 0109, which gives way. Its channel is followed only where nothing else is known to ask.
fn adopt_upgrader(context: &Context, args: &Install, spec: &mut Spec) -> Result<()> {
    if spec.active_version.is_some() || !upgrader::is_there(&context.layout)? {
        return Ok(());
    }
    context.report.notice("taking this host over from the updater of RFD 0109 (teleport-upgrade.timer)");
    let channel = upgrader::channel(&context.layout).unwrap_or_else(|error| {
        context.report.warn(&error.during("its endpoint is not followed").to_string());
        None
    });
    let Some(channel) = channel.filter(|_| spec.source.is_none()) else { return Ok(()) };
    let (source, channel) = (channel.clone(), redact(&channel));
    // A source that is given, be it the proxy, is an answer.
    if spec.proxy.is_some() || args.source.is_some() {
        context.report.notice(&format!("it asked {channel}; to go on with that, run `enable --source {channel}`"));
    } else {
        context
            .report
            .notice(&format!("it asked {channel}, which this host now follows (`--source default` ends that)"));
        spec.source = Some(source);
    }
    Ok(())
}

/// Settings of a host that the Go updater managed, where ours say nothing yet. Returns what it has installed.
fn adopt_go_updater(context: &mut Context, spec: &mut Spec) -> Result<Option<Revision>> {
    if spec.active_version.is_some() {
        return Ok(None);
    }
    let file = GoUpdater::file(&context.layout);
    let Some(known) = GoUpdater::of(&context.layout)? else {
        return Ok(None);
    };
    let its_lock = context.layout.behind(&file.with_file_name("update.lock"));
    if lock::holder(&its_lock).at("cannot see who holds", &its_lock)?.is_some() {
        let what = format!("the Go updater (configured in {}) is running", file.display());
        return Err(Error::new(Code::LockHeld, what).advise("try again when it is done"));
    }
    context.report.notice("migrating this host from the Go updater");
    spec.proxy = spec.proxy.take().or(known.proxy);
    spec.group = spec.group.take().or(known.group);
    spec.base_url = spec.base_url.take().or(known.base_url);
    if known.pinned {
        spec.pinned = true;
        spec.pinned_version = known.active.as_ref().map(|active| active.version.clone());
    }
    let usual = Layout::new(&context.layout.root, context.layout.suffix.as_deref(), None)?;
    if let Some(path) = known.path.filter(|path| *path != usual.path_inside(&usual.link_dir) && spec.path.is_none()) {
        context.lay_out(Some(&path))?;
        spec.path = Some(path);
    }
    Ok(known.active)
}
