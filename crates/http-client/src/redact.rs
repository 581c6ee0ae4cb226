//! What errors and logs may show of a URL.

/// A URL as errors and logs show it: without userinfo and query.
pub fn shown(url: &str) -> String {
    redact(url.split(['?', '#']).next().unwrap_or_default())
}

/// What stands in a query and is no secret: what the update graphs of OpenShift and Fedora CoreOS are asked for.
const OPEN: [&str; 11] = [
    "arch",
    "basearch",
    "channel",
    "group",
    "id",
    "node_uuid",
    "os_version",
    "platform",
    "rollout_wariness",
    "stream",
    "version",
];

/// Whether a part of a query (`key=value`) may be shown.
pub fn is_open(part: &str) -> bool {
    OPEN.contains(&part.split('=').next().unwrap_or_default())
}

/// Text with the userinfo of every URL in it replaced, and what is in its query and may be a secret.
pub fn redact(text: &str) -> String {
    let without_userinfo = without_userinfo(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = without_userinfo.as_str();
    while let Some(start) = rest.find("://") {
        let end = rest[start..].find([' ', '"', '`']).map_or(rest.len(), |length| start + length);
        let (before, after) = (&rest[..start], &rest[end..]);
        out += before;
        let url = &rest[start..end];
        match url.split_once('?') {
            Some((bare, query)) => {
                let shown = |part| if is_open(part) { part } else { "***" };
                out += &format!("{bare}?{}", query.split('&').map(shown).collect::<Vec<_>>().join("&"));
            }
            None => out += url,
        }
        rest = after;
    }
    out + rest
}

fn without_userinfo(text: &str) -> String {
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
        let told = "cannot read https://h/g?channel=stable&token=x: status 403, nor \"https://h/?s3cret\"";
        assert_eq!(redact(told), "cannot read https://h/g?channel=stable&*** status 403, nor \"https://h/?***\"");
        assert_eq!(redact("what? a://b c?d=e"), "what? a://b c?d=e");
    }
}
