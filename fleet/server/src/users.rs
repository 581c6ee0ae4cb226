//! Names of the host's users, for the audit.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// `uid 0 (root)`; without the name where the host's list does not have it.
pub(crate) fn name(uid: u32) -> String {
    let found = File::open("/etc/passwd").ok().and_then(|list| find(list, |_, number| number == uid));
    found.map_or_else(|| format!("uid {uid}"), |(name, _)| format!("uid {uid} ({name})"))
}

/// The number of the group called `name`, if this host has it.
pub(crate) fn group(name: &str) -> Option<u32> {
    find(File::open("/etc/group").ok()?, |known, _| known == name).map(|(_, number)| number)
}

/// Name and number of the first entry of a list of users or groups that `is_it`; what is no entry is passed over.
fn find(list: impl Read, is_it: impl Fn(&str, u32) -> bool) -> Option<(String, u32)> {
    BufReader::new(list).lines().map_while(Result::ok).find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        is_it(name, number).then(|| (name.to_owned(), number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_his_number_and_lines_that_are_none_are_passed_over() {
        let list = "root:x:0:0:root:/root:/bin/sh\n# none\n\nbroken:x\njoe:x:1000:1000::/home/joe:/bin/sh\n";
        let of = |uid| find(list.as_bytes(), |_, number| number == uid).map(|(name, _)| name);
        assert_eq!(of(1000).as_deref(), Some("joe"));
        assert_eq!(of(0).as_deref(), Some("root"));
        assert_eq!(of(7), None);
    }
}
