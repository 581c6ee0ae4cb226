//! An ID token (OpenID Connect Core 1.0, §3.1.3.7): who somebody is, for whom, and for how long.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fleet_wire::api::Role;
use fleet_wire::text;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{Algorithm, ProviderKeys};

/// How far the provider's clock may be from ours, seconds.
pub(super) const SKEW: i64 = 60;
/// How long ago a token may have been made, seconds. Some providers count five minutes back from when it is sent.
const OLDEST: i64 = 60 * 60;
/// Longest subject, bytes (§2).
const LONGEST_SUBJECT: usize = 255;
/// Claims of §5.1: an address, and whether the provider has checked that somebody reads there.
const EMAIL: &str = "email";
const VERIFIED: &str = "email_verified";
/// Longest email address that is shown, bytes (RFC 5321).
const LONGEST_EMAIL: usize = 254;

/// A token, before anything of it is believed.
#[derive(Debug)]
pub(super) struct IdToken<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    signed: &'a str,
    signature: Vec<u8>,
}

/// What a token must say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// Seconds since 1970.
    pub(super) now: i64,
}

/// What a token that is good says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claims(Map<String, Value>);

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'a> IdToken<'a> {
    /// Reads the compact form.
    ///
    /// # Errors
    /// Why it is none that is taken: one line.
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        let (signed, signature) = text.rsplit_once('.').ok_or("the ID token has no signature")?;
        let (header, payload) = signed.split_once('.').ok_or("the ID token has no payload")?;
        if payload.contains('.') {
            return Err("the ID token has more than three parts".to_owned());
        }
        let header: TokenHeader = json(header).map_err(|error| format!("the ID token's header: {error}"))?;
        if header.crit.is_some() {
            return Err("the ID token needs an extension".to_owned());
        }
        if header.typ.is_some_and(|kind| !kind.eq_ignore_ascii_case("jwt")) {
            return Err("that is another kind of token".to_owned());
        }
        let algorithm = Algorithm::named(&header.alg);
        let algorithm = algorithm.ok_or_else(|| format!("the ID token has the algorithm {:?}", header.alg))?;
        let signature =
            URL_SAFE_NO_PAD.decode(signature).map_err(|error| format!("the ID token's signature: {error}"))?;
        Ok(Self { algorithm, key_id: header.kid, signed, signature })
    }

    /// The key that it names; empty: none.
    pub(super) fn key_id(&self) -> &str {
        self.key_id.as_deref().unwrap_or_default()
    }

    /// What it says, if it is meant for this login; inside `None`: none of `keys` has signed it.
    ///
    /// # Errors
    /// What is wrong with it: one line.
    pub(super) fn check(&self, keys: &ProviderKeys, expected: Expected<'_>) -> Result<Option<Claims>, String> {
        let key = keys.find(self.key_id.as_deref(), self.algorithm);
        if !key.is_some_and(|key| key.has_signed(self.signed.as_bytes(), &self.signature)) {
            return Ok(None);
        }
        let payload = self.signed.split_once('.').map_or("", |(_, payload)| payload);
        let claims: Map<String, Value> = json(payload).map_err(|error| format!("the ID token's claims: {error}"))?;
        check(&claims, expected).map(|()| Some(Claims(claims)))
    }
}

fn json<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, String> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

fn check(claims: &Map<String, Value>, expected: Expected<'_>) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("the ID token is of another issuer".to_owned());
    }
    let audience: Vec<Option<&str>> = match claims.get("aud") {
        Some(Value::Array(audience)) => audience.iter().map(Value::as_str).collect(),
        Some(one) => vec![one.as_str()],
        None => Vec::new(),
    };
    if !audience.contains(&Some(expected.client_id)) {
        return Err("the ID token is for another client".to_owned());
    }
    // Among several, the one that it was made for must be named.
    let is_for_us = text("azp") == Some(expected.client_id);
    if !is_for_us && (audience.len() > 1 || claims.contains_key("azp")) {
        return Err("the ID token was made for another client".to_owned());
    }
    let time =
        |name: &str| claims.get(name).map(|value| seconds(value).ok_or(format!("the ID token's {name} is no time")));
    let needed = |name: &str| time(name).unwrap_or_else(|| Err(format!("the ID token has no {name}")));
    let now = expected.now;
    if needed("exp")? <= now - SKEW {
        return Err("the ID token has expired".to_owned());
    }
    let made = needed("iat")?;
    if made > now + SKEW || time("nbf").transpose()?.is_some_and(|from| from > now + SKEW) {
        return Err("the ID token is of the future: one of the two clocks is wrong".to_owned());
    }
    if made < now - OLDEST {
        return Err("the ID token is old".to_owned());
    }
    if text("nonce") != Some(expected.nonce) {
        return Err("the ID token is of another login".to_owned());
    }
    if text("sub").is_none_or(|subject| subject.is_empty() || subject.len() > LONGEST_SUBJECT) {
        return Err("the ID token names nobody".to_owned());
    }
    Ok(())
}

/// Whole seconds of a time, which may have a fraction (RFC 7519 §2).
fn seconds(value: &Value) -> Option<i64> {
    /// Beyond it seconds are not exact; nor do years have more than four digits there.
    const MOST: f64 = 253_402_300_800.0;
    let time = value.as_f64().filter(|time| (0.0..MOST).contains(time))?;
    #[allow(clippy::cast_possible_truncation, reason = "it is in the range of whole numbers")]
    Some(time as i64)
}

impl Claims {
    /// `oidc SUBJECT (EMAIL)`, as audit log and pages name who it is. The address is left out where the provider says anything
    /// else of it than that it was checked: some write `"false"`, a text.
    pub(super) fn who(&self) -> String {
        let text = |name: &str| self.0.get(name).and_then(Value::as_str);
        let subject = text::clean(text("sub").unwrap_or_default());
        let is_address = |email: &&str| {
            let is_odd = |char: char| char.is_whitespace() || matches!(char, '(' | ')');
            !email.is_empty() && email.len() <= LONGEST_EMAIL && !email.contains(is_odd)
        };
        let is_checked = self.0.get(VERIFIED).is_none_or(|checked| *checked == Value::Bool(true));
        match text(EMAIL).filter(is_address).filter(|_| is_checked) {
            Some(email) => format!("oidc {subject} ({})", text::clean(email)),
            None => format!("oidc {subject}"),
        }
    }

    /// Whether they do not tell what somebody may do by `claim`.
    pub(super) fn lack(&self, claim: &str) -> bool {
        let lacks = |name: &str| !self.0.contains_key(name);
        lacks(claim) || claim == EMAIL && lacks(VERIFIED)
    }

    /// Takes `claim` and the email address from what userinfo says (OpenID Connect Core 1.0, §5.3): many providers tell groups there
    /// alone.
    ///
    /// # Errors
    /// It is of somebody else (§5.3.2).
    pub(super) fn add(&mut self, mut userinfo: Map<String, Value>, claim: &str) -> Result<(), String> {
        if userinfo.get("sub") != self.0.get("sub") {
            return Err("userinfo is of somebody else".to_owned());
        }
        // An address and whether it is checked are of one place.
        let address = userinfo.remove(EMAIL);
        let checked = userinfo.remove(VERIFIED);
        if let Some(address) = address {
            self.0.remove(VERIFIED);
            self.0.insert(EMAIL.to_owned(), address);
            self.0.extend(checked.map(|checked| (VERIFIED.to_owned(), checked)));
        }
        if let Some(value) = userinfo.remove(claim) {
            self.0.entry(claim).or_insert(value);
        }
        Ok(())
    }

    /// The highest of `roles` that one of the values of `claim` has. An email address counts where the provider says that it is checked:
    /// else anybody could enter another's.
    ///
    /// # Errors
    /// Why there is none: one line.
    pub(super) fn role(&self, claim: &str, roles: &[(String, Role)]) -> Result<Role, String> {
        let Some(found) = self.0.get(claim) else {
            let advice = "have the provider put it there, or ask for its scope (oidc_scopes)";
            return Err(format!("neither the ID token nor userinfo has the claim {claim:?}: {advice}"));
        };
        if claim == EMAIL && self.0.get(VERIFIED) != Some(&Value::Bool(true)) {
            return Err(format!("the provider does not say that the address is checked ({VERIFIED})"));
        }
        let values = match found {
            Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        };
        let roles = roles.iter().filter(|(value, _)| values.contains(&value.as_str())).map(|(_, role)| *role);
        roles.max().ok_or_else(|| format!("no value of the claim {claim:?} is in oidc_roles"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const EXPECTED: Expected<'_> =
        Expected { issuer: "https://id.example.com", client_id: "fleet", nonce: "n", now: NOW };

    fn claims(change: &Value) -> Map<String, Value> {
        let claims = json!({
            "iss": "https://id.example.com", "sub": "1", "aud": "fleet", "exp": NOW + 300, "iat": NOW, "nonce": "n",
        });
        let mut claims = claims.as_object().unwrap().clone();
        claims.extend(change.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        claims
    }

    #[test]
    fn claims_that_a_login_may_have_are_taken() {
        for good in [
            json!({}),
            json!({"aud": ["fleet"]}),
            json!({"aud": ["other", "fleet"], "azp": "fleet"}),
            json!({"azp": "fleet"}),
            json!({"exp": NOW - SKEW + 1}),
            json!({"iat": NOW + SKEW, "nbf": NOW + SKEW}),
            json!({"iat": NOW - OLDEST}),
            json!({"iat": NOW as f64 + 0.5}),
            json!({"sub": "x".repeat(LONGEST_SUBJECT)}),
        ] {
            assert_eq!(check(&claims(&good), EXPECTED), Ok(()), "{good}");
        }
    }

    #[test]
    fn claims_of_another_login_issuer_client_or_time_are_refused() {
        for (bad, what) in [
            (json!({"iss": "https://id.example.com/"}), "another issuer"),
            (json!({"iss": ["https://id.example.com"]}), "another issuer"),
            (json!({"iss": null}), "another issuer"),
            (json!({"aud": "fleet2"}), "another client"),
            (json!({"aud": []}), "another client"),
            (json!({"aud": null}), "another client"),
            (json!({"aud": {"fleet": 1}}), "another client"),
            (json!({"aud": ["fleet", "other"]}), "made for another client"),
            (json!({"aud": ["fleet", "other"], "azp": "other"}), "made for another client"),
            (json!({"azp": "other"}), "made for another client"),
            (json!({"azp": 1}), "made for another client"),
            (json!({"exp": NOW - SKEW}), "expired"),
            (json!({"exp": null}), "no exp"),
            (json!({"exp": (NOW + 300).to_string()}), "exp is no time"),
            (json!({"exp": -1}), "exp is no time"),
            (json!({"exp": 1e300}), "exp is no time"),
            (json!({"iat": NOW + SKEW + 1}), "future"),
            (json!({"iat": NOW - OLDEST - 1}), "old"),
            (json!({"iat": null}), "no iat"),
            (json!({"nbf": NOW + SKEW + 1}), "future"),
            (json!({"nbf": "soon"}), "nbf is no time"),
            (json!({"nonce": "m"}), "another login"),
            (json!({"nonce": null}), "another login"),
            (json!({"sub": ""}), "names nobody"),
            (json!({"sub": 7}), "names nobody"),
            (json!({"sub": "x".repeat(LONGEST_SUBJECT + 1)}), "names nobody"),
        ] {
            let error = check(&claims(&bad), EXPECTED).unwrap_err();
            assert!(error.contains(what), "{bad}: {error}");
        }
    }

    #[test]
    fn a_header_that_is_not_taken_is_refused_before_a_key_is_looked_for() {
        let token = |header: Value| format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(header.to_string()));
        assert!(IdToken::read(&token(json!({"alg": "ES256", "typ": "JWT", "kid": "a"}))).is_ok());
        for (header, what) in [
            (json!({"alg": "none"}), "algorithm \"none\""),
            (json!({"alg": "HS256"}), "algorithm \"HS256\""),
            (json!({"typ": "JWT"}), "missing field `alg`"),
            (json!({"alg": "ES256", "crit": ["b64"], "b64": false}), "extension"),
            (json!({"alg": "ES256", "typ": "at+jwt"}), "another kind"),
            (json!("ES256"), "header"),
        ] {
            let error = IdToken::read(&token(header.clone())).unwrap_err();
            assert!(error.contains(what), "{header}: {error}");
        }
        let good = token(json!({"alg": "ES256"}));
        for text in [
            String::new(),
            ".".to_owned(),
            "..".to_owned(),
            good.replace(".e30", ""),
            format!("{good}.AA"),
            format!("{good}="),
        ] {
            assert!(IdToken::read(&text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_role_is_the_highest_of_the_values_that_have_one() {
        let roles = [("a", Role::Viewer), ("b", Role::Admin), ("c", Role::Operator)];
        let roles = roles.map(|(value, role)| (value.to_owned(), role));
        let role = |value: Value| Claims(claims(&json!({"groups": value}))).role("groups", &roles).ok();
        assert_eq!(role(json!(["a", "b", "x"])), Some(Role::Admin));
        assert_eq!(role(json!(["c", "a"])), Some(Role::Operator));
        assert_eq!(role(json!("a")), Some(Role::Viewer));
        for none in
            [json!("ab"), json!("A"), json!(["x", 1, null]), json!([]), json!({"a": true}), json!(null), json!(true)]
        {
            assert_eq!(role(none.clone()), None, "{none}");
        }
        let emails = [("joe@example.com".to_owned(), Role::Admin)];
        let email = |verified: Value| {
            Claims(claims(&json!({"email": "joe@example.com", "email_verified": verified}))).role("email", &emails).ok()
        };
        assert_eq!(email(json!(true)), Some(Role::Admin));
        for not in [json!(false), json!("true"), json!(1), json!(null)] {
            assert_eq!(email(not.clone()), None, "{not}");
        }
    }

    #[test]
    fn userinfo_adds_what_the_token_lacks_of_the_same_person_and_nothing_else() {
        let of = |change: Value| Claims(claims(&change));
        let info = |change: Value| change.as_object().unwrap().clone();
        assert!(of(json!({})).lack("groups") && !of(json!({"groups": []})).lack("groups"));
        assert!(of(json!({"email": "a@b"})).lack("email"));
        assert!(!of(json!({"email": "a@b", "email_verified": false})).lack("email"));
        let mut one = of(json!({"groups": ["own"], "email": "old@b", "email_verified": true}));
        one.add(info(json!({"sub": "1", "groups": ["sre"], "email": "a@b", "aud": "x", "admin": true})), "groups")
            .unwrap();
        let own = json!({"groups": ["own"], "email": "a@b"});
        assert_eq!(one, of(own), "an address of userinfo is not checked because another one was");
        let mut two = of(json!({}));
        two.add(info(json!({"sub": "1", "groups": ["sre"]})), "groups").unwrap();
        assert_eq!(two, of(json!({"groups": ["sre"]})));
        for other in [json!({"sub": "2"}), json!({"groups": ["sre"]}), json!({"sub": null}), json!({"sub": 1})] {
            assert!(of(json!({})).add(info(other.clone()), "groups").is_err(), "{other}");
        }
    }

    #[test]
    fn a_name_has_no_control_characters_and_no_address_that_nobody_checked() {
        let who = |change: Value| Claims(claims(&change)).who();
        assert_eq!(who(json!({"email": "joe@example.com"})), "oidc 1 (joe@example.com)");
        assert_eq!(who(json!({"email": "joe@example.com", "email_verified": true})), "oidc 1 (joe@example.com)");
        for not in [json!(false), json!("false"), json!("true"), json!(0), json!(1), json!([true])] {
            assert_eq!(who(json!({"email": "joe@example.com", "email_verified": not})), "oidc 1", "{not}");
        }
        let mut null = claims(&json!({"email": "joe@example.com"}));
        null.insert("email_verified".to_owned(), Value::Null);
        assert_eq!(Claims(null).who(), "oidc 1");
        assert_eq!(who(json!({"sub": "a\u{1b}[2J\n\u{202e}"})), "oidc a\\u001b[2J\\u000a\\u202e");
        assert_eq!(who(json!({"email": "a\u{7}@b"})), "oidc 1 (a\\u0007@b)");
        for odd in [json!("a) (b"), json!(""), json!(7), json!("x".repeat(LONGEST_EMAIL + 1))] {
            assert_eq!(who(json!({"email": odd})), "oidc 1");
        }
    }
}
