//! `WWW-Authenticate`: what a registry wants to see (RFC 9110 §11.6.1).

use std::collections::BTreeMap;

/// The parameters of the challenge of that scheme, by names in lower case. What does not fit the grammar is passed over.
pub fn challenge(field: &str, scheme: &str) -> Option<BTreeMap<String, String>> {
    let (mut found, mut is_quoted): (Option<BTreeMap<_, _>>, bool) = (None, false);
    let pieces = field.split(|char| {
        is_quoted ^= char == '"';
        char == ',' && !is_quoted
    });
    for piece in pieces.map(str::trim) {
        let (word, rest) = piece.split_once(' ').unwrap_or((piece, ""));
        let is_scheme = !word.contains('=');
        if is_scheme && found.is_some() {
            break;
        }
        if is_scheme && word.eq_ignore_ascii_case(scheme) {
            found = Some(BTreeMap::new());
        }
        let pair = if is_scheme { rest } else { piece }.split_once('=');
        if let (Some(params), Some((name, value))) = (&mut found, pair) {
            params.insert(name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned());
        }
    }
    found
}
