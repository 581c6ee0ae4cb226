//! What a provider says of itself (OpenID Connect Discovery 1.0).

use fleet_engine::resource;
use serde::Deserialize;

/// Where it says that: appended to the issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// A provider's addresses, and what it understands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub(super) struct Discovered {
    issuer: String,
    /// Where browsers are sent.
    pub(super) authorization_endpoint: String,
    /// Where codes become tokens.
    pub(super) token_endpoint: String,
    /// Where its keys are.
    pub(super) jwks_uri: String,
    /// Where more is told of somebody than in the ID token.
    pub(super) userinfo_endpoint: Option<String>,
    /// It names itself when it sends a browser back (RFC 9207).
    #[serde(default, rename = "authorization_response_iss_parameter_supported")]
    pub(super) names_itself: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
}

/// The address of an issuer's document.
pub(super) fn address(issuer: &str) -> String {
    format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/'))
}

impl Discovered {
    /// Reads the document of `issuer`.
    ///
    /// # Errors
    /// Why it cannot be used: one line.
    pub(super) fn read(text: &[u8], issuer: &str) -> Result<Self, String> {
        let found: Self = serde_json::from_slice(text).map_err(|error| format!("its document: {error}"))?;
        if found.issuer != issuer {
            return Err(format!("its document is of another issuer: {:?}", found.issuer));
        }
        let userinfo = found.userinfo_endpoint.iter().map(|url| ("userinfo_endpoint", url));
        let needed = [
            ("authorization_endpoint", &found.authorization_endpoint),
            ("token_endpoint", &found.token_endpoint),
            ("jwks_uri", &found.jwks_uri),
        ];
        for (name, url) in needed.into_iter().chain(userinfo) {
            resource::check_url(url).map_err(|what| format!("its {name}: {what}"))?;
            if issuer.starts_with("https:") && !url.starts_with("https:") {
                return Err(format!("its {name} is without TLS, unlike itself"));
            }
        }
        if found.code_challenge_methods_supported.as_ref().is_some_and(|methods| !has(methods, "S256")) {
            return Err("it does not understand PKCE with S256".to_owned());
        }
        let methods = found.token_endpoint_auth_methods_supported.as_ref();
        if !found.takes_basic() && !methods.is_some_and(|methods| has(methods, "client_secret_post")) {
            return Err("it takes no client secret, neither client_secret_basic nor client_secret_post".to_owned());
        }
        Ok(found)
    }

    /// The client's secret is sent as `client_secret_basic`, which it is without a list; else as `client_secret_post`.
    pub(super) fn takes_basic(&self) -> bool {
        self.token_endpoint_auth_methods_supported.as_ref().is_none_or(|methods| has(methods, "client_secret_basic"))
    }
}

fn has(methods: &[String], name: &str) -> bool {
    methods.iter().any(|method| method == name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://id.example.com/realms/a";

    fn read(change: impl Fn(&mut Value)) -> Result<Discovered, String> {
        let mut document = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example.com/auth",
            "token_endpoint": "https://id.example.com/token",
            "jwks_uri": "https://keys.example.com/",
            "subject_types_supported": ["public"],
        });
        change(&mut document);
        Discovered::read(document.to_string().as_bytes(), ISSUER)
    }

    #[test]
    fn a_document_is_read_and_what_it_does_not_say_is_the_standards_default() {
        let found = read(|_| {}).unwrap();
        assert_eq!((found.takes_basic(), found.names_itself), (true, false));
        let key = "token_endpoint_auth_methods_supported";
        assert!(!read(|document| document[key] = json!(["client_secret_post"])).unwrap().takes_basic());
        assert!(
            read(|document| document[key] = json!(["client_secret_post", "client_secret_basic"]))
                .unwrap()
                .takes_basic()
        );
        assert_eq!(address("https://a/"), "https://a/.well-known/openid-configuration");
        assert_eq!(address("https://a/b"), "https://a/b/.well-known/openid-configuration");
    }

    #[test]
    fn a_document_of_another_issuer_or_that_leads_away_from_tls_is_refused() {
        for (key, value, what) in [
            ("issuer", json!("https://id.example.com/realms/b"), "another issuer"),
            ("issuer", json!(format!("{ISSUER}/")), "another issuer"),
            ("issuer", Value::Null, "its document"),
            ("token_endpoint", json!("http://id.example.com/token"), "its token_endpoint"),
            ("token_endpoint", json!("http://127.0.0.1/token"), "without TLS"),
            ("jwks_uri", json!("file:///etc/passwd"), "its jwks_uri"),
            ("userinfo_endpoint", json!("http://id.example.com/me"), "its userinfo_endpoint"),
            ("userinfo_endpoint", json!("http://127.0.0.1/me"), "its userinfo_endpoint is without TLS"),
            ("authorization_endpoint", json!("javascript:alert(1)"), "its authorization_endpoint"),
            ("authorization_endpoint", json!("https://a/\r\nset-cookie: x"), "its authorization_endpoint"),
            ("code_challenge_methods_supported", json!(["plain"]), "PKCE"),
            ("token_endpoint_auth_methods_supported", json!(["private_key_jwt"]), "no client secret"),
        ] {
            let error = read(|document| document[key] = value.clone()).unwrap_err();
            assert!(error.contains(what), "{key} {value}: {error}");
        }
        assert!(Discovered::read(b"<html>", ISSUER).is_err());
    }
}
