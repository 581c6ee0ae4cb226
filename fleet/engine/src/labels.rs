//! Predicates over a host's labels: `node_labels_expression` and `instance_labels_expression` of RFD 0169.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest text of an expression, bytes: room for 100 names of hosts, and little to parse for a hostile one.
const MAX_BYTES: usize = 4096;
/// Parentheses and negations within each other: the parser calls itself for each, and 32 fit on any thread's stack.
const MAX_DEPTH: u32 = 32;
/// Comparisons and functions in an expression. Each is a look-up among a host's labels; a fleet has a million hosts and
/// many groups, and so many terms still take microseconds a host.
const MAX_TERMS: u32 = 128;

/// A predicate over the labels of a host, in Teleport's predicate language as far as it is about labels:
///
/// ```text
/// expression = all *( "||" all )
/// all        = factor *( "&&" factor )
/// factor     = *"!" ( group / function ) / operand ( "==" / "!=" ) operand
/// group      = "(" expression ")"
/// function   = "exists(" label ")" / "equals(" operand "," operand ")" / "hasPrefix(" operand "," operand ")"
/// operand    = string / label / "group"
/// label      = ( "labels" / "resource.metadata.labels" ) ( "[" string "]" / "." identifier )
/// string     = a text in "…" with the escapes \" \\ \n \t, or in `…` without any
/// ```
///
/// A label that a host does not have is the empty text in a comparison; `exists` tells the two apart. `group` is the name
/// that the host declares (`teleport-update enable --group`): with `group == "prod"` a list of groups by label has members
/// by name as well. Spaces and line ends between the parts mean nothing. In JSON an expression is its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    tree: ExpressionNode,
    /// It asks for a label.
    by_label: bool,
}

/// A host as an expression sees it.
pub trait Labelled {
    /// The value of a label; `None`: it has none of this key.
    fn label(&self, key: &str) -> Option<&str>;

    /// The group that it declares; empty: none.
    fn group(&self) -> &str;
}

impl Labelled for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    fn group(&self) -> &str {
        ""
    }
}

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where: an offset in bytes.
    pub at: usize,
    /// The same in characters, from 1.
    pub character: usize,
    /// What was found and what is expected.
    pub what: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.character, self.what)
    }
}

impl std::error::Error for ExpressionError {}

impl Expression {
    /// Reads an expression of at most 4096 bytes, 128 terms and a depth of 32.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser { text, at: 0, terms: 0, by_label: false };
        if text.len() > MAX_BYTES {
            return Err(parser.fault(0, format!("the expression has {} bytes; {MAX_BYTES} are allowed", text.len())));
        }
        let tree = parser.any(0)?;
        if !parser.rest().is_empty() {
            return Err(parser.expected("`&&`, `||` or the end"));
        }
        Ok(Self { text: text.to_owned(), tree, by_label: parser.by_label })
    }

    /// True when this host is meant.
    pub fn holds(&self, host: &impl Labelled) -> bool {
        self.tree.holds(host)
    }

    /// Whether it asks for labels; else for the declared group alone, which is known of everybody who asks.
    pub fn asks_for_labels(&self) -> bool {
        self.by_label
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for Expression {
    type Error = ExpressionError;

    fn try_from(text: String) -> Result<Self, ExpressionError> {
        Self::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.text
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ExpressionNode {
    Any(Vec<ExpressionNode>),
    All(Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Equal(Operand, Operand),
    Prefix(Operand, Operand),
    Exists(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    Text(String),
    Label(String),
    Group,
}

impl ExpressionNode {
    fn holds(&self, host: &impl Labelled) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(host)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(host)),
            Self::Not(node) => !node.holds(host),
            Self::Equal(left, right) => left.value(host) == right.value(host),
            Self::Prefix(text, prefix) => text.value(host).starts_with(prefix.value(host)),
            Self::Exists(key) => host.label(key).is_some(),
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, host: &'a impl Labelled) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Label(key) => host.label(key).unwrap_or_default(),
            Self::Group => host.group(),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    terms: u32,
    by_label: bool,
}

/// What may stand where a term begins.
const TERM: &str = "a comparison such as labels[\"environment\"] == \"staging\", `!`, `(` or a function";
/// What may be compared.
const OPERAND: &str = "labels[\"…\"] or a text in double quotes";
/// What `exists` asks for.
const LABEL: &str = "labels[\"…\"]";

impl<'a> Parser<'a> {
    fn any(&mut self, depth: u32) -> Result<ExpressionNode, ExpressionError> {
        self.joined("||", ExpressionNode::Any, |parser| {
            parser.joined("&&", ExpressionNode::All, |parser| parser.factor(depth, false))
        })
    }

    fn joined(
        &mut self,
        operator: &str,
        join: fn(Vec<ExpressionNode>) -> ExpressionNode,
        next: impl Fn(&mut Self) -> Result<ExpressionNode, ExpressionError>,
    ) -> Result<ExpressionNode, ExpressionError> {
        let first = next(self)?;
        if !self.eat(operator) {
            return Ok(first);
        }
        let mut nodes = vec![first, next(self)?];
        while self.eat(operator) {
            nodes.push(next(self)?);
        }
        Ok(join(nodes))
    }

    fn factor(&mut self, depth: u32, negated: bool) -> Result<ExpressionNode, ExpressionError> {
        let is_group = self.rest().starts_with('(');
        if !is_group && !self.eat("!") {
            return self.term(negated);
        }
        if depth == MAX_DEPTH {
            let what = format!("more than {MAX_DEPTH} parentheses and negations within each other");
            return Err(self.fault(self.at, what));
        }
        if !is_group {
            return Ok(ExpressionNode::Not(Box::new(self.factor(depth + 1, true)?)));
        }
        self.need("(")?;
        let node = self.any(depth + 1)?;
        self.need(")")?;
        Ok(node)
    }

    fn term(&mut self, negated: bool) -> Result<ExpressionNode, ExpressionError> {
        let begin = self.start();
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err(self.fault(begin, format!("more than {MAX_TERMS} comparisons and functions")));
        }
        let word = self.word();
        if !word.is_empty() && self.rest().starts_with('(') {
            return self.function(begin, word);
        }
        self.at = begin;
        let left = self.operand(TERM)?;
        if negated {
            // As in Go, where it would negate the label instead of the comparison.
            let what = "found an operand after `!`; expected a function or `(`, or write `!=`";
            return Err(self.fault(begin, what.to_owned()));
        }
        let equal = self.eat("==");
        if !equal && !self.eat("!=") {
            return Err(self.expected("`==` or `!=`"));
        }
        let node = ExpressionNode::Equal(left, self.operand(OPERAND)?);
        Ok(if equal { node } else { ExpressionNode::Not(Box::new(node)) })
    }

    fn function(&mut self, begin: usize, word: &str) -> Result<ExpressionNode, ExpressionError> {
        self.need("(")?;
        let node = match word {
            "exists" => match self.operand(LABEL)? {
                Operand::Label(key) => ExpressionNode::Exists(key),
                Operand::Text(_) => return Err(self.fault(begin, format!("exists asks for a text; expected {LABEL}"))),
                Operand::Group => return Err(self.fault(begin, format!("exists asks for the group; expected {LABEL}"))),
            },
            "equals" | "hasPrefix" => {
                let left = self.operand(OPERAND)?;
                self.need(",")?;
                let right = self.operand(OPERAND)?;
                if word == "equals" { ExpressionNode::Equal(left, right) } else { ExpressionNode::Prefix(left, right) }
            }
            _ => {
                let what = "is no function over labels; expected exists, equals or hasPrefix";
                return Err(self.fault(begin, format!("`{word}` {what}")));
            }
        };
        self.need(")")?;
        Ok(node)
    }

    fn operand(&mut self, expected: &str) -> Result<Operand, ExpressionError> {
        let begin = self.start();
        let word = self.word();
        if word.is_empty() {
            return self.string(expected).map(Operand::Text);
        }
        if word == "group" {
            return Ok(Operand::Group);
        }
        self.by_label = true;
        let path = word.strip_prefix("resource.metadata.").unwrap_or(word);
        if path == "labels" {
            self.need("[")?;
            let key = self.string("a label's key in double quotes")?;
            self.need("]")?;
            return Ok(Operand::Label(key));
        }
        let Some(key) = path.strip_prefix("labels.") else {
            let what = "is no label; an expression asks for labels, as labels[\"environment\"], or for group";
            return Err(self.fault(begin, format!("`{word}` {what}")));
        };
        let is_name = !key.is_empty() && !key.contains('.') && !key.starts_with(|char: char| char.is_ascii_digit());
        if !is_name || self.text[self.at..].starts_with(['-', '/']) {
            return Err(self.fault(begin, format!("a key with other characters is written {LABEL}")));
        }
        Ok(Operand::Label(key.to_owned()))
    }

    fn string(&mut self, expected: &str) -> Result<String, ExpressionError> {
        let begin = self.start();
        let rest = self.rest();
        let Some(quote @ ('"' | '`')) = rest.chars().next() else { return Err(self.expected(expected)) };
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((offset, char)) = chars.next() {
            match char {
                _ if char == quote => {
                    self.at = begin + offset + 1;
                    return Ok(text);
                }
                '\\' if quote == '"' => text.push(match chars.next() {
                    Some((_, char @ ('"' | '\\'))) => char,
                    Some((_, 'n')) => '\n',
                    Some((_, 't')) => '\t',
                    _ => return Err(self.fault(begin + offset, r#"expected \", \\, \n or \t"#.to_owned())),
                }),
                // Go's rule; it finds a forgotten quote on its own line.
                '\n' if quote == '"' => break,
                _ => text.push(char),
            }
        }
        Err(self.fault(begin, format!("the text that begins here is not closed; expected `{quote}`")))
    }

    /// The name at this place, with its dots; empty where none begins.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '.';
        let length = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
        let word =
            if rest.starts_with(|char: char| char.is_ascii_digit() || char == '.') { "" } else { &rest[..length] };
        self.at += word.len();
        word
    }

    /// What is left after spaces, which are passed.
    fn rest(&mut self) -> &'a str {
        let left = self.text[self.at..].trim_ascii_start();
        self.at = self.text.len() - left.len();
        left
    }

    fn start(&mut self) -> usize {
        self.text.len() - self.rest().len()
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn need(&mut self, token: &str) -> Result<(), ExpressionError> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    fn expected(&mut self, expected: &str) -> ExpressionError {
        let start = self.start();
        let found = match self.rest().chars().next() {
            None => "the expression ends".to_owned(),
            Some(quote @ ('“' | '”' | '„' | '‘' | '’')) => {
                return self.fault(start, format!("found the curly quote {quote}; write straight quotes: \""));
            }
            Some('\'') => return self.fault(start, "found a single quote; write double quotes: \"".to_owned()),
            Some('"' | '`') => "found a text".to_owned(),
            Some(next) => {
                let word = self.word();
                if word.is_empty() { format!("found `{}`", next.escape_debug()) } else { format!("found `{word}`") }
            }
        };
        self.fault(start, format!("{found}; expected {expected}"))
    }

    fn fault(&self, at: usize, what: String) -> ExpressionError {
        ExpressionError { at, character: self.text[..at].chars().count() + 1, what }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holds(text: &str) -> bool {
        let labels =
            [("environment", "staging"), ("team/role", "a\"b"), ("empty", ""), ("os", "linux"), ("same", "linux")];
        let labels: BTreeMap<String, String> =
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Expression::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).holds(&labels)
    }

    #[test]
    fn comparisons_and_functions_say_which_hosts_are_meant() {
        for (text, expected) in [
            (r#"labels["environment"]=="staging""#, true),
            (r#"labels["environment"] != "staging""#, false),
            ("\n\tlabels [ `environment` ] == `staging`\r\n", true),
            (r#"labels.environment == "staging""#, true),
            (r#"resource.metadata.labels["environment"] == "Staging""#, false),
            (r#""a\"b" == labels["team/role"]"#, true),
            (r#""\\\n\t" == `\n`"#, false),
            ("\"\\\\n\" == `\\n`", true),
            (r#"labels.os == labels.same"#, true),
            (r#"equals(labels["os"], "linux")"#, true),
            (r#"!equals(labels["os"], "linux")"#, false),
            (r#"hasPrefix(labels["environment"], "stag")"#, true),
            (r#"hasPrefix("stag", labels.environment)"#, false),
        ] {
            assert_eq!(holds(text), expected, "{text}");
        }
    }

    #[test]
    fn an_absent_label_is_the_empty_text_and_does_not_exist() {
        assert!(holds(r#"labels["none"] == "" && labels["none"] != "x" && !exists(labels["none"])"#));
        assert!(holds(r#"labels["empty"] == labels["none"] && exists(labels["empty"])"#));
    }

    struct Member;

    impl Labelled for Member {
        fn label(&self, key: &str) -> Option<&str> {
            (key == "os").then_some("linux")
        }

        fn group(&self) -> &str {
            "prod"
        }
    }

    #[test]
    fn group_is_the_name_that_the_host_declares() {
        for (text, expected, asks_for_labels) in [
            (r#"group == "prod""#, true, false),
            (r#""dev" == group"#, false, false),
            (r#"!hasPrefix(group, "pr")"#, false, false),
            (r#"group == "dev" || labels.os == "linux""#, true, true),
            (r#"group == labels["group"]"#, false, true),
        ] {
            let expression = Expression::parse(text).unwrap();
            assert_eq!(expression.holds(&Member), expected, "{text}");
            assert_eq!(expression.asks_for_labels(), asks_for_labels, "{text}");
        }
        assert!(holds(r#"group == """#), "of a host that declares none");
        let fault = |text: &str| Expression::parse(text).unwrap_err().to_string();
        assert_eq!(fault("exists(group)"), "at character 1: exists asks for the group; expected labels[\"…\"]");
        assert!(fault(r#"groups == "prod""#).contains("`groups` is no label"));
    }

    #[test]
    fn negation_binds_before_and_and_and_before_or() {
        let (yes, no) = (r#"exists(labels.os)"#, r#"exists(labels.none)"#);
        for (text, expected) in [
            (format!("{yes} || {no} && {no}"), true),
            (format!("({yes} || {no}) && {no}"), false),
            (format!("{no} && {no} || {yes}"), true),
            (format!("!{no} || {yes} && {no}"), true),
            (format!("!({no} || {yes})||!!{no}"), false),
        ] {
            assert_eq!(holds(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_fault_says_where_it_is_what_was_found_and_what_is_expected() {
        let term = "expected a comparison such as labels[\"environment\"] == \"staging\", `!`, `(` or a function";
        for (text, expected) in [
            ("", format!("at character 1: the expression ends; {term}")),
            ("labels.a == `b` &&", format!("at character 19: the expression ends; {term}")),
            ("(labels.a == `b`", "at character 17: the expression ends; expected `)`".to_owned()),
            ("labels.a == `b`)", "at character 16: found `)`; expected `&&`, `||` or the end".to_owned()),
            ("labels.a = `b`", "at character 10: found `=`; expected `==` or `!=`".to_owned()),
            ("labels.a `b`", "at character 10: found a text; expected `==` or `!=`".to_owned()),
            ("`ä` ==\0", format!("at character 7: found `\\0`; expected {OPERAND}")),
            ("labels[env] == `b`", "at character 8: found `env`; expected a label's key in double quotes".to_owned()),
            ("labels[“env”] == “b”", "at character 8: found the curly quote “; write straight quotes: \"".to_owned()),
            ("labels.a == 'b'", "at character 13: found a single quote; write double quotes: \"".to_owned()),
            ("labels.a == \"b", "at character 13: the text that begins here is not closed; expected `\"`".to_owned()),
            (
                "labels.a == \"b\n\"",
                "at character 13: the text that begins here is not closed; expected `\"`".to_owned(),
            ),
            (r#"labels.a == "b\x""#, r#"at character 15: expected \", \\, \n or \t"#.to_owned()),
            ("exists(`b`)", format!("at character 1: exists asks for a text; expected {LABEL}")),
            ("equals(labels.a)", "at character 16: found `)`; expected `,`".to_owned()),
            (
                "search(`b`)",
                "at character 1: `search` is no function over labels; expected exists, equals or hasPrefix".to_owned(),
            ),
            (
                "name == `b`",
                "at character 1: `name` is no label; an expression asks for labels, as labels[\"environment\"], or for group"
                    .to_owned(),
            ),
            (
                "!labels.a == `b`",
                "at character 2: found an operand after `!`; expected a function or `(`, or write `!=`".to_owned(),
            ),
        ] {
            assert_eq!(Expression::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        for key in ["a-b", "a/b", "a.b", "1a", ""] {
            let fault = Expression::parse(&format!("labels.{key} == `c`")).unwrap_err();
            assert_eq!(fault.to_string(), format!("at character 1: a key with other characters is written {LABEL}"));
        }
        assert_eq!(Expression::parse("`ä` ==").unwrap_err().at, 7);
    }

    #[test]
    fn depth_terms_and_length_are_bounded() {
        let nested = |depth| "(".repeat(depth) + "exists(labels.a)" + &")".repeat(depth);
        let deep = "more than 32 parentheses and negations within each other";
        assert!(Expression::parse(&nested(32)).is_ok());
        for text in [nested(33), "(".repeat(4096), "!".repeat(4096), "!(".repeat(2048)] {
            assert_eq!(Expression::parse(&text).unwrap_err().what, deep);
        }
        let joined = |terms| vec!["labels.a==``"; terms].join("&&");
        assert!(Expression::parse(&joined(128)).is_ok());
        assert_eq!(Expression::parse(&joined(129)).unwrap_err().what, "more than 128 comparisons and functions");
        assert!(Expression::parse(&format!("{:4096}", "``==``")).is_ok());
        let fault = Expression::parse(&format!("{:4097}", "``==``")).unwrap_err();
        assert_eq!(fault.what, "the expression has 4097 bytes; 4096 are allowed");
    }

    proptest! {
        /// Any text, and texts made of the language's own parts.
        #[test]
        fn no_text_makes_the_parser_panic_and_what_it_reads_it_keeps(
            text in prop_oneof![
                any::<String>(),
                r#"(labels|\.a|\["k"\]|"v\\n?"|`|==|!=|!|&&|\|\||\(|\)|exists|equals|,|“| |ä){0,20}"#,
                r#"!{0,3}\(?(labels\.[a-c] ?(==|!=) ?"[ab]"|exists\(labels\["ä"\]\))( && "a" == `b`)?\)?"#,
            ],
        ) {
            match Expression::parse(&text) {
                Ok(expression) => {
                    prop_assert_eq!(expression.text(), text.as_str());
                    prop_assert_eq!(Expression::try_from(String::from(expression.clone())), Ok(expression));
                }
                Err(fault) => prop_assert!(text.is_char_boundary(fault.at), "{}", fault),
            }
        }
    }
}
