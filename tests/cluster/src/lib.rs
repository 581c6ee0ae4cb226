//! test-cluster
