//! Names of the host's users, for the audit.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// `uid 0 (root)`; without the name where the host's list does not have it.
pub(crate) fn name(uid: u32) -> String {
    let known = File::open("/etc/passwd").ok().and_then(|file| find(BufReader::new(file), uid));
    known.map_or_else(|| format!("uid {uid}"), |name| format!("uid {uid} ({name})"))
}

/// The number of the group called `name`, if this host has it.
pub(crate) fn group(name: &str) -> Option<u32> {
    let lines = BufReader::new(File::open("/etc/group").ok()?).lines().map_while(Result::ok);
    lines.into_iter().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

fn find(lines: impl BufRead, uid: u32) -> Option<String> {
    lines.lines().map_while(Result::ok).find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse::<u32>().ok()? == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_his_number_and_lines_that_are_none_are_passed_over() {
        let list = "root:x:0:0:root:/root:/bin/sh\n# none\n\nbroken:x\njoe:x:1000:1000::/home/joe:/bin/sh\n";
        assert_eq!(find(list.as_bytes(), 1000).as_deref(), Some("joe"));
        assert_eq!(find(list.as_bytes(), 0).as_deref(), Some("root"));
        assert_eq!(find(list.as_bytes(), 7), None);
    }
}
