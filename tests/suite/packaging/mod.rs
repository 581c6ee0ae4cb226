//! Packages, the install script, SELinux, and hosts that came from elsewhere.

mod e2e;
mod fleet;
mod install_page;
mod install_script;
pub(crate) mod old_packages;
mod packages;
mod selinux;
