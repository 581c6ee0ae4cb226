//! How versions are controlled by directives, as people see it (DIRECTIVES §6).

use fleet_engine::inventory::{Inventory, InventorySummary};
use fleet_engine::resource::Resource;
use fleet_wire::api::{DirectiveStatus, InstallerStatus, InventoryRow, VersionControlStatus};
use protocol::installer::Installer;

use super::CoreState;
use super::tx::Tx;

/// Directive, promotion, installers, inventory and alerts.
pub(crate) fn status(tx: &Tx<'_>) -> VersionControlStatus {
    let (state, now) = (tx.state(), tx.state().now());
    let CoreState { rollouts, resources, fleet, .. } = state;
    let (inventory, control) = (Inventory::new(rollouts, resources, fleet, now), resources.version_control());
    let InventorySummary { versions, installers } = inventory.summary();
    let directive = resources.directive().map(|directive| DirectiveStatus {
        source: match (directive.config_id.as_str(), directive.version_controller.as_str()) {
            ("", "") => "static".to_owned(),
            ("", controller) => controller.to_owned(),
            (config, _) => config.to_owned(),
        },
        status: match (directive.enabled, directive.not_before, directive.not_after) {
            (false, ..) => "disabled",
            (_, _, Some(end)) if end <= now => "over",
            (_, Some(start), _) if start > now => "waiting",
            _ => "active",
        }
        .to_owned(),
        nonce: rollouts.nonce,
        stale_after: directive.stale_after,
        is_stale: directive.stale_after.is_some_and(|stale| stale <= now),
    });
    let pending = resources.all().filter_map(|resource| match resource {
        Resource::Plan(plan) if plan.model.waits(rollouts.nonce, now) => Some(plan.metadata.name.clone()),
        _ => None,
    });
    let of_installer = |(text, counts): (String, _)| {
        let installer: Installer = text.parse().unwrap_or_default();
        InstallerStatus {
            kind: installer.kind().to_owned(),
            name: installer.name().to_owned(),
            enabled: rollouts.rules.is_enabled(&installer),
            counts,
        }
    };
    VersionControlStatus {
        directive,
        promotion: match (control.enabled, control.promotion.is_automatic) {
            (false, _) => "disabled",
            (true, true) => "automatic",
            (true, false) => "manual",
        }
        .to_owned(),
        promotion_from: control.promotion.from,
        approvals: control.promotion.approvals,
        pending: pending.collect(),
        installers: installers.into_iter().map(of_installer).collect(),
        inventory: versions
            .into_iter()
            .map(|((version, target), counts)| InventoryRow { version, target, counts })
            .collect(),
        alerts: inventory.alerts(resources),
    }
}
