use super::super::{Channel, ChannelSource, Resource};
use super::{faults, one};

fn text(name: &str, spec: &str) -> String {
    format!("kind: fleet_channel\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

fn channel(name: &str, spec: &str) -> (String, Channel) {
    match one(&text(name, spec)) {
        Resource::Channel(object) => (object.metadata.name, object.model),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_channel_has_exactly_one_source() {
    let version = Channel { source: ChannelSource::Static(Some("17.2.1".parse().unwrap())), critical: false };
    assert_eq!(channel("stable/cloud", "static_version: v17.2.1"), ("stable/cloud".to_owned(), version));
    let forward = Channel { source: ChannelSource::Forward("https://a.b/v1/stable".to_owned()), critical: true };
    assert_eq!(channel("a", "forward_url: \"https://a.b/v1/stable\", critical: yes").1, forward);
    assert_eq!(channel("a", "group: prod, critical: false").1.source, ChannelSource::Group("prod".to_owned()));
    let wanted = "line 3: spec: needs exactly one of static_version, forward_url and group";
    for spec in ["", "critical: true", "group: a, static_version: 1.0.0", "group: a, forward_url: \"https://a.b\""] {
        assert_eq!(faults(&text("a", spec)), wanted);
    }
}

#[test]
fn a_channel_s_keys_are_checked() {
    assert_eq!(
        faults(&text("a", "static_version: latest")),
        "line 3: spec.static_version: latest is not a version such as 17.2.1"
    );
    assert_eq!(
        faults(&text("a", "forward_url: \"http://a.b\"")),
        "line 3: spec.forward_url: \"http://a.b\" is not an https address: http is for loopback addresses alone"
    );
    assert_eq!(faults(&text("a", "group: a, critical: maybe")), "line 3: spec.critical: maybe is not true or false");
    assert_eq!(
        faults(&text("a", "groups: a")),
        "line 3: spec.groups: is not a known key; did you mean group?\n\
        line 3: spec: needs exactly one of static_version, forward_url and group"
    );
}

#[test]
fn a_channel_s_name_is_a_path_of_plain_parts() {
    for name in ["a", "stable/cloud", "v1.2_x-y/z", "default", &"x".repeat(128)] {
        assert_eq!(channel(name, "group: a").0, name);
    }
    for name in ["/a", "a/", "a//b", "a/../b", ".", "a b", "ä", "a%2fb", &"x".repeat(129)] {
        assert!(faults(&text(&format!("\"{name}\""), "group: a")).contains("is not a channel: "), "{name}");
    }
}
