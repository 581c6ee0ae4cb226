//! `tuf`: asks the TUF repository whose root `enable --tuf-root` gave, and changes nothing but what is kept of it.

use protocol::Digest;

use crate::cli::Tuf as Args;
use crate::command::version;
use crate::context::Context;
use crate::inspect;
use crate::release::tuf::{Look, unlisted};
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
    let look = Look { client: &client, now: context.host.now(), cancelled: &cancelled, warn: &warn };
    let mut meant = None;
    let text = tuf.verified(&look, |repository| match args {
        Args::Check => {
            let trusted = repository.trusted();
            let ends = trusted.ends().map(|(role, end)| format!("{role:<10} ends {end}\n"));
            Ok(format!("{} is verified, root version {}\n", tuf.url, trusted.root_version())
                + &ends.collect::<String>())
        }
        Args::Verify { name, .. } => {
            meant = Some(repository.target(name)?.ok_or_else(|| unlisted(&tuf.url, name))?);
            Ok(String::new())
        }
    })?;
    let (Some(meant), Args::Verify { name, file }) = (meant, args) else { return version::print(text.as_bytes()) };
    let shown = file.display();
    let found = std::fs::metadata(file).at("cannot read", file)?;
    if !found.is_file() {
        return Err(Error::new(Code::Usage, format!("{shown} is no regular file")));
    }
    if found.len() != meant.length || Some(Digest::of_file(file).at("cannot read", file)?.0.0) != meant.sha256() {
        return Err(Error::new(Code::TufMismatch, format!("{shown} is not {name} as its signers mean it"))
            .advise("do not install it"));
    }
    version::print(format!("{shown} is {name} as its signers mean it\n").as_bytes())
}
