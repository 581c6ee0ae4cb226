//! What tells this host from a copy of it (a snapshot of a virtual machine, a cloned disk), as digests: a machine id is
//! not for everybody's eyes (machine-id(5)), and `updates.yaml` is.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::acting::Acting;
use super::durable;
use crate::report::{Code, IoContext, Result};

/// Hex digits kept of a digest: enough to differ by accident never, too few to be taken for anything else.
const DIGITS: usize = 16;
/// Longest file looked into, bytes; ids have some dozens.
const MAX_ID: u64 = 256;
/// Characters of a UUID as everybody writes it, with hyphens (RFC 9562, 4).
const UUID_LENGTH: usize = 36;
/// What is digested along, so that the digest is of use to nobody else.
const SALT: &str = "teleport-update host mark";

/// systemd's id of this installation; empty or "uninitialized" in an image that was cleaned.
const MACHINE: (&str, &str) = ("machine", "/etc/machine-id");
/// What else a copy gets anew, by whom: the virtual machine's own id, from its hypervisor; the instance, from cloud-init.
const OTHERS: [(&str, &str); 2] =
    [("hardware", "/sys/class/dmi/id/product_uuid"), ("instance", "/var/lib/cloud/data/instance-id")];
/// The agent's `host_uuid`; it comes along with a copy, and says nothing about being one.
const AGENT: &str = "agent";

/// Named digests of what identifies a host. As text: `machine:0123456789abcdef hardware:…`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HostFingerprint(BTreeMap<String, String>);

impl HostFingerprint {
    /// The running host's fingerprint; `agent` is the agent's `host_uuid`, if there is one.
    ///
    /// Without a machine id nothing else is looked at: that is a container, which keeps its state in a volume and may wake up
    /// with it elsewhere, as the same host.
    pub(crate) fn of_this_host(agent: Option<&str>) -> Self {
        let machine = id_in(MACHINE.1).filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let others = OTHERS.into_iter().filter(|_| machine.is_some()).map(|(kind, file)| (kind, id_in(file)));
        let others: Vec<_> = others.collect();
        let all = [(MACHINE.0, machine), (AGENT, agent.map(str::to_owned))].into_iter().chain(others);
        Self(all.filter_map(|(kind, id)| Some((kind.to_owned(), digest(kind, &id?)))).collect())
    }

    /// Reads what [`HostFingerprint`] displays as; words of another form are left out.
    pub(crate) fn parse(text: &str) -> Self {
        let words = text.split_whitespace().filter_map(|word| word.split_once(':'));
        Self(words.map(|(kind, digest)| (kind.to_owned(), digest.to_owned())).collect())
    }

    /// Whether `self` is recorded of another host than `now`: something that both know differs. What only one of them
    /// knows says nothing (cloud-init was installed later; only root may read the hardware's id).
    pub(crate) fn is_of_another(&self, now: &Self) -> bool {
        let kinds = [MACHINE.0, OTHERS[0].0, OTHERS[1].0];
        kinds.into_iter().any(|kind| matches!((self.0.get(kind), now.0.get(kind)), (Some(a), Some(b)) if a != b))
    }

    /// Whether both know the agent's `host_uuid`, and it is the same.
    pub(crate) fn has_the_agent_of(&self, other: &Self) -> bool {
        self.0.get(AGENT).is_some_and(|agent| other.0.get(AGENT) == Some(agent))
    }

    /// `self` with what `now` knows; what it does not know stays.
    pub(crate) fn refreshed(&self, now: &Self) -> Self {
        Self(self.0.iter().chain(&now.0).map(|(kind, digest)| (kind.clone(), digest.clone())).collect())
    }
}

impl fmt::Display for HostFingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(kind, digest)| format!("{kind}:{digest}")).collect();
        out.write_str(&words.join(" "))
    }
}

/// The agent's id in its data directory; `None` if it never joined, or where the directory may not be read.
///
/// It goes to the cluster. So nothing but a UUID is one, no link is followed, and where the directory is the agent's user's it
/// is read with his rights.
///
/// Errors: `io` where it cannot be read now: a snapshot would be taken for any host's.
pub(crate) fn agent_uuid(data_dir: &Path) -> Result<Option<String>> {
    let file = data_dir.join("host_uuid");
    let bytes = match Acting::beside(&file).and_then(|acting| read_id(&acting, &file)) {
        Err(error) if error.code == Code::Permission => None,
        bytes => bytes?,
    };
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(|text| text.trim().to_owned());
    Ok(text.filter(|text| text.len() == UUID_LENGTH && uuid::Uuid::try_parse(text).is_ok()))
}

fn read_id(acting: &Acting, file: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::symlink_metadata(file) {
        Ok(meta) if !meta.is_file() || meta.len() > MAX_ID => return Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        _ => {}
    }
    match acting.open(file).at("cannot read", file)? {
        opened if opened.metadata().at("cannot read", file)?.is_file() => {
            let mut bytes = Vec::new();
            opened.take(MAX_ID).read_to_end(&mut bytes).at("cannot read", file)?;
            Ok(Some(bytes))
        }
        _ => Ok(None),
    }
}

/// What cannot be read is unknown, and says nothing: of some machines the hardware's id never can be, and what is known of a
/// host stays recorded.
fn id_in(file: impl AsRef<Path>) -> Option<String> {
    let bytes = durable::read_limited(file.as_ref(), MAX_ID).ok().flatten()?;
    Some(String::from_utf8(bytes).ok()?.trim().to_owned()).filter(|id| !id.is_empty())
}

fn digest(kind: &str, id: &str) -> String {
    let bytes = Sha256::digest(format!("{SALT}\n{kind}\n{}", id.to_ascii_lowercase()));
    base16ct::lower::encode_string(&bytes)[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_know_tells_hosts_apart() {
        let fingerprint = HostFingerprint::parse;
        for (recorded, now, is_another) in [
            ("machine:a hardware:b", "machine:a hardware:b", false),
            ("machine:a hardware:b", "machine:c hardware:b", true),
            ("machine:a hardware:b", "machine:a hardware:c", true),
            ("instance:a", "instance:b", true),
            ("machine:a", "machine:a instance:b", false),
            ("machine:a agent:b", "machine:a agent:c", false),
            ("", "machine:a", false),
            ("nonsense", "machine:a", false),
        ] {
            assert_eq!(fingerprint(recorded).is_of_another(&fingerprint(now)), is_another, "{recorded} | {now}");
        }
        assert!(fingerprint("agent:a").has_the_agent_of(&fingerprint("machine:b agent:a")));
        assert!(!fingerprint("machine:b").has_the_agent_of(&fingerprint("machine:b")));
    }

    #[test]
    fn an_agents_id_is_a_uuid_in_a_file_of_that_name_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("host_uuid");
        let id = "11111111-2222-4333-8444-555555555555";
        for (text, wanted) in [
            (format!("{id}\n"), Some(id)),
            (id.to_owned(), Some(id)),
            (String::new(), None),
            ("root:$6$salt$hash:19000:0:99999:7:::".to_owned(), None),
            (format!("{id}&group=other"), None),
            (id.replace('-', ""), None),
            (format!("{{{}}}", &id[..34]), None),
        ] {
            durable::write(&file, text.as_bytes(), 0o600).unwrap();
            assert_eq!(agent_uuid(dir.path()).unwrap().as_deref(), wanted, "{text}");
        }
        durable::write(&dir.path().join("another"), id.as_bytes(), 0o600).unwrap();
        durable::symlink(Path::new("another"), &file).unwrap();
        assert!(agent_uuid(&dir.path().join("x".repeat(300))).is_err(), "what cannot be read is not absent");
        assert_eq!(agent_uuid(dir.path()).unwrap(), None, "a link is not followed");
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_keeps_what_is_no_longer_known() {
        let fingerprint = HostFingerprint::of_this_host(Some("11111111-2222-4333-8444-555555555555"));
        assert_eq!(HostFingerprint::parse(&fingerprint.to_string()), fingerprint);
        assert!(
            !fingerprint.is_of_another(&HostFingerprint::of_this_host(None))
                && !fingerprint.to_string().contains("4333")
        );
        let both = HostFingerprint::parse("agent:a machine:b").refreshed(&HostFingerprint::parse("agent:c hardware:d"));
        assert_eq!(both.to_string(), "agent:c hardware:d machine:b");
    }
}
