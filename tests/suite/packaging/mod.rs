//! Packages, the install script, SELinux, and hosts that came from elsewhere.

mod e2e;
mod fleet;
mod install_page;
mod install_script;
mod kube;
pub(crate) mod old_packages;
mod packages;
mod selinux;
