//! What comes from the network: clusters, mirrors, archives, hostile ones among them.

mod hostile;
mod mirrors;
mod names;
mod network;
mod space;
