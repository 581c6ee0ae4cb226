//! Commands and their settings, as an operator or the timer calls them.

mod commands;
mod config;
mod idle;
mod link_directory;
mod lock;
mod logs;
mod places;
mod reexec;
mod rfd_enable;
mod rfd_update;
mod status;
mod suffix;
mod takeover;
mod uninstall;
