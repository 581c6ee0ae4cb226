//! The Ansible play, as shipped in `packaging/examples`, run for real against a bed with systemd; and the mirror that images are
//! filled from.

use crate::support::package::with_repository;
use crate::support::*;

const PLAY: &str = "packaging/examples/ansible/teleport-update.yml";

// --- Ansible ---

/// ansible-core's own ssh connection, whose `ssh` program enters the bed in place of dialling.
const SSH: &str = "#!/bin/bash\nexec \"$BED_SH\" exec \"$BED_NAME\" sh -c \"${@: -1}\"\n";

/// The play on the rig's bed.
fn play(rig: &Rig, variables: &serde_json::Value) -> Ran {
    play_of(PLAY, &rig.bed, variables)
}

fn play_of(play: &str, bed: &Bed, variables: &serde_json::Value) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let ssh = dir.path().join("ssh");
    std::fs::write(&ssh, SSH).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("ansible-playbook")
        .args(["--inventory", "bed,", "--extra-vars", &variables.to_string()])
        .arg(checkout(play))
        .current_dir(dir.path())
        .env("ANSIBLE_LOCAL_TEMP", dir.path().join("temp"))
        .env("ANSIBLE_SSH_CONTROL_PATH_DIR", dir.path().join("control"))
        .env("BED_SH", checkout("tests/beds/bed.sh"))
        .env("BED_NAME", bed.name())
        .env("ANSIBLE_SSH_EXECUTABLE", &ssh)
        .env("ANSIBLE_PIPELINING", "true")
        .env("ANSIBLE_SSH_TRANSFER_METHOD", "piped")
        .env("ANSIBLE_NOCOLOR", "true")
        .output();
    Ran::of(&output.unwrap())
}

/// The number of tasks that changed something.
#[track_caller]
fn changed(ran: &Ran) -> u32 {
    assert_eq!(ran.status, 0, "{ran:#?}");
    let recap = ran.stdout.lines().find(|line| line.contains("changed=")).unwrap_or_else(|| panic!("{ran:#?}"));
    recap.split("changed=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_ansible_play_installs_a_host_and_its_second_run_changes_nothing() {
    if Command::new("ansible-playbook").arg("--version").output().is_err() {
        eprintln!("skipped: no ansible-playbook (make setup)");
        return;
    }
    let Some(deb) = deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm-cloud", "ansible") else { return };
    let roots = rig.bed.sh("cat /etc/ssl/certs/ca-certificates.crt") + rig.cluster.ca_pem();
    rig.bed.write("/etc/ssl/certs/ca-certificates.crt", roots, 0o644);
    rig.release(&Archive::simple("1.0.0"));
    with_repository(&rig.bed, &deb);
    // The bed's commands are run by root already, and it has no sudo.
    let mut variables = serde_json::json!({
        "ansible_become": false,
        "teleport_proxy": rig.cluster.addr(),
        "teleport_base_url": rig.cluster.base_url(),
        "teleport_group": "canary",
        "teleport_config": "teleport:\n  data_dir: /var/lib/teleport\n  nodename: first\n",
    });
    rig.bed.write("/etc/apt/sources.list.d/ours.list", "deb [trusted=yes] file:///srv/apt ./\n", 0o644);
    rig.bed.sh("apt-get update -q");
    let first = play(&rig, &variables);
    // Package, configuration, settings with the version, the agent's unit; and its reload, for its configuration is new.
    assert_eq!(changed(&first), 5, "{first:#?}");
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    let again = play(&rig, &variables);
    assert_eq!(changed(&again), 0, "{again:#?}");
    // A version that the cluster rolls out is none of the play's business.
    rig.update_to(&Archive::simple("1.1.0"));
    assert_eq!(changed(&play(&rig, &variables)), 0);
    // A setting is.
    variables["teleport_group"] = "".into();
    variables["teleport_config"] = "teleport:\n  data_dir: /var/lib/teleport\n  nodename: a\n".into();
    assert_eq!(changed(&play(&rig, &variables)), 3, "configuration, its reload, settings");
    assert_eq!(rig.status()["group"], serde_json::Value::Null);
    assert_eq!(rig.status()["agent_version_running"], "1.1.0");
    assert_eq!(changed(&play(&rig, &variables)), 0);
    // Without the package's repository the first task says so, and nothing is half done.
    rig.bed.sh("dpkg --purge teleport-update; rm -r /etc/apt/sources.list.d; apt-get update -q");
    let failed = play(&rig, &variables);
    assert!(failed.status != 0 && failed.stdout.contains("teleport-update"), "{failed:#?}");
    assert!(rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe").contains("/1.1.0/"));
}

#[test]
fn the_ansible_role_installs_a_server_and_keeps_its_policy() {
    if Command::new("ansible-playbook").arg("--version").output().is_err() {
        eprintln!("skipped: no ansible-playbook (make setup)");
        return;
    }
    let Some(deb) = Product::Fleet.deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm-cloud", "ansiblefleet") else { return };
    with_repository(&rig.bed, &deb);
    rig.bed.write("/etc/apt/sources.list.d/ours.list", "deb [trusted=yes] file:///srv/apt ./\n", 0o644);
    rig.bed.sh("apt-get update -q");
    let policy = tempfile::tempdir().unwrap();
    let channel =
        |name: &str| format!("kind: fleet_channel\nmetadata: {{name: {name}}}\nspec: {{static_version: 1.0.0}}\n");
    std::fs::write(policy.path().join("a.yaml"), channel("a")).unwrap();
    std::fs::write(policy.path().join("b.yaml"), channel("b")).unwrap();
    let mut variables = serde_json::json!({
        "ansible_become": false, "teleport_fleet_hosts": "all", "teleport_fleet_policy": policy.path(),
        "teleport_fleet_prune": ["fleet_channel"],
        "teleport_fleet_config": { "plain": true, "listen": "127.0.0.1:8080", "edition": "oss" },
    });
    let play = |variables: &_| play_of("packaging/fleet/examples/ansible/teleport-fleet.yml", &rig.bed, variables);
    let first = play(&variables);
    // Package, directory, settings with the restart, service, the policy's file, the policy.
    assert_eq!(changed(&first), 7, "{first:#?}");
    rig.bed.sh("teleport-fleet doctor --ready");
    assert_eq!(changed(&play(&variables)), 0);
    std::fs::remove_file(policy.path().join("b.yaml")).unwrap();
    assert_eq!(changed(&play(&variables)), 2, "the file, and the policy");
    let channels = rig.bed.sh("teleport-fleet get fleet_channel");
    assert!(channels.contains("name: a") && !channels.contains("name: b"), "{channels}");
    variables["teleport_fleet_config"]["edition"] = "enterprise".into();
    assert_eq!(changed(&play(&variables)), 2, "settings, and the restart");
}

#[test]
fn the_mirror_does_what_its_page_says() {
    transcript::play("images/mirror.txt");
}
