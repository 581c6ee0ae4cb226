//! A store in a PostgreSQL database, which several servers share (FLEET §7).

mod address;
mod connection;
pub(crate) mod schema;
mod store;
mod tls;

pub(crate) use connection::{PostgresConnection, PostgresServer};
pub(crate) use store::PostgresStore;
