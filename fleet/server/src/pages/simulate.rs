//! `/simulate`: the next release, by the engine with a virtual clock on this server's configuration.

use crate::views::simulate::{SimulateInput, SimulatePage, SimulateResult};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use fleet_engine::resource::{self, Kind};
use fleet_simulator::forecast::{self, ForecastPlan, HostShare, HostSource};
use fleet_wire::api::{ApiError, Role};
use jiff::SignedDuration;

use super::access::FormFields;
use super::act;
use super::page::{self, PageResult, frame, page, refuse};
use super::session::Session;
use crate::app::App;
use crate::clock;
use crate::core;
use crate::core::release::{self, NextRelease};
use crate::simulation::{KINDS, MADE_UP, known};

/// Most hosts: some seconds of one core.
const MOST: u32 = 20_000;
/// At most so long, as on the command line.
const LENGTH: SignedDuration = SignedDuration::from_hours(30 * 24);
/// From the end of the jitter to the outcome.
const UPDATE_IN: SignedDuration = SignedDuration::from_secs(90);
/// Between two questions of a host.
const EVERY: SignedDuration = SignedDuration::from_mins(10);
/// What a host downloads, bytes.
const SIZE: u64 = 180_000_000;

/// The form, and what would happen.
pub(super) async fn simulate(session: Session, State(app): State<App>, uri: Uri) -> PageResult {
    let field = |name: &str, empty: &str| {
        let found = page::asked(&uri, name).map(|value| value.trim().to_owned());
        found.filter(|value| !value.is_empty()).unwrap_or_else(|| empty.to_owned())
    };
    let asked = SimulateInput {
        to: field("to", ""),
        start: field("start", ""),
        hosts: field("hosts", ""),
        bad: field("bad", "0%"),
        vanish: field("vanish", "0%"),
        seed: field("seed", "0"),
    };
    let start = app.core.run(|tx| Ok(release::start(tx))).await;
    let start = start.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?.unwrap_or_default();
    let mut status = StatusCode::OK;
    let (mut told, mut begin) = (None, None);
    if uri.query().is_some_and(|query| !query.is_empty()) {
        let (code, what) = match tell(&app, &asked).await {
            Ok(what) => (StatusCode::OK, Ok(what)),
            Err((code, why)) => (code, Err(why)),
        };
        if what.is_ok() && !asked.to.is_empty() && session.actor.role >= Role::Operator {
            let fields = [("do", "begin"), ("target", &asked.to), ("start", &asked.start)];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let shown = act::shown(&app, &session, &FormFields(fields.into())).await;
            begin = Some(shown.map_err(|wrong| wrong.message));
        }
        (status, told) = (code, Some(what));
    }
    Ok(page(status, &SimulatePage { frame: frame(&app, Some(&session)), asked, told, begin, start }))
}

async fn tell(app: &App, asked: &SimulateInput) -> Result<SimulateResult, (StatusCode, String)> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let unavailable = |wrong: ApiError| (StatusCode::SERVICE_UNAVAILABLE, wrong.message);
    let mut plan = read(asked).map_err(bad)?;
    let is_known = asked.hosts.is_empty();
    let typed = NextRelease { target: asked.to.clone(), start: asked.start.clone(), revision: String::new() };
    let of_server = app.core.run(move |tx| {
        let most = usize::try_from(MOST).unwrap_or(usize::MAX);
        let hosts = if is_known { core::hosts::inventory(tx, most) } else { Some(Vec::new()) };
        // Where no start version is known, one is made up.
        let release = Some(typed).filter(|typed| !typed.target.is_empty());
        let release = release.and_then(|typed| release::document(tx, &typed).ok());
        Ok((core::resources::of_kinds(tx, &KINDS), release, hosts))
    });
    let (resources, release, inventory) = of_server.await.map_err(unavailable)?;
    plan.resources = resources;
    if let Some(release) = release {
        let release = resource::read(&release).map_err(|faults| bad(faults.to_string()))?;
        plan.resources.retain(|resource| resource.kind() != Kind::Version);
        plan.resources.extend(release);
        plan.to = None;
    }
    let inventory = inventory.ok_or_else(|| bad(format!("more than {MOST} hosts are known: say how many")))?;
    if !inventory.is_empty() {
        plan.hosts = HostSource::Known(inventory.into_iter().map(known).collect());
    }
    let busy =
        || (StatusCode::SERVICE_UNAVAILABLE, "another simulation is running: try again in some seconds".to_owned());
    let place = std::sync::Arc::clone(&app.dashboard.simulations).try_acquire_owned().map_err(|_| busy())?;
    // Beside the core and the answers: it takes seconds of a core.
    let run = tokio::task::spawn_blocking(move || {
        let _place = place;
        let forecast = forecast::run(&plan)?;
        Ok::<_, String>(SimulateResult { text: forecast.text(), svg: forecast.svg() })
    });
    run.await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?.map_err(bad)
}

/// Everything but the configuration.
fn read(asked: &SimulateInput) -> Result<ForecastPlan, String> {
    let hosts = match asked.hosts.as_str() {
        "" => MADE_UP,
        text => {
            text.parse().ok().filter(|count| (1..=MOST).contains(count)).ok_or(format!("Hosts: give 1 to {MOST}"))?
        }
    };
    let to = Some(asked.to.as_str()).filter(|to| !to.is_empty()).map(str::parse).transpose();
    Ok(ForecastPlan {
        resources: Vec::new(),
        to: to.map_err(|error| format!("Version: {error}"))?,
        hosts: HostSource::Made(hosts),
        begin: clock::now(),
        length: LENGTH,
        seed: asked.seed.parse().map_err(|_| "Seed: give a whole number".to_owned())?,
        bad: HostShare::parse(&asked.bad)?,
        bad_label: None,
        bad_after: SignedDuration::ZERO,
        vanish: HostShare::parse(&asked.vanish)?,
        cuts: Vec::new(),
        down: Vec::new(),
        update_in: UPDATE_IN,
        every: EVERY,
        size: SIZE,
    })
}
