//! What errors and logs may show of a URL.

/// A URL as errors and logs show it: without userinfo and query.
pub(crate) fn shown(url: &str) -> String {
    redact(url.split(['?', '#']).next().unwrap_or_default())
}

/// Text with the userinfo of every URL in it replaced.
pub(crate) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Proxies may be given without a scheme.
    if !text.contains("://")
        && let Some((_, host)) = text.rsplit_once('@')
        && !host.contains(' ')
        && !text.contains(' ')
    {
        return format!("***@{host}");
    }
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(['/', '?', '#', ' ', '"']).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(sign) => {
                out.push_str("***");
                rest = &after[sign..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_userinfo_and_query() {
        assert_eq!(shown("https://me:pw@host/a?token=x"), "https://***@host/a");
        assert_eq!(redact("cannot reach http://u:p@h:1/ now"), "cannot reach http://***@h:1/ now");
        assert_eq!(redact("me:pw@host:3128"), "***@host:3128");
        assert_eq!(redact("https://host/a@b"), "https://host/a@b");
    }
}
