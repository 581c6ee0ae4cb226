//! args → host → re-exec → command → exit status.
fn main() {}
