//! What routes and pages work with.

use std::ops::Deref;
use std::sync::Arc;

use fleet_store::StorePlace;
use fleet_wire::answers::install_script::InstallScript;

use crate::core::Core;
use crate::dashboard::Dashboard;
use crate::forwards::Forwards;
use crate::load::{Load, RequestMeter};
use crate::notify::Meter;
use crate::servers::Servers;
use crate::tokens::TokenSet;
use crate::tuf_site::TufWatch;

/// One pointer, since each request has several copies of it.
#[derive(Clone)]
pub(crate) struct App(Arc<AppState>);

/// See [`App`].
#[derive(Clone)]
pub(crate) struct AppState {
    /// Decides.
    pub(crate) core: Core,
    /// Where the data is.
    pub(crate) store: StorePlace,
    /// The script for new hosts; `None`: the server's own address is not known.
    pub(crate) install_script: Option<Arc<InstallScript>>,
    /// Who shares the store.
    pub(crate) servers: Servers,
    /// The TUF repository; `None`: there is none.
    pub(crate) tuf: TufWatch,
    /// Other servers' channels.
    pub(crate) forwards: Forwards,
    /// What the listener has in work.
    pub(crate) load: Load,
    /// What it answered.
    pub(crate) requests: RequestMeter,
    /// The server is ending.
    pub(crate) ending: tokio::sync::watch::Receiver<bool>,
    /// How far the receiver of notifications was told; `None`: there is none.
    pub(crate) meter: Option<Arc<Meter>>,
    /// Who may use the admin API from elsewhere.
    pub(crate) tokens: TokenSet,
    /// For people with a browser.
    pub(crate) dashboard: Dashboard,
    /// A reverse proxy is in front, and says who asks.
    pub(crate) is_behind_proxy: bool,
}

impl App {
    /// Shares them.
    pub(crate) fn new(means: AppState) -> Self {
        Self(Arc::new(means))
    }
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}
