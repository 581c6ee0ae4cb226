//! FLEET §9: nobody new gets a version that is blocked, on whatever path he asks.

use crate::support::{rolling, start};

fn blocked(version: &str) -> String {
    format!(
        "kind: fleet_release\nversion: v1\nmetadata: {{name: v{version}}}\n\
         spec: {{version: {version}, blocked: {{reason: leaks sessions}}}}\n"
    )
}

#[test]
fn a_static_channel_whose_version_is_blocked_has_none_and_is_not_critical() {
    let (_dir, server) = start();
    let channel =
        "kind: fleet_channel\nversion: v1\nmetadata: {name: old}\nspec: {static_version: 1.2.3, critical: true}\n";
    server.create(channel);
    assert_eq!(server.get("/v1/old/version"), (200, "1.2.3\n".to_owned()));
    server.create(&blocked("1.2.3"));
    assert_eq!(server.get("/v1/old/version"), (200, "none\n".to_owned()));
    assert_eq!(server.get("/v1/old/critical"), (200, "no".to_owned()));
    server.ok(&["rm", "fleet_release/v1.2.3"]);
    assert_eq!(server.get("/v1/old/critical"), (200, "yes".to_owned()));
}

#[test]
fn the_block_of_a_start_version_is_taken_with_advice_and_new_hosts_get_none() {
    let (_dir, server) = rolling(&["dev", "prod"]);
    assert_eq!(server.get("/v1/prod/version"), (200, "1.0.0\n".to_owned()));
    let told = server.create(&blocked("1.0.0"));
    assert!(
        told.contains("spec.blocked: blocks 1.0.0, the start version of the present rollout: ")
            && told.contains("name another start_version in autoupdate_version [start_blocked]"),
        "{told}"
    );
    assert!(!server.create(&blocked("0.9.0")).contains("start_blocked"));
    server.until("new hosts are told so", || {
        let answer = server.json("/v1/webapi/find?group=prod");
        answer["agent_auto_update"] == false && answer["fleet"]["why"]["code"] == "version_blocked"
    });
    assert_eq!(server.get("/v1/prod/version"), (200, "none\n".to_owned()));
    let refused = server.cli(&["autoupdate", "agents", "rollback", "dev"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("nobody is sent back to it"), "{said}");
}
