//! `tuf`: asks the TUF repository whose root `enable --tuf-root` gave, and changes nothing but what is kept of it.

use std::io::Read as _;
use std::path::Path;

use crate::cli::Tuf as Args;
use crate::command::version;
use crate::context::Context;
use crate::inspect;
use crate::release::tuf::unlisted;
use crate::report::{Code, Error, IoContext, Result};
use crate::run::{network, tuf};

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Args) -> Result<u8> {
    let updates = inspect::open(context)?;
    let none = || {
        Error::new(Code::ConfigInvalid, "no TUF repository is trusted")
            .advise("give its root with `teleport-update enable --tuf-root FILE`")
    };
    let tuf = tuf::of(context, &updates, updates.spec())?.ok_or_else(none)?;
    let client = network::client(context, updates.spec())?;
    let (cancelled, warn) = (|| context.signals.cancelled(), |what: &str| context.report.warn(what));
    let text = tuf.verified(&client, context.host.now(), &cancelled, &warn, |repository| match args {
        Args::Check => {
            let trusted = repository.trusted();
            let ends = trusted.ends().map(|(role, end)| format!("{role:<10} ends {end}\n"));
            Ok(format!("{} is verified, root version {}\n", tuf.url, trusted.root_version())
                + &ends.collect::<String>())
        }
        Args::Verify { name, file } => {
            let meant = repository.target(name)?.ok_or_else(|| unlisted(&tuf.url, name))?;
            if meant.is(&read(file, meant.length)?) {
                return Ok(format!("{} is {name} as its signers mean it\n", file.display()));
            }
            let what = format!("{} is not {name} as its signers mean it", file.display());
            Err(Error::new(Code::TufMismatch, what).advise("do not install it"))
        }
    })?;
    version::print(text.as_bytes())
}

/// At most a byte more than `length`. Errors: those of reading.
fn read(file: &Path, length: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).at("cannot read", file)?;
    opened.take(length.saturating_add(1)).read_to_end(&mut bytes).at("cannot read", file)?;
    Ok(bytes)
}
