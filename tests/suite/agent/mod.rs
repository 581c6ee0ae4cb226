//! The agent's service, its health and its database.

mod damage;
mod database;
mod downtime;
mod enablement;
mod health;
mod installers;
mod recovery_service;
mod service;
mod sqlite;
mod units;
mod way_back;
