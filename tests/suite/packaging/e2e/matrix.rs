//! The cells of one life.

use std::fmt::Write as _;

use crate::support::*;

/// Written as a column that `make e2e` puts beside the others, or below what another life left in the same column.
pub(super) struct Matrix {
    life: &'static str,
    column: String,
    text: String,
}

impl Matrix {
    /// Of the `life` in `bed`, which has this kind of root.
    pub(super) fn of(life: &'static str, kind: &str, bed: &Bed) -> Self {
        let systemd = bed.sh("systemctl --version | sed -n '1s/^systemd \\([0-9]*\\).*/\\1/p'");
        let machine = bed.sh("uname -m");
        let column = format!("{kind}, systemd {}, {}", systemd.trim(), machine.trim());
        Self { life, column, text: String::new() }
    }

    /// One flow.
    pub(super) fn cell(&mut self, flow: &str, body: impl FnOnce()) {
        let start = Instant::now();
        body();
        let line = format!("{}\t{flow}\tok {:.1} s", self.column, start.elapsed().as_secs_f64());
        eprintln!("{line}");
        writeln!(self.text, "{line}").unwrap();
    }

    /// All of them, for `matrix.sh`.
    pub(super) fn write(&self) {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("e2e");
        std::fs::create_dir_all(&dir).unwrap();
        let name = format!("{}-{}", self.life, self.column.replace(", ", "-").replace(' ', ""));
        std::fs::write(dir.join(name), &self.text).unwrap();
    }
}
