//! `serve`: data, core, listeners; then it waits to be told to end.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use crate::listener::{Listener, ListenerLimits, Local, Tcp, Tls, serve};
use fleet_wire::answers::find::Cluster;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::{App, AppState};
use crate::controllers;
use crate::core::Core;
use crate::dashboard::Dashboard;
use crate::forwards::Forwards;
use crate::gates;
use crate::load::{Load, RequestMeter};
use crate::notify;
use crate::outbound::Outbound;
use crate::routes;
use crate::servers::{self, Servers};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::terminal::Log;
use crate::tokens::TokenSet;
use crate::tuf_site::{self, TufSite, TufWatch};

/// Of the admin socket: its owner and its group.
const SOCKET_MODE: u32 = 0o660;
/// Connections of operators, and of whoever collects metrics.
const FEW: usize = 256;
/// Whose members may use the admin socket.
const GROUP: &str = "teleport-fleet";

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// One line: what cannot be opened, bound or read.
pub(crate) fn run(settings: &Settings) -> Result<(), String> {
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let tokens = TokenSet::default();
    let cluster = Cluster {
        name: settings.cluster_name.clone(),
        server_version: settings.server_version.clone(),
        edition: settings.edition,
        ..Cluster::default()
    };
    if let Some(finding) = fleet_store::writable_by_others(settings.store.dir()) {
        tracing::warn!("{}: {}", finding.what, finding.advice);
    }
    if let Some(what) = settings.tls.as_ref().and_then(|(_, key)| fleet_cli::open_to_all(key)) {
        tracing::warn!("{what}: chmod 600, or 640 for a group");
    }
    let (core, thread) = Core::start(&settings.store, tokens.clone(), cluster, settings.reporting)?;
    let done = runtime.block_on(serve_until_told(settings, core, tokens));
    // Requests that still run hold the core: without them it ends, and keeps what hosts said last.
    drop(runtime);
    let _ = thread.join();
    done
}

async fn serve_until_told(settings: &Settings, core: Core, tokens: TokenSet) -> Result<(), String> {
    let tls = settings.tls.as_ref().map(|(cert, key)| Tls::load(cert, key)).transpose()?;
    let (main, metrics) = (bind(settings.listen, tls.clone(), "--listen")?, bind(settings.metrics, None, "--metrics")?);
    let local = bind_socket(&settings.admin_socket)?;
    let address = |tcp: &Tcp| tcp.local_addr().map_err(|error| error.to_string());
    let listen = address(&main)?;
    let bound = format!("{listen} {}", address(&metrics)?);
    let outbound = Outbound::new();
    let (stop, stopped) = watch::channel(false);
    let id = uuid::Uuid::new_v4().to_string();
    let tuf = TufWatch { site: settings.tuf.clone().map(TufSite::new), ..TufWatch::default() };
    let start = |receiver| notify::start(receiver, (&settings.store, id.clone()), &core, &outbound, tuf.clone());
    let meter = settings.receiver.clone().map(start).transpose()?;
    let means = AppState {
        ending: stopped.clone(),
        core,
        store: settings.store.clone(),
        install_script: settings.install_script.clone(),
        servers: Servers::default(),
        tuf: tuf.clone(),
        forwards: Forwards::new(outbound.clone()),
        load: Load::new(),
        requests: RequestMeter::new().map_err(|error| error.to_string())?,
        meter,
        tokens,
        dashboard: dashboard(settings, &outbound)?,
        is_behind_proxy: settings.is_behind_proxy,
    };
    // Operators on this host have places of their own.
    let at_socket = App::new(AppState { load: Load::new(), ..means.clone() });
    let app = App::new(means);
    let until = || {
        let mut stopped = stopped.clone();
        async move {
            // The sender outlives the listeners.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        }
    };
    let background = background(settings, &app, outbound, (id.clone(), servers::name(listen.port())));
    let limits = ListenerLimits::default;
    let few = || ListenerLimits { connections: FEW, ..ListenerLimits::default() };
    let listeners = [
        tokio::spawn(serve(Listener::Tcp(main), limits(), routes::all(app.clone()), until())),
        tokio::spawn(serve(Listener::Local(local), few(), routes::all(at_socket), until())),
        tokio::spawn(serve(Listener::Tcp(metrics), few(), routes::metrics(app), until())),
    ];
    warn_without_edition(settings);
    tell(&bound, settings.ready_file.as_deref())?;
    wait_for_the_end(tls.as_ref()).await?;
    tell_systemd(&NotifyState::Stopping);
    tracing::info!("ending: requests under way are finished");
    // Nobody listens where all listeners have ended.
    let _ = stop.send(true);
    for listener in listeners {
        let _ = listener.await;
    }
    background.iter().for_each(JoinHandle::abort);
    // Where the store does not answer, the others see after a while that it is gone.
    let _ = settings.store.shared().map(|shared| shared.leave(&id));
    Ok(())
}

fn warn_without_edition(settings: &Settings) {
    if settings.edition.is_none() {
        // A default would change the edition of hosts that have another one.
        tracing::warn!(
            "no edition is configured: a host keeps the edition that it has, and one without an agent cannot enable; set \
             `edition` (oss, enterprise or enterprise-fips), or give hosts `enable --edition`"
        );
    }
}

/// What is done besides answering, until it is aborted. `own`: id and name of this server.
fn background(settings: &Settings, app: &App, outbound: Outbound, own: (String, String)) -> Vec<JoinHandle<()>> {
    let gates = tokio::spawn(gates::watch(app.core.clone(), outbound));
    let heads = tokio::spawn(notify::log_heads(settings.store.clone()));
    let known = (Arc::clone(app.core.snapshot()), app.dashboard.sessions.clone());
    let watch = |shared| tokio::spawn(servers::watch(app.servers.clone(), shared, own, known));
    let site = app.tuf.site.clone().map(|site| tokio::spawn(tuf_site::watch(site)));
    let controllers = tokio::spawn(controllers::watch(app.core.clone(), app.tuf.faults.clone()));
    [gates, heads, controllers].into_iter().chain(site).chain(settings.store.shared().map(watch)).collect()
}

/// Listens on `address`, which `flag` names.
fn bind(address: SocketAddr, tls: Option<Tls>, flag: &str) -> Result<Tcp, String> {
    Tcp::bind(address, tls).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => format!("{error}: stop what listens there, or give another {flag}"),
        ErrorKind::AddrNotAvailable => format!("{error}: give an address of this host with {flag}"),
        _ => error.to_string(),
    })
}

fn dashboard(settings: &Settings, outbound: &Outbound) -> Result<Dashboard, String> {
    let is_secure = settings.tls.is_some() || settings.is_behind_proxy;
    let people = settings.oidc.as_ref().map(crate::oidc::Oidc::digest);
    let sessions = Sessions::new(settings.store.shared(), people);
    let dashboard = Dashboard::new(sessions, is_secure, settings.public_addr.clone());
    #[cfg(feature = "oidc")]
    if let Some(oidc) = &settings.oidc {
        crate::oidc::check_secret(oidc)?;
        return Ok(dashboard.with_login(oidc.clone(), outbound.clone()));
    }
    #[cfg(not(feature = "oidc"))]
    let _ = outbound;
    Ok(dashboard)
}

fn bind_socket(path: &Path) -> Result<Local, String> {
    // As systemd's RuntimeDirectory= does; by hand the directory may be missing.
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        use std::os::unix::fs::DirBuilderExt;
        #[allow(clippy::disallowed_methods, reason = "a directory of the runtime: it need not be durable")]
        let made = std::fs::DirBuilder::new().mode(0o755).create(dir);
        made.map_err(|error| format!("cannot make {} for the admin socket: {error}", dir.display()))?;
    }
    Local::bind(path, SOCKET_MODE, crate::users::group(GROUP)).map_err(|error| error.to_string())
}

/// That this server listens: the bound addresses, the metrics' second, for whoever started it with port 0; and systemd.
fn tell(bound: &str, ready_file: Option<&Path>) -> Result<(), String> {
    let mut out = std::io::stdout();
    let told = writeln!(out, "{bound}").and_then(|()| out.flush());
    told.map_err(|error| format!("cannot print the bound addresses: {error}"))?;
    if let Some(file) = ready_file {
        #[allow(
            clippy::disallowed_methods,
            reason = "whoever waits for it asks whether it is there: it need not be durable"
        )]
        let written = std::fs::write(file, format!("{bound}\n"));
        written.map_err(|error| format!("cannot write the ready file {}: {error}", file.display()))?;
    }
    tell_systemd(&NotifyState::Ready);
    Ok(())
}

/// Where `NOTIFY_SOCKET` says that systemd waits for it (`Type=notify`); elsewhere nothing.
fn tell_systemd(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        tracing::warn!(%error, "cannot tell systemd {state}");
    }
}

/// Until SIGTERM or SIGINT; SIGHUP has the certificate read again.
async fn wait_for_the_end(tls: Option<&Tls>) -> Result<(), String> {
    let on = |kind| signal(kind).map_err(|error| format!("cannot wait for signals: {error}"));
    let mut term: Signal = on(SignalKind::terminate())?;
    let mut int = on(SignalKind::interrupt())?;
    let mut hangup = on(SignalKind::hangup())?;
    let (mut term, mut int) = (pin!(term.recv()), pin!(int.recv()));
    loop {
        tokio::select! {
            _ = &mut term => return Ok(()),
            _ = &mut int => return Ok(()),
            _ = hangup.recv() => {
                let Some(tls) = tls.cloned() else { continue };
                if let Ok(Err(error)) = tokio::task::spawn_blocking(move || tls.reload()).await {
                    tracing::error!(%error, "the certificate in use stays");
                }
            }
        }
    }
}

/// `RUST_LOG` says more or less; `TELEPORT_FLEET_LOG_FORMAT=json` is for collectors.
fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Whoever read it may be gone, or its disk be full: the server goes on.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Log).with_ansi(false);
    let log = log.log_internal_errors(false);
    let is_json = std::env::var_os("TELEPORT_FLEET_LOG_FORMAT").is_some_and(|format| format == "json");
    if is_json {
        log.json().init();
    } else {
        log.init();
    }
}
