//! `WWW-Authenticate`: what a registry wants to see.

/// Longest header that is read, bytes.
const MAX_HEADER: usize = 8 << 10;

/// One scheme of a `WWW-Authenticate` header with its parameters (RFC 9110 §11.6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// As written, for example `Bearer`.
    pub scheme: String,
    params: Vec<(String, String)>,
}

impl Challenge {
    /// A parameter's value, without quotes.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The challenges of one header field. What does not fit the grammar is passed over.
pub fn challenges(field: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    let mut rest = field.get(..MAX_HEADER).unwrap_or(field).trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let after = after.trim_start_matches([' ', '\t']);
        rest = match after.strip_prefix('=') {
            Some(value) => {
                let (value, after) = param_value(value.trim_start_matches([' ', '\t']));
                if let Some(last) = found.last_mut() {
                    last.params.push((token.to_owned(), value));
                }
                after
            }
            None => {
                found.push(Challenge { scheme: token.to_owned(), params: Vec::new() });
                after
            }
        };
        rest = rest.trim_start_matches([' ', '\t', ',']);
    }
    found
}

/// A token or a quoted string, and what follows it.
fn param_value(text: &str) -> (String, &str) {
    let Some(inner) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut chars) = (String::new(), inner.char_indices());
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &inner[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char => value.push(char),
        }
    }
    (value, "")
}
