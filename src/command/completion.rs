//! `completion` and the manual page: both from the same clap tree.

use std::io::Write;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::report::{IoContext, Result};

/// Prints the completion script for `shell`.
pub fn run(shell: clap_complete::Shell) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "teleport-update", &mut script);
    super::version::print(&script)
}

/// Prints the manual page: one section a command.
pub fn man() -> Result<u8> {
    let mut page = Vec::new();
    let command = Cli::command();
    clap_mangen::Man::new(command.clone()).render(&mut page).at("cannot render", "the manual page")?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        writeln!(page, ".SH \"COMMAND {}\"", sub.get_name().to_uppercase()).at("cannot render", "the manual page")?;
        let man = clap_mangen::Man::new(sub.clone());
        man.render_description_section(&mut page).at("cannot render", "the manual page")?;
        man.render_options_section(&mut page).at("cannot render", "the manual page")?;
    }
    super::version::print(&page)
}
