//! The command line of teleport-fleet: its words, its texts, and how it asks the server.
