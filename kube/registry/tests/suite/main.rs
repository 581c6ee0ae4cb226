//! The registry crate beside registries that are good, strange or hostile.

mod access;
mod binding;
mod forgeries;
mod images;
mod lies;
mod loopback;
mod support;
mod vectors;
