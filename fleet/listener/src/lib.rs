//! Takes connections: TLS and plain, with time-outs, a cap, a graceful stop, and certificates that are read again.
