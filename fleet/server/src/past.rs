//! The past, read beside the core: a walk through a long log keeps no decision waiting.

use fleet_engine::host::HostId;
use fleet_store::StoreReader;
use fleet_wire::api::{ApiError, Code, Explained};
use fleet_wire::rollout::AgentRollout;
use jiff::Timestamp;

use crate::app::App;
use crate::core;

/// What `read` finds in the store.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn past<T: Send + 'static>(
    app: &App,
    read: impl FnOnce(&StoreReader) -> fleet_store::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let place = app.store.clone();
    let done = tokio::task::spawn_blocking(move || StoreReader::open(&place).and_then(|reader| read(&reader))).await;
    let failed = |message: String| ApiError::new(Code::StoreUnavailable, message);
    done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

/// The present rollout, and past ones as they were last, the newest first, each with the time of its end; those before number
/// `before`, at most `limit`.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn rollouts(
    app: &App,
    before: Option<u64>,
    limit: u32,
) -> Result<Vec<(AgentRollout, Option<Timestamp>)>, ApiError> {
    let present = app.core.run(|tx| Ok(core::rollouts::present(tx))).await?;
    let present = present.filter(|present| before.is_none_or(|before| present.metadata.number < Some(before)));
    let newest = present.as_ref().and_then(|present| present.metadata.number);
    let past = past(app, move |reader| reader.rollouts(before, limit)).await?;
    let shown = |rollout: &fleet_engine::rollout::Rollout| {
        let mut shown = AgentRollout::past(rollout);
        shown.metadata.number = Some(rollout.number);
        (shown, Some(rollout.last_step))
    };
    // One that ended between the two looks is told once.
    let past = past.iter().filter(|rollout| newest != Some(rollout.number)).map(shown);
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(present.map(|present| (present, None)).into_iter().chain(past).take(most).collect())
}

/// Adds what the host reported.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn with_history(app: &App, id: HostId, mut explained: Explained) -> Result<Explained, ApiError> {
    match past(app, move |reader| reader.history(id)).await {
        Ok(kept) => explained.history = Some(kept),
        // Then the reason says so.
        Err(_) if !app.core.snapshot().is_good() => {}
        Err(failure) => return Err(failure),
    }
    Ok(explained)
}
