//! `updates.yaml`, names and editions, retention, usage (SPEC §1, §2, §5): the cases of `config.txt`, and what a parser of YAML must look at.

use crate::support::*;

#[test]
fn settings_are_read_kept_and_refused() {
    transcript::play("command/config.txt");
}

#[test]
fn keys_that_others_own_survive_every_rewrite_at_any_depth() {
    let image = Image::new("1.0.0");
    std::fs::create_dir_all(image.versions()).unwrap();
    let text = "# ours to keep\nversion: v1\nkind: agent_versions\nfuture_top: {a: [1, two, {three: 0123}]}\nspec:\n  future_spec: 1.10\n  \
                health:\n    newer_wait: 7s\n  future_list:\n    - name: a\n      deep: [x, y]\nstatus:\n  newer_note: \"yes\"\n";
    std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
    let survives = |after: &str| {
        let config = yaml::Node::parse(&image.config()).unwrap();
        let at = |path: &[&str]| config.at(path).and_then(|node| node.as_str()).map(str::to_owned);
        assert_eq!(at(&["spec", "future_spec"]).as_deref(), Some("1.10"), "{after}: {}", image.config());
        assert_eq!(at(&["spec", "health", "newer_wait"]).as_deref(), Some("7s"), "{after}");
        assert_eq!(at(&["status", "newer_note"]).as_deref(), Some("yes"), "{after}");
        let top = config.at(&["future_top", "a"]).and_then(|node| node.items()).unwrap();
        assert_eq!(top[2].get("three").and_then(|node| node.as_str()), Some("0123"), "{after}");
        let list = config.at(&["spec", "future_list"]).and_then(|node| node.items()).unwrap();
        assert_eq!(list[0].get("deep").and_then(|node| node.items()).map(<[_]>::len), Some(2), "{after}");
        assert!(image.config().contains("# ours to keep"), "{after}: {}", image.config());
    };
    image.enable(&[]).ok();
    survives("enable");
    image.update_to("2.0.0");
    survives("update");
    image.run(&["pin"]).ok();
    survives("pin");
    image.run(&["unpin"]).ok();
    image.run(&["rollback"]).ok();
    survives("rollback");
    image.run(&["disable"]).ok();
    survives("disable");
    assert!(image.config().contains("enabled: false"));
}
