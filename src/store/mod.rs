//! The versions directory: what is installed, and what each version consists of.

pub mod manifest;
