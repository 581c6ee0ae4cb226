//! What a simulation takes of a server, by the command line and by the dashboard.

use fleet_engine::fleet::HostReport;
use fleet_engine::resource::Kind;
use fleet_simulator::forecast::KnownHost;
use fleet_wire::answers::ids;
use fleet_wire::api::HostView;

/// Hosts that are made up where nobody says how many.
pub(crate) const MADE_UP: u32 = 1000;
/// Kinds that a simulation is about.
pub(crate) const KINDS: [Kind; 3] = [Kind::Config, Kind::Maintenance, Kind::Version];

/// A host, as far as a simulation goes.
pub(crate) fn known(host: HostView) -> KnownHost {
    let report = HostReport {
        host: ids::parse(&host.host),
        group: Some(host.declared_group),
        labels: Some(host.labels),
        hostname: Some(host.hostname),
        pinned: Some(host.pinned),
        disabled: Some(host.disabled),
        ..HostReport::default()
    };
    KnownHost { report, assigned: Some(host.assigned_group).filter(|group| !group.is_empty()), held: host.held }
}
