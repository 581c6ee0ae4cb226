//! `cargo run --package oracles --bin seeds`: writes what fuzzing starts from into `fuzz/corpus`.

fn main() {
    oracles::seeds::write(&oracles::corpus());
}
