//! `completion` and the manual page. Both are rendered from the same clap tree by the build script (`build/`).

use std::io::Read;

use flate2::read::DeflateDecoder;

use crate::cli::Shell;
use crate::report::{IoContext, Result};

/// A text that the build script has rendered and deflated.
macro_rules! rendered {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

/// Prints the completion script for `shell`.
pub(crate) fn run(shell: Shell) -> Result<u8> {
    print(match shell {
        Shell::Bash => rendered!("bash"),
        Shell::Elvish => rendered!("elvish"),
        Shell::Fish => rendered!("fish"),
        Shell::Powershell => rendered!("powershell"),
        Shell::Zsh => rendered!("zsh"),
    })
}

/// Prints the manual page.
pub(crate) fn man() -> Result<u8> {
    print(rendered!("man"))
}

fn print(deflated: &[u8]) -> Result<u8> {
    let mut text = Vec::new();
    DeflateDecoder::new(deflated).read_to_end(&mut text).at("cannot unpack", "what this program was built with")?;
    super::version::print(&text)
}
