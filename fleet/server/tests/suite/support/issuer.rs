//! An OpenID Connect provider on loopback: discovery, keys, authorization, tokens. It does what the standards say, and can misbehave.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use serde_json::{Value, json};

use super::loopback::{Loopback, Over, Stream};

/// What the server is called here, and its secret, which must be encoded.
pub(crate) const CLIENT: (&str, &str) = ("fleet server", "a:secret+with/odd%signs");
/// Paths.
pub(crate) const DISCOVERY: &str = "/.well-known/openid-configuration";
pub(crate) const KEYS: &str = "/keys";
pub(crate) const TOKEN: &str = "/token";
/// Where more is told of who has an access token.
pub(crate) const USERINFO: &str = "/me";
/// That token.
const ACCESS: &str = "a.b-c_d~e+f/g=";

/// How a path is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum How {
    /// As the standards say.
    Well,
    /// Led to another path, which would answer well.
    Redirected,
    /// Without end.
    Huge,
    /// Not at all.
    Hanging,
    /// With this text and 200.
    Text(String),
    /// With this status.
    Status(u16),
}

/// A key of the provider.
pub(crate) enum Key {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(Box<RsaKeyPair>),
}

/// A token before it is signed.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) header: Value,
    pub(crate) claims: Value,
}

/// Makes a token of a draft and the part that is signed of it; `None`: the provider's key signs.
type Forge = Box<dyn Fn(&mut Draft, &Key) -> Option<String> + Send>;

struct State {
    /// By name; the last one signs.
    keys: Vec<(String, Key)>,
    published: Vec<String>,
    how: BTreeMap<&'static str, How>,
    asked: BTreeMap<String, u32>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    document: Value,
    claims: Value,
    userinfo: Option<Value>,
    forge: Option<Forge>,
    home: Option<SocketAddr>,
}

/// See the module.
pub(crate) struct Issuer {
    /// What it calls itself.
    pub(crate) url: String,
    shared: Arc<Shared>,
    _server: Loopback,
}

struct Shared {
    url: String,
    state: Mutex<State>,
}

impl Key {
    pub(crate) fn es256() -> Self {
        let (kind, random) = (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::Es256(EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).unwrap())
    }

    pub(crate) fn eddsa() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::EdDsa(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    /// The key of RFC 7515, appendix A.2: ring makes no new ones.
    pub(crate) fn rs256() -> Self {
        const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        const D: &str = "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ";
        const P: &str = "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc";
        const Q: &str = "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc";
        const DP: &str = "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0";
        const DQ: &str = "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU";
        const QI: &str = "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U";
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let components = signature::RsaPublicKeyComponents { n: part(N), e: vec![1, 0, 1] };
        let components = ring::rsa::KeyPairComponents {
            public_key: components,
            d: part(D),
            p: part(P),
            q: part(Q),
            dP: part(DP),
            dQ: part(DQ),
            qInv: part(QI),
        };
        Self::Rs256(Box::new(RsaKeyPair::from_components(&components).unwrap()))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }

    /// The public key's bytes.
    pub(crate) fn public(&self) -> Vec<u8> {
        match self {
            Self::Es256(key) => key.public_key().as_ref().to_vec(),
            Self::EdDsa(key) => key.public_key().as_ref().to_vec(),
            Self::Rs256(key) => key.public_key().as_ref().to_vec(),
        }
    }

    fn jwk(&self, id: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut key = match self {
            Self::Es256(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            Self::EdDsa(key) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())}),
            Self::Rs256(key) => {
                let public: signature::RsaPublicKeyComponents<Vec<u8>> = key.public().into();
                json!({"kty": "RSA", "n": encode(&public.n), "e": encode(&public.e)})
            }
        };
        key["kid"] = id.into();
        key["use"] = "sig".into();
        key
    }

    pub(crate) fn sign(&self, text: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) => key.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Self::EdDsa(key) => key.sign(text.as_bytes()).as_ref().to_vec(),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&signature::RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
        }
    }
}

impl Draft {
    /// The two parts that are signed.
    pub(crate) fn signed(&self) -> String {
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        format!("{}.{}", encode(&self.header), encode(&self.claims))
    }
}

impl Issuer {
    /// One that speaks plain HTTP, and signs with ES256.
    pub(crate) fn start() -> Self {
        Self::with(Key::es256(), "127.0.0.1", None)
    }

    /// One that signs with `key` and is called `host`, a name of loopback.
    pub(crate) fn with(key: Key, host: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let place = Loopback::place();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{host}:{}", place.1.port());
        let state = State {
            keys: vec![("first".to_owned(), key)],
            published: vec!["first".to_owned()],
            how: BTreeMap::new(),
            asked: BTreeMap::new(),
            codes: BTreeMap::new(),
            document: json!({}),
            claims: json!({"sub": "1", "email": "joe@example.com", "email_verified": true, "groups": ["all", "sre"]}),
            userinfo: None,
            forge: None,
            home: None,
        };
        let shared = Arc::new(Shared { url: url.clone(), state: Mutex::new(state) });
        let own = Arc::clone(&shared);
        let _server = Loopback::start(place, tls, move |stream, over| own.answer(stream, over));
        Self { url, shared, _server }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// From now on a path is answered so.
    pub(crate) fn answers(&self, path: &'static str, how: How) {
        self.state().how.insert(path, how);
    }

    /// How often a path was asked for.
    pub(crate) fn asked(&self, path: &str) -> u32 {
        self.state().asked.get(path).copied().unwrap_or_default()
    }

    /// Says something else of itself.
    pub(crate) fn says(&self, key: &str, value: Value) {
        self.state().document[key] = value;
    }

    /// Says something else of whoever logs in.
    pub(crate) fn claims(&self, claims: Value) {
        let mut state = self.state();
        for (key, value) in claims.as_object().unwrap() {
            state.claims[key] = value.clone();
        }
    }

    /// Tells this of whoever logs in at userinfo, which there is from now on.
    pub(crate) fn tells(&self, userinfo: Value) {
        let url = format!("{}{USERINFO}", self.url);
        self.says("userinfo_endpoint", url.into());
        self.state().userinfo = Some(userinfo);
    }

    /// From now on tokens are made so.
    pub(crate) fn forges(&self, forge: impl Fn(&mut Draft, &Key) -> Option<String> + Send + 'static) {
        self.state().forge = Some(Box::new(forge));
    }

    /// Signs with another key from now on. `is_published`: it takes the place of the others; else nobody is told.
    pub(crate) fn rotates(&self, id: &str, key: Key, is_published: bool) {
        let mut state = self.state();
        state.keys.push((id.to_owned(), key));
        if is_published {
            state.published = vec![id.to_owned()];
        }
    }

    /// Whoever is at its page is led to this address, whatever the server is called.
    #[allow(dead_code, reason = "for browsers")]
    pub(crate) fn leads_home(&self, home: SocketAddr) {
        self.state().home = Some(home);
    }

    /// Somebody logs in there with what the server sent along: a code.
    pub(crate) fn logs_in(&self, query: &BTreeMap<String, String>) -> String {
        self.shared.code(query)
    }
}

impl Shared {
    fn answer(&self, stream: &mut dyn Stream, over: &Over) {
        let Some((head, body)) = super::whole_request(stream) else { return };
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let how = {
            let mut state = self.state.lock().unwrap();
            *state.asked.entry(path.to_owned()).or_default() += 1;
            state.how.get(path).cloned().unwrap_or(How::Well)
        };
        let json = |status: u16, body: &Value| http(status, "content-type: application/json\r\n", &body.to_string());
        let answer = match (how, path.trim_start_matches("/elsewhere")) {
            (How::Redirected, path) => http(307, &format!("location: {}/elsewhere{path}\r\n", self.url), ""),
            (How::Text(text), _) => http(200, "", &text),
            (How::Status(status), _) => http(status, "", ""),
            (How::Huge, _) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").ok();
                return over.flood(stream);
            }
            (How::Hanging, _) => return over.hang(),
            (How::Well, DISCOVERY) => json(200, &self.document()),
            (How::Well, KEYS) => json(200, &self.keys()),
            (How::Well, TOKEN) => {
                let (status, answer) = self.token(&head, &pairs(&body));
                json(status, &answer)
            }
            (How::Well, USERINFO) => {
                let is_known =
                    head.lines().any(|line| line.eq_ignore_ascii_case(&format!("authorization: Bearer {ACCESS}")));
                let told = self.state.lock().unwrap().userinfo.clone().unwrap_or_default();
                if is_known { json(200, &told) } else { json(401, &json!({"error": "invalid_token"})) }
            }
            (How::Well, "/authorize") => self.page(&pairs(query)),
            (How::Well, "/enter") => self.home(&pairs(query)),
            (How::Well, _) => http(404, "", ""),
        };
        stream.write_all(answer.as_bytes()).ok();
        stream.flush().ok();
    }

    fn document(&self) -> Value {
        let url = &self.url;
        let mut document = json!({
            "issuer": url,
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}{TOKEN}"),
            "jwks_uri": format!("{url}{KEYS}"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        for (key, value) in self.state.lock().unwrap().document.as_object().unwrap() {
            document[key] = value.clone();
        }
        document
    }

    fn keys(&self) -> Value {
        let state = self.state.lock().unwrap();
        let published = state.keys.iter().filter(|(id, _)| state.published.contains(id));
        json!({ "keys": published.map(|(id, key)| key.jwk(id)).collect::<Vec<_>>() })
    }

    fn code(&self, query: &BTreeMap<String, String>) -> String {
        let code = uuid::Uuid::new_v4().to_string();
        self.state.lock().unwrap().codes.insert(code.clone(), query.clone());
        code
    }

    /// Where somebody says who he is.
    fn page(&self, query: &BTreeMap<String, String>) -> String {
        let field =
            |(name, value): (&String, &String)| format!("<input type=hidden name=\"{name}\" value=\"{value}\">");
        let fields: String = query.iter().map(field).collect();
        http(
            200,
            "content-type: text/html\r\n",
            &format!("<link rel=icon href=data:,><form action=/enter>{fields}<button>It is me</button></form>"),
        )
    }

    fn home(&self, query: &BTreeMap<String, String>) -> String {
        let (_, path) = query["redirect_uri"].split_once("://").unwrap().1.split_once('/').unwrap();
        let home = self.state.lock().unwrap().home.unwrap();
        let code = self.code(query);
        http(303, &format!("location: http://{home}/{path}?code={code}&state={}\r\n", query["state"]), "")
    }

    /// RFC 6749 §4.1.3, RFC 7636 §4.6: a code is good once, for who began.
    fn token(&self, head: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
        let mut state = self.state.lock().unwrap();
        let posted = (form.get("client_id").cloned(), form.get("client_secret").cloned());
        let client = match basic(head) {
            Some((id, secret)) => (Some(id), Some(secret)),
            None => posted,
        };
        if client != (Some(CLIENT.0.to_owned()), Some(CLIENT.1.to_owned())) {
            return (401, json!({"error": "invalid_client"}));
        }
        let Some(asked) = form.get("code").and_then(|code| state.codes.remove(code)) else {
            return (400, json!({"error": "invalid_grant"}));
        };
        let verifier = form.get("code_verifier").cloned().unwrap_or_default();
        let challenge = URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes()));
        let is_good = form["grant_type"] == "authorization_code"
            && asked["code_challenge_method"] == "S256"
            && asked["code_challenge"] == challenge
            && form.get("redirect_uri") == asked.get("redirect_uri");
        if !is_good {
            return (400, json!({"error": "invalid_grant"}));
        }
        let now = jiff::Timestamp::now().as_second();
        let (id, key) = state.keys.last().unwrap();
        let mut claims =
            json!({"iss": self.url, "aud": CLIENT.0, "nonce": asked["nonce"], "iat": now, "exp": now + 300});
        claims.as_object_mut().unwrap().extend(state.claims.as_object().unwrap().clone());
        let mut draft = Draft { header: json!({"alg": key.algorithm(), "kid": id, "typ": "JWT"}), claims };
        let forged = state.forge.as_ref().and_then(|forge| forge(&mut draft, key));
        let token = forged.unwrap_or_else(|| signed(&draft, key));
        (200, json!({"access_token": ACCESS, "token_type": "Bearer", "id_token": token}))
    }
}

/// A draft with a key's signature.
pub(crate) fn signed(draft: &Draft, key: &Key) -> String {
    let signed = draft.signed();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(&signed)))
}

/// Name and secret, each encoded as in a form before they were joined.
fn basic(head: &str) -> Option<(String, String)> {
    let line = head
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("authorization")))?;
    let text = String::from_utf8(STANDARD.decode(line.1.strip_prefix("Basic ")?).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decode = |text: &str| form_urlencoded::parse(text.as_bytes()).next().map(|(name, _)| name.into_owned());
    Some((decode(id)?, decode(secret)?))
}

/// The values of a query or a form.
pub(crate) fn pairs(text: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn http(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}
