//! Updates the Teleport agents of a Kubernetes namespace (KUBE).

pub mod account;
pub mod api;
pub mod ask;
pub mod cli;
pub mod commands;
pub mod config;
pub mod hands;
pub mod image;
pub mod keeper;
pub mod leader;
pub mod listener;
pub mod plan;
pub mod plan_command;
pub mod prepare;
pub mod report;
pub mod run;
pub mod schedule;
pub mod state;
pub mod store;
pub mod tell;
pub mod verdict;
pub mod workload;
