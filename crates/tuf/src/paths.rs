//! Which delegated role may speak of a file (specification §4.5).

use error::Result;
use ring::digest;
use serde_json::Value;

use super::json::Fields;
use super::keys::RoleKeys;
use super::roles::{ROLES, file_name, invalid};

/// Most bits of the digest that choose one of succinct roles (specification: 1 to 32).
const MAX_BITS: u64 = 32;

/// Most bytes of the name of a delegated role's file: a version and a temporary's prefix have room beside it.
const MAX_NAME: usize = 205;

/// A role that may speak of the file.
pub(super) struct Delegated {
    pub(super) name: String,
    pub(super) keys: RoleKeys,
    /// After it nobody else is asked.
    pub(super) is_terminating: bool,
}

/// The roles of `delegations` that may speak of `path`, in their order; `None`: all, of succinct ones as many as `most`.
///
/// Errors: `tuf_invalid` for delegations that are none, whatever the path is.
pub(super) fn delegated(delegations: Fields<'_>, path: Option<&str>, most: u64) -> Result<Vec<Delegated>> {
    let keys = delegations.object("keys")?;
    let digest = digest::digest(&digest::SHA256, path.unwrap_or_default().as_bytes());
    let hexadecimal = base16ct::lower::encode_string(digest.as_ref());
    let refused = |what: &str| Err(invalid(delegations.role, what));
    if delegations.map.contains_key("succinct_roles") {
        if delegations.map.contains_key("roles") {
            return refused("delegations have both roles and succinct_roles");
        }
        let role = delegations.object("succinct_roles")?;
        let bits = role.number("bit_length", 1)?;
        if bits > MAX_BITS {
            return refused("bit_length is above 32");
        }
        let (head, digits) = (u64::from_str_radix(&hexadecimal[..8], 16).unwrap_or_default(), bits.div_ceil(4));
        let (bin, width) = (head >> (MAX_BITS - bits), usize::try_from(digits).unwrap_or(8));
        let bins = if path.is_some() { bin..bin + 1 } else { 0..(1 << bits).min(most) };
        let prefix = role.text("name_prefix")?;
        let of_bin = |bin| {
            let name = usable(delegations, &format!("{prefix}-{bin:0width$x}"))?;
            Ok(Delegated { name, keys: RoleKeys::read(keys, role)?, is_terminating: false })
        };
        return bins.map(of_bin).collect();
    }
    let mut found = Vec::new();
    for role in delegations.array("roles")? {
        let role = Fields::of(delegations.role, "a delegated role", Some(role))?;
        let name = usable(delegations, role.text("name")?)?;
        let is_terminating = role.bool("terminating")?;
        let keys = RoleKeys::read(keys, role)?;
        let speaks = match (role.map.get("paths"), role.map.get("path_hash_prefixes")) {
            (Some(Value::Array(_)), None) => {
                role.texts("paths")?.iter().any(|pattern| path.is_none_or(|path| fits(pattern, path)))
            }
            (None, Some(Value::Array(_))) => role
                .texts("path_hash_prefixes")?
                .iter()
                .any(|prefix| path.is_none() || hexadecimal.starts_with(*prefix)),
            _ => return refused(&format!("the role {name:?} has no paths, or two kinds of them")),
        };
        if speaks {
            found.push(Delegated { name, keys, is_terminating });
        }
    }
    Ok(found)
}

/// Errors: `tuf_invalid` for the name of a top-level role, none, or one that no file can have.
fn usable(delegations: Fields<'_>, name: &str) -> Result<String> {
    if name.is_empty() || file_name(name, None).len() > MAX_NAME || ROLES.contains(&name) {
        return Err(invalid(delegations.role, &format!("a delegated role cannot have the name {name:?}")));
    }
    Ok(name.to_owned())
}

/// Whether the shell's pattern fits: `*` and `?` stand for letters within one part of a path.
fn fits(pattern: &str, path: &str) -> bool {
    let (patterns, parts) = (pattern.split('/'), path.split('/'));
    patterns.clone().count() == parts.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| part_fits(pattern.as_bytes(), part.as_bytes()))
}

/// In as many steps as pattern and part have letters, multiplied: a pattern is the repository's.
fn part_fits(pattern: &[u8], part: &[u8]) -> bool {
    let (mut at, mut letter) = (0, 0);
    // Where the last star stands, and up to which letter it reaches.
    let mut star = None;
    while letter < part.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, letter));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || part.get(letter) == Some(wanted) => {
                at += 1;
                letter += 1;
            }
            _ => {
                let Some((begin, reached)) = star else { return false };
                star = Some((begin, reached + 1));
                (at, letter) = (begin + 1, reached + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_its_part() {
        for (pattern, path, is) in [
            ("*", "a", true),
            ("*", "a/b", false),
            ("a/*", "a/b.tar.gz", true),
            ("a/*.gz", "a/b.tar.gz", true),
            ("a/*.gz", "a/b.tar.xz", false),
            ("*/b", "a/b", true),
            ("teleport-v17.?.*-linux-*-bin.tar.gz", "teleport-v17.1.2-linux-amd64-bin.tar.gz", true),
            ("teleport-v17.?.*-linux-*-bin.tar.gz", "teleport-v17.12.2-linux-amd64-bin.tar.gz", false),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("", "", true),
            ("**a", "ba", true),
            ("a*", "", false),
        ] {
            assert_eq!(fits(pattern, path), is, "{pattern} {path}");
        }
        // No pattern takes for ever.
        assert!(!fits(&"*a".repeat(500), &"a".repeat(400)));
    }
}
