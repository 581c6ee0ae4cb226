//! The TUF repository that this server serves and keeps from ending (DIRECTIVES §5.5).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fleet_store::Finding;
use fleet_tuf::{SigningKey, SiteRepository, Verdict};
use http_client::{Client, HttpSettings};
use jiff::{SignedDuration, Timestamp};

use crate::clock;

/// Between two looks: much shorter than the shortest time that is good.
const EVERY: Duration = Duration::from_secs(600);
/// Before an offline role ends somebody is told twice: people must meet for it.
const EARLY: [i64; 2] = [30, 7];

/// Where the repository is, and the key of its online roles.
#[derive(Debug, Clone)]
pub(crate) struct TufPlace {
    /// The repository's directory.
    pub(crate) dir: PathBuf,
    /// The key; `None`: it is refreshed elsewhere.
    pub(crate) online_key: Option<String>,
}

/// The repository, and what was last found there.
#[derive(Debug, Clone)]
pub(crate) struct TufSite {
    pub(crate) place: TufPlace,
    found: Arc<Mutex<Found>>,
}

#[derive(Debug, Clone, Default)]
struct Found {
    verdict: Option<Verdict>,
    /// Why hosts would not accept it, or it could not be refreshed.
    fault: Option<String>,
    /// When it was looked at.
    at: Option<Timestamp>,
}

/// What somebody must hear.
#[derive(Debug, Clone)]
pub(crate) struct TufAlert {
    /// Each is told once.
    pub(crate) key: String,
    /// The kind of the event.
    pub(crate) kind: &'static str,
    /// A sentence without its end.
    pub(crate) what: String,
    /// The role, where it is of one.
    pub(crate) role: Option<String>,
}

/// What controllers failed at, by their names. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ControllerFaults(Arc<Mutex<BTreeMap<String, String>>>);

impl ControllerFaults {
    /// What somebody must hear.
    pub(crate) fn alerts(&self) -> Vec<TufAlert> {
        let faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alert = |(name, fault): (&String, &String)| TufAlert {
            key: format!("tuf_failed {name}"),
            kind: "tuf_failed",
            what: format!("The controller {name} drafts nothing: {fault}"),
            role: None,
        };
        faults.iter().map(alert).collect()
    }

    pub(crate) fn set(&self, name: &str, fault: Option<String>) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = fault {
            if faults.get(name) != Some(&fault) {
                tracing::warn!(name, fault, "the controller drafts nothing");
            }
            faults.insert(name.to_owned(), fault);
        } else {
            faults.remove(name);
        }
    }

    pub(crate) fn keep_only(&self, names: &[String]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| names.contains(name));
    }
}

/// What of TUF somebody must hear: of the repository that is served, and of controllers that ask others.
#[derive(Debug, Clone, Default)]
pub(crate) struct TufWatch {
    /// The repository; `None`: none is served.
    pub(crate) site: Option<TufSite>,
    /// What controllers failed at.
    pub(crate) faults: ControllerFaults,
}

impl TufWatch {
    /// At `now`.
    pub(crate) fn alerts(&self, now: Timestamp) -> Vec<TufAlert> {
        let of_site = self.site.as_ref().map(|site| site.alerts(now)).unwrap_or_default();
        of_site.into_iter().chain(self.faults.alerts()).collect()
    }
}

impl TufSite {
    /// Nothing of it was looked at yet.
    pub(crate) fn new(place: TufPlace) -> Self {
        Self { place, found: Arc::default() }
    }

    fn found(&self) -> Found {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bytes of a file that hosts ask for; `None`: there is none. May wait for the disk.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        fleet_tuf::published_file(&self.place.dir.join("metadata"), name)
    }

    /// The end of each role, as it was last found.
    pub(crate) fn ends(&self) -> Vec<(String, Timestamp)> {
        self.found().verdict.map(|verdict| verdict.ends).unwrap_or_default()
    }

    /// What somebody must hear at `now`.
    pub(crate) fn alerts(&self, now: Timestamp) -> Vec<TufAlert> {
        let Found { verdict, fault, .. } = self.found();
        let mut alerts: Vec<TufAlert> = fault.into_iter().map(|fault| failed(&fault)).collect();
        for (role, end) in verdict.into_iter().flat_map(|verdict| verdict.ends) {
            let verb = match role.as_str() {
                tuf::ROOT => "tuf rotate",
                tuf::TARGETS => "tuf add",
                _ => continue,
            };
            let is_near = |days: &i64| end.duration_since(now) <= SignedDuration::from_hours(24 * days);
            // The nearer one alone, where both are past: they say the same.
            alerts.extend(EARLY.iter().rfind(|days| is_near(days)).map(|days| {
                let dir = self.place.dir.display();
                let what = format!(
                    "The role {role} of the TUF repository ends at {end}, and then no host installs anything: `teleport-fleet {verb} {dir}`, \
                     signatures, `tuf commit`"
                );
                let key = format!("tuf {role} {end} {days}");
                TufAlert { key, kind: "tuf_expiring", what, role: Some(role.clone()) }
            }));
        }
        alerts
    }

    /// Looks, and refreshes what the online key signs. May wait for the disk.
    pub(crate) fn look(&self, now: Timestamp) {
        let refreshed = self.place.online_key.as_deref().map(|key| refresh(&self.place.dir, key, now));
        if let Some(Ok(Some(version))) = refreshed {
            tracing::info!(version, "the timestamp of the TUF repository is new");
        }
        let checked = check(&self.place.dir, now);
        // Of two faults that of the repository is what hosts see.
        let fault = match (&checked, refreshed) {
            (Err(error), _) => Some(error.clone()),
            (Ok(_), Some(Err(error))) => Some(error),
            (Ok(_), _) => None,
        };
        let before = self.found();
        let told = before.at.map(|at| self.alerts(at)).unwrap_or_default();
        if fault != before.fault {
            match &fault {
                Some(fault) => tracing::error!(fault, "the TUF repository is not as it must be"),
                None => tracing::info!("the TUF repository is as it must be again"),
            }
        }
        let found = Found { verdict: checked.ok().or(before.verdict), fault, at: Some(now) };
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        // Once each, not each ten minutes.
        let is_new = |alert: &&TufAlert| alert.role.is_some() && told.iter().all(|told| told.key != alert.key);
        self.alerts(now).iter().filter(is_new).for_each(|alert| tracing::warn!("{}", alert.what));
    }
}

fn failed(fault: &str) -> TufAlert {
    let what = format!("Hosts may soon refuse the TUF repository: {fault}");
    TufAlert { key: "tuf_failed".to_owned(), kind: "tuf_failed", what, role: None }
}

fn refresh(dir: &Path, key: &str, now: Timestamp) -> Result<Option<u64>, String> {
    let refreshed = SigningKey::read(key).and_then(|key| SiteRepository::open(dir)?.refresh(&key, 0, now));
    refreshed.or_else(|error| match error.code {
        // Somebody signs there now: the next look comes soon.
        error::Code::LockHeld => Ok(None),
        _ => Err(error.to_string()),
    })
}

/// What a host finds that trusts the first root.
fn check(dir: &Path, now: Timestamp) -> Result<Verdict, String> {
    let client = Client::new(&HttpSettings::default()).map_err(|error| error.to_string())?;
    let root = dir.join("metadata/1.root.json");
    let checked = fleet_tuf::check(&dir.display().to_string(), &root, &client, now, &[]);
    checked.map(|(verdict, _)| verdict).map_err(|error| error.to_string())
}

/// Looks each ten minutes, as long as the server runs.
pub(crate) async fn watch(site: TufSite) {
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let site = site.clone();
        if tokio::task::spawn_blocking(move || site.look(clock::now())).await.is_err() {
            return;
        }
    }
}

/// What `doctor` finds.
pub(crate) fn doctor(place: &TufPlace, now: Timestamp) -> Finding {
    let site = TufSite::new(TufPlace { online_key: None, ..place.clone() });
    site.look(now);
    let dir = place.dir.display();
    let key = place.online_key.as_deref().map(SigningKey::read);
    if let Some(fault) = site.found().fault.or_else(|| key?.err().map(|error| error.to_string())) {
        return Finding::problem(
            format!("the TUF repository {dir}: {fault}"),
            "teleport-fleet tuf check says what a host finds",
        );
    }
    match site.alerts(now).into_iter().next_back() {
        Some(alert) => Finding::warning(alert.what, "teleport-fleet tuf check says when each role ends"),
        None => Finding::ok(format!("hosts accept the TUF repository {dir}")),
    }
}
