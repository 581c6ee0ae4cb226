//! Tokens of the admin API, for admins.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use fleet_api::{MadeToken, NewToken, Token};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::access::Admin;
use super::admin::{Answer, Asked, At, Whole, read_json};

/// The routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/tokens", get(list).post(make))
        .route("/v1/fleet/tokens/{name}", axum::routing::delete(remove))
}

async fn list(_: Admin, State(app): State<App>) -> Answer<Vec<Token>> {
    Ok(Json(app.core.run(|keeper| Ok(keeper.tokens())).await?))
}

async fn make(Admin(actor): Admin, State(app): State<App>, Whole(body): Whole) -> Answer<MadeToken> {
    let new: NewToken = read_json(&body)?;
    Ok(Json(app.core.run(move |keeper| keeper.make_token(&actor, &new)).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    id: String,
}

async fn remove(
    Admin(actor): Admin,
    State(app): State<App>,
    At(name): At<String>,
    Asked(Removal { id }): Asked<Removal>,
) -> Answer<Value> {
    app.core.run(move |keeper| keeper.remove_token(&actor, &id, &name)).await?;
    Ok(Json(json!({})))
}
