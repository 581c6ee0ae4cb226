//! `WWW-Authenticate`: what a registry wants to see (RFC 9110 §11.6.1).

use std::collections::BTreeMap;

/// The parameters of a challenge, by names in lower case.
pub type Challenge = BTreeMap<String, String>;

/// The challenge of that scheme. What does not fit the grammar is passed over.
pub fn challenge(field: &str, scheme: &str) -> Option<Challenge> {
    let (mut found, mut is_quoted): (Option<Challenge>, bool) = (None, false);
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
            found = Some(Challenge::new());
        }
        let pair = if is_scheme { rest } else { piece }.split_once('=');
        if let (Some(params), Some((name, value))) = (&mut found, pair) {
            params.insert(name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(field: &str, scheme: &str) -> Option<Vec<(String, String)>> {
        challenge(field, scheme).map(|params| params.into_iter().collect())
    }

    #[test]
    fn a_challenge_is_found_among_others_with_its_own_parameters() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull,push""#;
        let expected = [
            pair("realm", "https://auth.docker.io/token"),
            pair("scope", "repository:a:pull,push"),
            pair("service", "registry.docker.io"),
        ];
        assert_eq!(found(hub, "bearer").unwrap(), expected);
        assert_eq!(found(hub, "basic"), None);
        let both = r#"Basic realm="x", BEARER Realm=https://a/t , service="a, b", Negotiate abc=="#;
        assert_eq!(found(both, "bearer").unwrap(), [pair("realm", "https://a/t"), pair("service", "a, b")]);
        assert_eq!(found(both, "basic").unwrap(), [pair("realm", "x")]);
        assert_eq!(found("Basic", "basic").unwrap(), []);
        for none in ["", ",", "realm=x", "\"Bearer\"", "BearerX realm=y"] {
            assert_eq!(found(none, "bearer"), None, "{none}");
        }
    }
}
