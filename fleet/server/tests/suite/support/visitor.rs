//! Somebody with a browser that runs no script.

use std::net::SocketAddr;

use super::{Server, exchange};

/// A browser, with the cookie that it was given.
pub(crate) struct Visitor {
    addr: SocketAddr,
    /// `fleet=…`.
    pub(crate) cookie: Option<String>,
}

/// What a page is answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The lines of the head.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// A line of the head.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The value of a hidden field of the page's forms, the first of this name.
    pub(crate) fn field(&self, name: &str) -> String {
        let mark = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.body.split_once(&mark).unwrap_or_else(|| panic!("no {name}: {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }

    /// The hidden fields of the form that is sent to `action`, the last on the page.
    pub(crate) fn form(&self, action: &str) -> Vec<(String, String)> {
        let mark = format!("action=\"{action}\"");
        let (_, form) = self.body.rsplit_once(&mark).unwrap_or_else(|| panic!("no form: {}", self.body));
        let form = form.split("</form>").next().unwrap();
        let fields = form.split("name=\"").skip(1).map(|field| {
            let (name, rest) = field.split_once("\" value=\"").unwrap();
            (name.to_owned(), rest.split('"').next().unwrap().to_owned())
        });
        fields.collect()
    }
}

impl Visitor {
    /// Who is not logged in.
    pub(crate) fn new(server: &Server) -> Self {
        Self { addr: server.addr, cookie: None }
    }

    /// Who is logged in with this token.
    pub(crate) fn with(server: &Server, token: &str) -> Self {
        let mut visitor = Self::new(server);
        let answer = visitor.login(token);
        assert_eq!(answer.status, 303, "{answer:?}");
        visitor
    }

    /// The same, who asks there.
    pub(crate) fn at(&self, addr: SocketAddr) -> Self {
        Self { addr, cookie: self.cookie.clone() }
    }

    /// Tries to log in, and keeps the cookie.
    pub(crate) fn login(&mut self, token: &str) -> Answer {
        let answer = self.post("/login", &[("token", token), ("next", "/")]);
        self.cookie = answer.header("set-cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned());
        answer
    }

    /// A GET.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "accept: text/html\r\n", "")
    }

    /// A form as a browser sends it.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_with(path, fields, "origin: http://test\r\nsec-fetch-site: same-origin\r\n")
    }

    /// The same, with other lines in its head.
    pub(crate) fn post_with(&self, path: &str, fields: &[(&str, &str)], headers: &str) -> Answer {
        let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let headers = format!("content-type: application/x-www-form-urlencoded\r\n{headers}");
        self.ask("POST", path, &headers, &body.join("&"))
    }

    /// What forms of this session carry.
    pub(crate) fn csrf(&self) -> String {
        self.get("/").field("csrf")
    }

    /// A request.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let cookie = self.cookie.as_ref().map(|cookie| format!("cookie: other=1; {cookie}\r\n")).unwrap_or_default();
        let (status, head, body) = exchange(self.addr, method, path, &format!("{cookie}{headers}"), body);
        Answer { status, head, body }
    }
}
