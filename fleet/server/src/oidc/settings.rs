//! The settings `oidc_…`, checked, and what `doctor` says of them.

use std::path::PathBuf;

use fleet_cli::args::Serve;
use fleet_engine::resource;
use fleet_store::Finding;
use fleet_wire::api::Role;
use yaml::Node;

use crate::{secret_file, tokens};

/// Asked for by default: a provider need not know others than `openid`, and these all know.
const SCOPES: &str = "openid email";
/// The claim that says what somebody may do.
const CLAIM: &str = "groups";
/// Where the provider leads browsers back to.
pub(crate) const CALLBACK: &str = "/login/oidc/callback";

/// A provider, and what its people may do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "such a program refuses to start with it"))]
pub(crate) struct Oidc {
    /// As the provider writes it in its tokens.
    pub(crate) issuer: String,
    /// What this server is called there.
    pub(crate) client_id: String,
    /// What it proves that with; read again at each login.
    pub(crate) client_secret_file: PathBuf,
    /// What is asked for, `openid` among it.
    pub(crate) scopes: String,
    /// The claim that [`Self::roles`] are about.
    pub(crate) claim: String,
    /// Values of the claim.
    pub(crate) roles: Vec<(String, Role)>,
    /// Where browsers come back to.
    pub(crate) redirect_uri: String,
}

impl Oidc {
    /// Of what says who people are and what they may do.
    pub(crate) fn digest(&self) -> String {
        tokens::digest(&format!("{:?}", (&self.issuer, &self.client_id, &self.claim, &self.roles)))
    }
}

/// Whether any of the settings is written.
pub(crate) fn is_said(serve: &Serve) -> bool {
    let Serve { oidc_issuer, oidc_client_id, oidc_scopes, oidc_claim, oidc_roles, .. } = serve;
    let texts = [oidc_issuer, oidc_client_id, oidc_scopes, oidc_claim];
    texts.into_iter().any(Option::is_some) || serve.oidc_client_secret_file.is_some() || oidc_roles.is_some()
}

/// What `--oidc-roles` was given: `VALUE=ROLE` each.
///
/// # Errors
/// Which of them is none.
pub(crate) fn roles(given: &[String]) -> Result<Vec<(String, Role)>, String> {
    let role = |pair: &String| {
        let (value, name) = pair.rsplit_once('=').ok_or_else(|| format!("{pair:?} is not VALUE=ROLE"))?;
        Ok((value.to_owned(), named(name)?))
    };
    given.iter().map(role).collect()
}

/// The same of the mapping of the key `oidc_roles` of the configuration: a claim's values to roles.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn pairs(value: &Node) -> Result<Vec<String>, String> {
    let pairs = value.pairs().ok_or("not a mapping of values to roles, such as {platform: operator}")?;
    let pair = |(value, role): &(Node, Node)| {
        let value = value.as_str().ok_or("a value is not a text")?;
        Ok(format!("{value}={}", named(role.as_str().unwrap_or_default())?))
    };
    pairs.iter().map(pair).collect()
}

fn named(role: &str) -> Result<Role, String> {
    // A controller is a program, with a token.
    Role::named(role)
        .filter(|role| *role >= Role::Viewer)
        .ok_or_else(|| format!("{role:?} is not viewer, operator or admin"))
}

impl Oidc {
    /// Of what is written; `None`: nothing is. `is_secure`: browsers reach the server by TLS.
    ///
    /// # Errors
    /// One line: what is missing or wrong.
    pub(crate) fn of(written: &Serve, is_secure: bool) -> Result<Option<Self>, String> {
        if !is_said(written) {
            return Ok(None);
        }
        if !cfg!(feature = "oidc") {
            return Err("oidc_issuer and its like: this program was built without the feature oidc".to_owned());
        }
        let needs = |what: &str| format!("login by OpenID Connect needs {what}");
        let issuer = written.oidc_issuer.clone().ok_or_else(|| needs("oidc_issuer"))?;
        resource::check_url(&issuer).map_err(|what| format!("oidc_issuer: {what}"))?;
        if issuer.contains('?') {
            return Err("oidc_issuer: it has a query".to_owned());
        }
        let client_id =
            written.oidc_client_id.clone().filter(|id| !id.is_empty()).ok_or_else(|| needs("oidc_client_id"))?;
        let client_secret_file =
            written.oidc_client_secret_file.clone().ok_or_else(|| needs("oidc_client_secret_file"))?;
        let given = written.oidc_roles.as_deref().filter(|given| !given.is_empty());
        let roles = roles(given.ok_or_else(|| needs("oidc_roles: without them nobody is let in"))?)?;
        if roles.iter().any(|(value, _)| value.is_empty()) {
            return Err("oidc_roles: an empty value".to_owned());
        }
        let addr = written.public_addr.as_ref();
        let public_addr = addr.ok_or_else(|| needs("public_addr: the provider leads browsers back to it"))?;
        let scheme = if is_secure { "https" } else { "http" };
        let redirect_uri = format!("{scheme}://{public_addr}{CALLBACK}");
        resource::check_url(&redirect_uri).map_err(|what| format!("public_addr, for {redirect_uri}: {what}"))?;
        let scopes = with_openid(written.oidc_scopes.as_deref().unwrap_or(SCOPES))?;
        let claim = written.oidc_claim.clone().filter(|claim| !claim.is_empty()).unwrap_or_else(|| CLAIM.to_owned());
        Ok(Some(Self { issuer, client_id, client_secret_file, scopes, claim, roles, redirect_uri }))
    }

    /// Host and port of the issuer, for people.
    #[cfg(feature = "oidc")]
    pub(crate) fn host(&self) -> &str {
        let rest = self.issuer.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// Scopes are printable words without quotes and backslashes (RFC 6749 §3.3).
fn with_openid(scopes: &str) -> Result<String, String> {
    let is_good = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let mut words: Vec<&str> = scopes.split_whitespace().collect();
    if let Some(word) = words.iter().find(|word| !word.bytes().all(is_good)) {
        return Err(format!("oidc_scopes: {word:?} is no scope"));
    }
    if !words.contains(&"openid") {
        words.insert(0, "openid");
    }
    Ok(words.join(" "))
}

/// Whether the file of the client secret has one for a server that runs as `user`.
///
/// # Errors
/// What is wrong with it, against which [`ADVICE`] helps.
fn secret(oidc: &Oidc, user: u32) -> Result<(), String> {
    match secret_file::read(&oidc.client_secret_file, user) {
        Ok(secret) if secret.is_empty() => Err("the file oidc_client_secret_file is empty".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("nobody can log in by {}: {error}", oidc.issuer)),
    }
}

/// Refuses a file of the client secret that cannot be used: that is told at the start, not at the first login.
///
/// # Errors
/// What is wrong with it, and what helps: one line.
#[cfg(feature = "oidc")]
pub(crate) fn check_secret(oidc: &Oidc) -> Result<(), String> {
    secret(oidc, rustix::process::geteuid().as_raw()).map_err(|what| format!("{what}: {ADVICE}"))
}

/// Whether people can log in to a server that runs as `user`, as far as can be seen without asking the provider.
pub(crate) fn doctor(oidc: &Oidc, user: u32) -> Finding {
    let Oidc { issuer, redirect_uri, .. } = oidc;
    let good = || format!("people log in by {issuer} (not asked), which leads them back to {redirect_uri}");
    match secret(oidc, user) {
        Ok(()) => Finding::ok(good()),
        Err(what) => Finding::problem(what, ADVICE),
    }
}

/// What helps against a bad secret file.
const ADVICE: &str =
    "write the client secret of the provider into it, as the only line, mode 0600, and give it to the server's user";

#[cfg(test)]
#[cfg(feature = "oidc")]
mod tests {
    use super::*;

    fn written() -> Serve {
        Serve {
            oidc_issuer: Some("https://id.example.com:8443/realms/a".to_owned()),
            oidc_client_id: Some("fleet".to_owned()),
            oidc_client_secret_file: Some("/s".into()),
            oidc_roles: Some(vec!["sre=operator".to_owned(), "a=b=admin".to_owned()]),
            ..Serve::default()
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_and_nothing_at_all_is_no_provider() {
        let at = |written: Serve, addr: Option<&str>| Serve { public_addr: addr.map(str::to_owned), ..written };
        let of = |written, addr| Oidc::of(&at(written, addr), true);
        assert_eq!(of(Serve::default(), None), Ok(None));
        let good = of(written(), Some("fleet.example.com")).unwrap().unwrap();
        assert_eq!(good.redirect_uri, "https://fleet.example.com/login/oidc/callback");
        assert_eq!(good.roles, [("sre".to_owned(), Role::Operator), ("a=b".to_owned(), Role::Admin)]);
        assert_eq!((good.claim.as_str(), good.scopes.as_str(), good.host()), ("groups", SCOPES, "id.example.com:8443"));
        let with = |change: fn(&mut Serve)| {
            let mut written = written();
            change(&mut written);
            of(written, Some("fleet.example.com")).unwrap_err()
        };
        for (error, what) in [
            (of(written(), None).unwrap_err(), "needs public_addr"),
            (of(written(), Some("fleet example")).unwrap_err(), "public_addr"),
            (Oidc::of(&at(written(), Some("fleet.example.com")), false).unwrap_err(), "http is for loopback"),
            (with(|written| written.oidc_issuer = None), "needs oidc_issuer"),
            (with(|written| written.oidc_issuer = Some("http://id.example.com".to_owned())), "http is for loopback"),
            (with(|written| written.oidc_issuer = Some("https://id.example.com/?a".to_owned())), "a query"),
            (with(|written| written.oidc_client_id = Some(String::new())), "needs oidc_client_id"),
            (with(|written| written.oidc_client_secret_file = None), "needs oidc_client_secret_file"),
            (with(|written| written.oidc_roles = None), "needs oidc_roles"),
            (with(|written| written.oidc_roles = Some(vec!["=admin".to_owned()])), "an empty value"),
            (with(|written| written.oidc_scopes = Some("a\"b".to_owned())), "is no scope"),
        ] {
            assert!(error.contains(what), "{error}");
        }
        let mut others = written();
        others.oidc_scopes = Some("profile".to_owned());
        assert_eq!(of(others, Some("a")).unwrap().unwrap().scopes, "openid profile");
    }

    #[test]
    fn roles_are_given_by_a_mapping_or_by_pairs() {
        let take = |value: &str| {
            let node = Node::parse(&format!("oidc_roles: {value}")).unwrap();
            pairs(&node.pairs().unwrap()[0].1)
        };
        let taken = take("{\"cn=sre,dc=example\": operator, all: viewer}").unwrap();
        let expected = [("cn=sre,dc=example".to_owned(), Role::Operator), ("all".to_owned(), Role::Viewer)];
        assert_eq!(roles(&taken).unwrap(), expected);
        for wrong in ["sre", "[sre]", "{sre: root}", "{sre: [admin]}"] {
            assert!(take(wrong).is_err(), "{wrong}");
        }
        for wrong in ["sre", "sre=", "sre=Admin"] {
            assert!(roles(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
