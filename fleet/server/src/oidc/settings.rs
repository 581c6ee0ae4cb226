//! The settings `oidc_…`, checked, and what `doctor` says of them.

use std::path::PathBuf;

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

/// The settings, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OidcFile {
    pub(crate) issuer: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret_file: Option<PathBuf>,
    pub(crate) scopes: Option<String>,
    pub(crate) claim: Option<String>,
    pub(crate) roles: Option<Vec<(String, Role)>>,
}

impl OidcFile {
    /// These settings, and those of `others` where these say nothing.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            issuer: self.issuer.or(others.issuer),
            client_id: self.client_id.or(others.client_id),
            client_secret_file: self.client_secret_file.or(others.client_secret_file),
            scopes: self.scopes.or(others.scopes),
            claim: self.claim.or(others.claim),
            roles: self.roles.or(others.roles),
        }
    }

    /// Takes the mapping of the key `oidc_roles` of the configuration.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn take_mapping(&mut self, value: &Node) -> Result<(), String> {
        self.roles = Some(roles(value)?);
        Ok(())
    }

    /// Takes what `--oidc-roles` was given: `VALUE=ROLE` each.
    ///
    /// # Errors
    /// Which of them is none.
    pub(crate) fn take_roles(&mut self, given: &[String]) -> Result<(), String> {
        if given.is_empty() {
            return Ok(());
        }
        let role = |pair: &String| {
            let (value, name) = pair.rsplit_once('=').ok_or_else(|| format!("{pair:?} is not VALUE=ROLE"))?;
            Ok((value.to_owned(), named(name)?))
        };
        self.roles = Some(given.iter().map(role).collect::<Result<_, String>>()?);
        Ok(())
    }
}

/// A mapping of a claim's values to roles.
fn roles(value: &Node) -> Result<Vec<(String, Role)>, String> {
    let pairs = value.pairs().ok_or("not a mapping of values to roles, such as {platform: operator}")?;
    let role = |(value, role): &(Node, Node)| {
        let value = value.as_str().ok_or("a value is not a text")?;
        Ok((value.to_owned(), named(role.as_str().unwrap_or_default())?))
    };
    pairs.iter().map(role).collect()
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
    pub(crate) fn of(written: OidcFile, public_addr: Option<&str>, is_secure: bool) -> Result<Option<Self>, String> {
        if written == OidcFile::default() {
            return Ok(None);
        }
        if !cfg!(feature = "oidc") {
            return Err("oidc_issuer and its like: this program was built without the feature oidc".to_owned());
        }
        let needs = |what: &str| format!("login by OpenID Connect needs {what}");
        let issuer = written.issuer.ok_or_else(|| needs("oidc_issuer"))?;
        resource::check_url(&issuer).map_err(|what| format!("oidc_issuer: {what}"))?;
        if issuer.contains('?') {
            return Err("oidc_issuer: it has a query".to_owned());
        }
        let client_id = written.client_id.filter(|id| !id.is_empty()).ok_or_else(|| needs("oidc_client_id"))?;
        let client_secret_file = written.client_secret_file.ok_or_else(|| needs("oidc_client_secret_file"))?;
        let roles = written.roles.filter(|roles| !roles.is_empty());
        let roles = roles.ok_or_else(|| needs("oidc_roles: without them nobody is let in"))?;
        if roles.iter().any(|(value, _)| value.is_empty()) {
            return Err("oidc_roles: an empty value".to_owned());
        }
        let public_addr = public_addr.ok_or_else(|| needs("public_addr: the provider leads browsers back to it"))?;
        let scheme = if is_secure { "https" } else { "http" };
        let redirect_uri = format!("{scheme}://{public_addr}{CALLBACK}");
        resource::check_url(&redirect_uri).map_err(|what| format!("public_addr, for {redirect_uri}: {what}"))?;
        let scopes = with_openid(written.scopes.as_deref().unwrap_or(SCOPES))?;
        let claim = written.claim.filter(|claim| !claim.is_empty()).unwrap_or_else(|| CLAIM.to_owned());
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

    fn written() -> OidcFile {
        let mut written = OidcFile {
            issuer: Some("https://id.example.com:8443/realms/a".to_owned()),
            client_id: Some("fleet".to_owned()),
            client_secret_file: Some("/s".into()),
            ..OidcFile::default()
        };
        written.take_roles(&["sre=operator".to_owned(), "a=b=admin".to_owned()]).unwrap();
        written
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_and_nothing_at_all_is_no_provider() {
        let of = |written, addr| Oidc::of(written, addr, true);
        assert_eq!(of(OidcFile::default(), None), Ok(None));
        let good = of(written(), Some("fleet.example.com")).unwrap().unwrap();
        assert_eq!(good.redirect_uri, "https://fleet.example.com/login/oidc/callback");
        assert_eq!(good.roles, [("sre".to_owned(), Role::Operator), ("a=b".to_owned(), Role::Admin)]);
        assert_eq!((good.claim.as_str(), good.scopes.as_str(), good.host()), ("groups", SCOPES, "id.example.com:8443"));
        let with = |change: fn(&mut OidcFile)| {
            let mut written = written();
            change(&mut written);
            of(written, Some("fleet.example.com")).unwrap_err()
        };
        for (error, what) in [
            (of(written(), None).unwrap_err(), "needs public_addr"),
            (of(written(), Some("fleet example")).unwrap_err(), "public_addr"),
            (Oidc::of(written(), Some("fleet.example.com"), false).unwrap_err(), "http is for loopback"),
            (with(|written| written.issuer = None), "needs oidc_issuer"),
            (with(|written| written.issuer = Some("http://id.example.com".to_owned())), "http is for loopback"),
            (with(|written| written.issuer = Some("https://id.example.com/?a".to_owned())), "a query"),
            (with(|written| written.client_id = Some(String::new())), "needs oidc_client_id"),
            (with(|written| written.client_secret_file = None), "needs oidc_client_secret_file"),
            (with(|written| written.roles = None), "needs oidc_roles"),
            (with(|written| written.roles = Some(vec![(String::new(), Role::Admin)])), "an empty value"),
            (with(|written| written.scopes = Some("a\"b".to_owned())), "is no scope"),
        ] {
            assert!(error.contains(what), "{error}");
        }
        let mut others = written();
        others.scopes = Some("profile".to_owned());
        assert_eq!(of(others, Some("a")).unwrap().unwrap().scopes, "openid profile");
    }

    #[test]
    fn roles_are_given_by_a_mapping_or_by_pairs() {
        let mut written = OidcFile::default();
        let take = |written: &mut OidcFile, value: &str| {
            let node = Node::parse(&format!("oidc_roles: {value}")).unwrap();
            written.take_mapping(&node.pairs().unwrap()[0].1)
        };
        take(&mut written, "{\"cn=sre,dc=example\": operator, all: viewer}").unwrap();
        let expected = [("cn=sre,dc=example".to_owned(), Role::Operator), ("all".to_owned(), Role::Viewer)];
        assert_eq!(written.roles.as_deref(), Some(&expected[..]));
        for wrong in ["sre", "[sre]", "{sre: root}", "{sre: [admin]}"] {
            assert!(take(&mut OidcFile::default(), wrong).is_err(), "{wrong}");
        }
        for wrong in ["sre", "sre=", "sre=Admin"] {
            assert!(OidcFile::default().take_roles(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
