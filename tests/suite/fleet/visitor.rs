//! Who looks at a rollout server over TLS: a program with a token, and somebody with a browser.

use std::io::Write;

use crate::support::*;

/// Knows where the server is, and its authority's file.
pub(super) struct Visitor {
    place: String,
    authority: PathBuf,
    token: String,
    cookie: String,
}

impl Visitor {
    /// Logs in at `place` (`localhost:PORT`) with an operator's `token`, as the page's form does.
    pub(super) fn with(place: String, authority: &Path, token: &str) -> Self {
        let mut visitor =
            Self { place, authority: authority.to_owned(), token: token.to_owned(), cookie: String::new() };
        let body = format!("token={token}&next=%2F");
        let form = "content-type: application/x-www-form-urlencoded\r\nsec-fetch-site: same-origin\r\n";
        let (head, _) = visitor.exchange("POST /login", &format!("{form}origin: https://{}\r\n", visitor.place), &body);
        assert!(head.starts_with("HTTP/1.1 303 "), "{head}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        visitor.cookie = cookie.split(';').next().unwrap().to_owned();
        visitor
    }

    /// What the API answers.
    pub(super) fn api(&self, path: &str) -> Value {
        let bearer = format!("authorization: Bearer {}\r\n", self.token);
        serde_json::from_str(&self.get(path, &bearer)).unwrap()
    }

    /// A page of the dashboard, as its reader sees it: without tags.
    pub(super) fn page(&self, path: &str) -> String {
        let html = self.get(path, &format!("cookie: {}\r\naccept: text/html\r\n", self.cookie));
        let body = html.split_once("<main").map_or("", |(_, body)| body);
        let texts = body.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text.trim());
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let (head, body) = self.exchange(&format!("GET {path}"), headers, "");
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        body
    }

    /// Head and body of an answer.
    fn exchange(&self, line: &str, headers: &str, body: &str) -> (String, String) {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-verify_return_error", "-connect", &self.place, "-CAfile"]);
        client.arg(&self.authority).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn().unwrap();
        let (place, length) = (&self.place, body.len());
        // HTTP/1.0: the answer comes in one piece.
        let head = format!("{line} HTTP/1.0\r\nhost: {place}\r\nconnection: close\r\n{headers}");
        write!(client.stdin.as_mut().unwrap(), "{head}content-length: {length}\r\n\r\n{body}").unwrap();
        let answer = Ran::of(&client.wait_with_output().unwrap()).ok().stdout;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        (head.replacen("HTTP/1.0", "HTTP/1.1", 1), body.to_owned())
    }
}
