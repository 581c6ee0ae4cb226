//! Keeps resources, rollout, hosts and audit in one SQLite file: a decision and its record in one transaction.
