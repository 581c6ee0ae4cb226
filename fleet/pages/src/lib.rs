//! The dashboard's pages: what the server knows in, HTML out (FLEET §6). Pure: a file a page, its template beside it in
//! `templates/`.

pub mod assets;
pub mod audit;
pub mod confirm;
mod curve;
pub mod done;
pub mod escape;
pub mod frame;
pub mod group;
pub mod host;
pub mod hosts;
pub mod login;
pub mod refused;
pub mod rollout;
pub mod rollouts;
pub mod simulate;
pub mod versions;

pub use askama::Template;
pub use frame::{Frame, User};
