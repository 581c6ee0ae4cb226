//! What stands on the dashboard's pages: what the server knows in, HTML out (FLEET §6). Pure: a file a page, its template in
//! `fleet/server/templates/`.

#[cfg(test)]
mod agree;
pub(crate) mod assets;
pub(crate) mod audit;
pub(crate) mod confirm;
pub(crate) mod curve;
pub(crate) mod directive_plan;
pub(crate) mod done;
mod escape;
pub(crate) mod frame;
pub(crate) mod group;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod login;
pub(crate) mod refused;
pub(crate) mod rollout;
pub(crate) mod rollouts;
pub(crate) mod simulate;
pub(crate) mod version_control;
pub(crate) mod versions;
