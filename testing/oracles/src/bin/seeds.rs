//! `cargo run --package oracles --bin seeds [DIR]`: writes what fuzzing starts from, a folder a target.

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "fuzz/target/seeds".into());
    oracles::seeds::write(dir.as_ref());
}
