//! Label expressions: an expression and its negation never hold both, and parentheses change nothing.

use std::collections::BTreeMap;

use fleet_engine::labels::Expression;

use super::assert_line;

/// Any text as an expression.
pub fn fleet_labels(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let expression = match Expression::parse(text) {
        Ok(expression) => expression,
        Err(fault) => {
            assert_line(&fault.to_string());
            assert!(text.is_char_boundary(fault.at) && fault.character == text[..fault.at].chars().count() + 1);
            assert_eq!(Expression::parse(text), Err(fault));
            return;
        }
    };
    assert_eq!(expression.text(), text);
    let json = serde_json::to_string(&expression).unwrap();
    assert_eq!(serde_json::from_str::<Expression>(&json).unwrap(), expression);
    let hosts = hosts();
    let inverse = Expression::parse(&format!("!({text})")).ok();
    let twice = Expression::parse(&format!("({text})&&({text})")).ok();
    for host in &hosts {
        let holds = expression.holds(host);
        assert!(inverse.as_ref().is_none_or(|inverse| inverse.holds(host) != holds), "{text}");
        assert!(twice.as_ref().is_none_or(|twice| twice.holds(host) == holds), "{text}");
    }
    assert!(
        expression.asks_for_labels() || hosts.iter().all(|host| expression.holds(host) == expression.holds(&hosts[0]))
    );
}

fn hosts() -> Vec<BTreeMap<String, String>> {
    let labels: [&[(&str, &str)]; 4] = [
        &[],
        &[("environment", "staging"), ("os", "linux"), ("team", "a")],
        &[("environment", "production"), ("a", "b"), ("", "")],
        &[("a", ""), ("team/role", "x y"), ("os", "linux\n")],
    ];
    let host = |labels: &[(&str, &str)]| {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    labels.into_iter().map(host).collect()
}
