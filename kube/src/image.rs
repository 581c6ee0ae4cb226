//! The name of an agent's image: its version, another version's, and the edition that its repository has (KUBE §2). Pure.

use protocol::{Edition, Version};
use registry::ImageReference;

/// What stands in a tag for the version.
pub const VERSION: &str = "{version}";
/// Ends of tags that say something else than the version, and are kept.
const SUFFIXES: [&str; 4] = ["-amd64", "-arm64", "-fips", "-debug"];

fn read(image: &str) -> Option<ImageReference> {
    image.parse().ok()
}

/// The version in the tag of `image`, by the template of its agent; `None`: nobody can tell.
pub fn version(image: &str, template: Option<&str>) -> Option<Version> {
    let image = read(image)?;
    let (head, tail) = template.unwrap_or(VERSION).split_once(VERSION)?;
    let tag = image.tag()?.strip_prefix(head)?.strip_suffix(tail)?;
    // A tag has no `+`.
    without_suffixes(tag, template).0.replace('_', "+").parse().ok()
}

/// A tag without the known ends, and these.
fn without_suffixes<'a>(tag: &'a str, template: Option<&str>) -> (&'a str, &'a str) {
    let mut bare = tag;
    if template.is_none() {
        while let Some(rest) = SUFFIXES.iter().find_map(|suffix| bare.strip_suffix(suffix)) {
            bare = rest;
        }
    }
    (bare, &tag[bare.len()..])
}

/// The image of `version`: the repository of `present`, or the configured one, and the same ends of the tag; no digest.
pub fn tagged(repository: Option<&str>, present: &str, template: Option<&str>, version: &Version) -> String {
    let parsed = read(present);
    let known = parsed.as_ref().and_then(ImageReference::tag).unwrap_or_default();
    let (_, suffix) = without_suffixes(known, template);
    let name = repository.map(str::to_owned).or(parsed.as_ref().map(|image| image.name().to_owned()));
    // A tag has no `+`.
    let version = version.to_string().replace('+', "_");
    let tag = template.unwrap_or(VERSION).replace(VERSION, &version);
    format!("{}:{tag}{suffix}", name.unwrap_or_default())
}

/// The last part of the repository's name.
pub fn repository_name(image: &str) -> String {
    read(image).map(|image| image.short_name().to_owned()).unwrap_or_default()
}

/// Whether both are of one repository.
pub fn is_same_repository(one: &str, other: &str) -> bool {
    matches!((read(one), read(other)), (Some(one), Some(other)) if one.name() == other.name())
}

/// `sha256:…` of an image that has a digest.
pub fn digest(image: &str) -> Option<String> {
    Some(format!("sha256:{}", read(image)?.digest()?))
}

/// Whether `present` is `wanted`, where a template of others may have left the digest out.
pub fn is_it(present: &str, wanted: &str) -> bool {
    is_same_repository(present, wanted) && is_of(present, wanted)
}

/// Whether a pod with `present` may be one of `image`: a webhook may have put another registry before it, or a digest behind it.
pub fn is_of(present: &str, image: &str) -> bool {
    let (Some(one), Some(other)) = (read(present), read(image)) else { return present == image };
    present == image
        || match (one.digest(), other.digest()) {
            (Some(one), Some(other)) => one == other,
            _ => one.tag().is_some() && one.tag() == other.tag(),
        }
}

/// The edition of an image, where its repository says so.
pub fn edition(image: &str) -> Option<Edition> {
    match words(&repository_name(image)) {
        (true, ..) => Some(Edition::EnterpriseFips),
        (_, true, _) => Some(Edition::Enterprise),
        (.., true) => Some(Edition::Oss),
        _ => None,
    }
}

/// Whether `fips`, `ent` and `teleport` stand in the name of a repository.
fn words(name: &str) -> (bool, bool, bool) {
    let has = |word: &str| name.split('-').any(|part| part == word);
    (has("fips"), has("ent"), has("teleport"))
}

/// Why an image of that repository is not of `edition`, and what to change; `None`: it may be.
pub fn edition_fault(repository: &str, present: &str, edition: Edition) -> Option<String> {
    let name = repository_name(repository);
    let (has_fips, has_ent, has_teleport) = words(&name);
    let ends_in_fips = || read(present).is_some_and(|image| image.tag().is_some_and(|tag| tag.ends_with("-fips")));
    let is_fips = has_fips || ends_in_fips();
    let (fits, wanted) = match edition {
        Edition::Oss => (!has_ent && !is_fips, "without -ent and -fips"),
        // A mirror may call it what it likes.
        Edition::Enterprise => (!is_fips && (has_ent || !has_teleport), "with -ent and without -fips"),
        Edition::EnterpriseFips => (is_fips, "with -fips"),
    };
    (!fits).then(|| {
        format!("the source wants the edition {edition}, which the repository {name:?} does not have; set image: to one {wanted}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    #[test]
    fn a_version_is_read_from_a_tag_and_put_into_one() {
        let two: Version = "2.0.0".parse().unwrap();
        for (present, template, own, next) in [
            ("r.io/t/teleport:1.0.0", None, Some("1.0.0"), "r.io/t/teleport:2.0.0"),
            ("r.io:5000/t:1.0.0-amd64", None, Some("1.0.0"), "r.io:5000/t:2.0.0-amd64"),
            ("r.io/t:1.0.0-fips-debug", None, Some("1.0.0"), "r.io/t:2.0.0-fips-debug"),
            ("r.io/t:1.0.0-rc.1", None, Some("1.0.0-rc.1"), "r.io/t:2.0.0"),
            ("r.io/t:1.0.0_ab.1", None, Some("1.0.0+ab.1"), "r.io/t:2.0.0"),
            ("r.io/t:latest", None, None, "r.io/t:2.0.0"),
            ("r.io/t", None, None, "r.io/t:2.0.0"),
            ("r.io/t:teleport-1.0.0", Some("teleport-{version}"), Some("1.0.0"), "r.io/t:teleport-2.0.0"),
            ("r.io/t:1.0.0-x", Some("{version}-x"), Some("1.0.0"), "r.io/t:2.0.0-x"),
        ] {
            assert_eq!(version(present, template).map(|it| it.to_string()).as_deref(), own, "{present}");
            assert_eq!(tagged(None, present, template, &two), next, "{present}");
        }
        assert_eq!(tagged(Some("m.io/a"), "r.io/t:1.0.0-arm64", None, &two), "m.io/a:2.0.0-arm64");
        let pinned = format!("r.io/t:1.0.0@{DIGEST}");
        assert_eq!(version(&pinned, None).unwrap().to_string(), "1.0.0");
        assert_eq!(
            (tagged(None, &pinned, None, &two), digest(&pinned).as_deref()),
            ("r.io/t:2.0.0".into(), Some(DIGEST))
        );
    }

    #[test]
    fn an_image_without_its_digest_is_the_same_and_another_one_is_not() {
        let full = format!("r.io/t:1.0.0@{DIGEST}");
        assert!(is_it("r.io/t:1.0.0", &full) && is_it(&full, &full) && is_it(&format!("r.io/t@{DIGEST}"), &full));
        let other = full.replace("aaaa", "bbbb");
        for wrong in ["r.io/t:1.0.1", "r.io/u:1.0.0", "r.io/t", "", &other] {
            assert!(!is_it(wrong, &full), "{wrong}");
        }
    }

    #[test]
    fn a_pod_of_another_registry_is_of_the_image_and_one_of_other_bytes_is_not() {
        let full = format!("r.io/t:1.0.0@{DIGEST}");
        for same in [&full, "m.io/r.io/t:1.0.0", &full.replace("r.io", "m.io"), &format!("m.io/t@{DIGEST}")] {
            assert!(is_of(same, &full), "{same}");
        }
        for other in ["r.io/t:1.0.1", "r.io/t", "", &full.replace("aaaa", "bbbb")] {
            assert!(!is_of(other, &full), "{other}");
        }
    }

    #[test]
    fn an_edition_fits_its_repository() {
        use Edition::{Enterprise, EnterpriseFips, Oss};
        for (repository, fits) in [
            ("r.io/teleport-distroless:1.0.0", &[Oss][..]),
            ("r.io/teleport-ent-distroless:1.0.0", &[Enterprise]),
            ("r.io/teleport-ent-fips-distroless:1.0.0", &[EnterpriseFips]),
            ("r.io/teleport-ent:1.0.0-fips", &[EnterpriseFips]),
            ("r.io/mirror/agent:1.0.0", &[Oss, Enterprise]),
        ] {
            for edition in [Oss, Enterprise, EnterpriseFips] {
                let fault = edition_fault(repository, repository, edition);
                assert_eq!(fault.is_none(), fits.contains(&edition), "{repository} {edition}: {fault:?}");
            }
        }
    }
}
