//! The clap tree; no logic.
