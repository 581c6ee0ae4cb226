//! The narrow door to HTTP.

#[cfg(doc)]
use crate::RegistryError;
use crate::Result;

/// A GET or HEAD.
#[derive(Debug, Clone, Copy)]
pub struct TransportCall<'a> {
    /// The whole URL.
    pub url: &'a str,
    /// `Accept`.
    pub accept: &'a str,
    /// `Authorization`: for this address alone.
    pub authorization: Option<&'a str>,
    /// Certificates are not checked, `http://` is allowed.
    pub is_insecure: bool,
    /// Most bytes of the body; `None`: HEAD in place of GET.
    pub most: Option<u64>,
}

/// An answer of any status.
#[derive(Debug, Clone, Default)]
pub struct TransportReply {
    /// HTTP status.
    pub status: u16,
    /// Header fields that are text.
    pub headers: Vec<(String, String)>,
    /// The body, not decoded.
    pub body: Vec<u8>,
}

impl TransportReply {
    /// The fields of this name.
    pub fn fields(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Sends requests.
pub trait Transport: Send + Sync {
    /// Sends once, to that address alone: follows no redirect and adds no credentials. Header and body together have a longest time.
    ///
    /// Errors: `registry_unreachable` without a whole answer, [`RegistryError::too_large`] for one of more than `call.most` bytes.
    fn send(&self, call: &TransportCall<'_>) -> Result<TransportReply>;
}
