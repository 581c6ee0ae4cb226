//! Selection against a plain account of it: DIRECTIVES §2, read sentence by sentence over small numbers.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

/// A version of the account: major, minor, patch, and whether it is a pre-release.
type Plain = (u64, u64, u64, bool);

fn version((major, minor, patch, pre): Plain) -> Version {
    format!("{major}.{minor}.{patch}{}", if pre { "-rc.1" } else { "" }).parse().unwrap()
}

/// Semver's order.
fn before(one: Plain, other: Plain) -> bool {
    let key = |(major, minor, patch, pre): Plain| (major, minor, patch, !pre);
    key(one) < key(other)
}

#[derive(Debug, Clone)]
struct PlainTarget {
    version: Plain,
    attributes: Vec<(&'static str, &'static str)>,
}

#[derive(Debug, Clone)]
struct PlainHost {
    version: Option<Plain>,
    arch: &'static str,
    edition: &'static str,
    installers: Vec<&'static str>,
    permits_prerelease: bool,
}

#[derive(Debug, Clone)]
struct PlainRules {
    blocked: Vec<Plain>,
    ways: Vec<PlainWay>,
}

/// Version, barrier, dead end, versions from which alone it is reached.
type PlainWay = (Plain, bool, bool, Vec<Plain>);

/// What the page says, in its order.
fn account(
    host: &PlainHost,
    targets: &[PlainTarget],
    installers: &[&str],
    rules: &PlainRules,
) -> Result<(usize, usize), &'static str> {
    let is_incompatible = |target: &PlainTarget| {
        let to = target.version;
        if let Some(from) = host.version {
            let is_outside = to.0 != from.0 && to.0 != from.0 + 1;
            let is_below = to.0 < from.0 || (to.0 == from.0 && before(to, (from.0, 0, 0, false)));
            let goes_up = before(from, to);
            let is_way = |is_it: &dyn Fn(&PlainWay) -> bool| rules.ways.iter().any(is_it);
            let is_dead = goes_up && is_way(&|way| way.2 && way.0 == from);
            let is_barred = goes_up && is_way(&|way| way.1 && before(from, way.0) && before(way.0, to));
            let of_target = rules.ways.iter().find(|way| way.0 == to).filter(|_| goes_up);
            let is_elsewhere = of_target.is_some_and(|way| !way.3.is_empty() && !way.3.contains(&from));
            if (from.3 && !host.permits_prerelease) || is_outside || is_below || is_dead || is_barred || is_elsewhere {
                return true;
            }
        }
        if rules.blocked.contains(&to) && host.version != Some(to) {
            return true;
        }
        let fips = match host.edition {
            "" => "",
            "enterprise-fips" => "yes",
            _ => "no",
        };
        let has = |name: &str| match name {
            "arch" => host.arch,
            "edition" => host.edition,
            "fips" => fips,
            _ => "",
        };
        target.attributes.iter().any(|(name, wanted)| !has(name).is_empty() && has(name) != *wanted)
    };
    let target = targets.iter().position(|target| !is_incompatible(target)).ok_or("no target")?;
    let known = if host.installers.is_empty() { vec!["update"] } else { host.installers.clone() };
    let wanted = if installers.is_empty() { &["update"][..] } else { installers };
    let acts = |name: &&str| *name == "notify" || (known.contains(name) && *name != "local-script/off");
    let installer = wanted.iter().position(acts).ok_or("no installer")?;
    Ok((target, installer))
}

fn plain() -> impl Strategy<Value = Plain> {
    (0..4_u64, 0..2_u64, 0..2_u64, prop::bool::weighted(0.2))
}

fn host() -> impl Strategy<Value = PlainHost> {
    let installers = subsequence(vec!["update", "tuf", "local-script/on", "local-script/off"], 0..=4);
    let arch = select(vec!["", "amd64", "arm64"]);
    let edition = select(vec!["", "oss", "enterprise", "enterprise-fips"]);
    (prop::option::weighted(0.9, plain()), arch, edition, installers, any::<bool>()).prop_map(
        |(version, arch, edition, installers, permits_prerelease)| PlainHost {
            version,
            arch,
            edition,
            installers,
            permits_prerelease,
        },
    )
}

fn targets() -> impl Strategy<Value = Vec<PlainTarget>> {
    let attributes =
        subsequence(vec![("arch", "amd64"), ("edition", "enterprise"), ("fips", "yes"), ("flavour", "own")], 0..=2);
    prop::collection::vec((plain(), attributes), 1..6)
        .prop_map(|all| all.into_iter().map(|(version, attributes)| PlainTarget { version, attributes }).collect())
}

fn rules() -> impl Strategy<Value = PlainRules> {
    let way = (plain(), prop::bool::weighted(0.3), prop::bool::weighted(0.2), prop::collection::vec(plain(), 0..3));
    let ways = prop::collection::btree_map(plain(), way, 0..4);
    (prop::collection::vec(plain(), 0..3), ways).prop_map(|(blocked, ways)| PlainRules {
        blocked,
        ways: ways.into_iter().map(|(version, way)| (version, way.1, way.2, way.3)).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100_000) })]

    #[test]
    fn a_host_gets_what_the_page_says(
        host in host(),
        targets in targets(),
        installers in subsequence(vec!["tuf", "local-script/off", "local-script/on", "update", "notify"], 0..=3),
        rules in rules(),
    ) {
        let group = GroupPolicy {
            targets: targets
                .iter()
                .map(|target| Target {
                    version: version(target.version),
                    attributes: target.attributes.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
                })
                .collect(),
            installers: installers.iter().map(|name| name.parse().unwrap()).collect(),
            ..GroupPolicy::default()
        };
        let script = |enabled| Script { enabled, order: InstallerOrder::default() };
        let taken = TargetRules {
            blocks: rules.blocked.iter().map(|blocked| (version(*blocked).to_string(), "why".to_owned())).collect(),
            ways: rules
                .ways
                .iter()
                .map(|(at, barrier, deadend, from)| ReleaseWay {
                    version: version(*at),
                    barrier: *barrier,
                    deadend: *deadend,
                    requires_from: from.iter().copied().map(version).collect(),
                })
                .collect(),
            scripts: [("on".to_owned(), script(true)), ("off".to_owned(), script(false))].into(),
        };
        let named = host.installers.join(",");
        let own = host.version.map(version);
        let chooser = Chooser {
            version: own.as_ref(),
            goes_to: None,
            build: Build { arch: host.arch, edition: host.edition, services: "", installers: &named },
            permits_prerelease: host.permits_prerelease,
            rules: &taken,
        };
        let choice = chooser.choose(&group);
        let expected = match account(&host, &targets, &installers, &rules) {
            Ok((target, installer)) => Choice::of(target, installer),
            Err("no target") => Choice::NO_TARGET,
            Err(_) => Choice::NO_INSTALLER,
        };
        prop_assert_eq!(choice, expected);
        // Who gets nothing is told why of each.
        match chooser.why_none(&group) {
            Why::NoTarget { targets: why } => prop_assert!(choice != Choice::NO_TARGET || why.len() == targets.len()),
            Why::NoInstaller { installers: why } => {
                prop_assert!(choice != Choice::NO_INSTALLER || why.len() == group.installers().len());
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn a_build_is_read_as_it_was_said(
        arch in "[a-z0-9]{0,8}", edition in "[a-z-]{0,16}", services in "[a-z_,]{0,30}", installers in "[a-z/,-]{0,30}",
    ) {
        let build = Build { arch: &arch, edition: &edition, services: &services, installers: &installers };
        let text = build.text();
        prop_assert_eq!(Build::read(&text), build);
    }
}

#[test]
fn what_a_host_makes_up_is_no_build() {
    let odd = Build { arch: "amd64|root", edition: "o\u{1}s", services: "auth proxy", installers: "update\n" };
    assert_eq!(odd.text(), "");
    let long = "x".repeat(MAX_PART + 1);
    assert_eq!(Build { arch: &long, ..Build::default() }.text(), "");
}
