//! Who may use the admin socket.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The group that the server's package makes (FLEET §1).
const USUAL: &str = "teleport-fleet";

/// The name of the group whose members may use the socket; the usual one where it cannot be seen, or is root's.
pub(super) fn of(socket: &Path) -> String {
    let directory = socket.parent().unwrap_or(socket);
    let gid = fs::metadata(socket).or_else(|_| fs::metadata(directory)).map_or(0, |meta| meta.gid());
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    name(&groups, gid).unwrap_or_else(|| if gid == 0 { USUAL.to_owned() } else { gid.to_string() })
}

/// Looks in the text of `/etc/group`.
fn name(groups: &str, gid: u32) -> Option<String> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == gid && gid != 0).then(|| name.to_owned())
    };
    groups.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_as_the_system_names_it() {
        let groups = "root:x:0:\nadm:x:4:syslog\nteleport-fleet:x:998:\nbroken\n";
        assert_eq!(name(groups, 998).as_deref(), Some("teleport-fleet"));
        assert_eq!(name(groups, 4).as_deref(), Some("adm"));
        assert_eq!(name(groups, 0), None);
        assert_eq!(name(groups, 77), None);
    }
}
