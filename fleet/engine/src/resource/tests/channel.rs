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
