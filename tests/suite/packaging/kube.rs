//! The Helm chart and the Kustomize base of `teleport-kube-update`.

use std::process::{Command, Stdio};

/// What the script says; `None`, and said: there is no Helm.
fn base(words: &[&str]) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/kube/base.sh");
    let output = Command::new(script).args(words).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    if said.starts_with("skipped") {
        eprint!("{said}");
        return None;
    }
    Some(said)
}

#[test]
fn helm_and_kustomize_give_the_same_objects() {
    let Some(said) = base(&["--check"]) else { return };
    assert_eq!(said, "the base is what the chart gives\n");
}

#[test]
fn the_role_follows_the_agents_of_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let values = dir.path().join("values.yaml");
    let text = "config:\n  source: https://e.com\n  agents:\n  - {name: a, write: publish}\n  - {name: b, kind: Deployment, \
                schedule: {secret: b-state, key: schedule}}\n  - {name: c}\n  - {name: d, kind: DaemonSet, schedule: \
                {config_map: d-state, key: schedule}}\nnetworkPolicy: {enabled: false}\n";
    std::fs::write(&values, text).unwrap();
    let Some(printed) = base(&["--print", "--values", values.to_str().unwrap()]) else { return };
    let role = printed.split("kind: Role\n").nth(1).unwrap().split("---").next().unwrap();
    let rule = |resources: &str, names: &str, verbs: &str| {
        format!("    resources: [{resources}]\n    resourceNames: [{names}]\n    verbs: [{verbs}]\n")
    };
    for wanted in [
        // Where the image is published the workload is not touched.
        rule("statefulsets", "a", "get"),
        rule("statefulsets", "c", "get, patch"),
        rule("deployments", "b", "get, patch"),
        rule("daemonsets", "d", "get, patch"),
        rule("configmaps", "teleport-kube-update, a-wanted", "get, patch, update"),
        rule("secrets", "teleport-kube-update", "get, patch, update"),
        rule("leases", "teleport-kube-update", "get, patch, update"),
        rule("secrets", "b-state", "get"),
        rule("configmaps", "d-state", "get"),
    ] {
        assert!(role.contains(&wanted), "{wanted} is not in {role}");
    }
    assert_eq!(role.matches("resourceNames").count(), 9, "{role}");
    assert!(printed.contains("name: a-wanted\n") && !printed.contains("NetworkPolicy"));
    // What the program writes has no data: an upgrade would reset it.
    for kind in ["ConfigMap\nmetadata:\n  name: a-wanted", "Secret", "Lease"] {
        let object = printed.split(&format!("kind: {kind}")).nth(1).unwrap().split("---").next().unwrap();
        assert!(
            object.contains("helm.sh/resource-policy: keep")
                && !object.contains("\ndata:")
                && !object.contains("\nspec:"),
            "{object}"
        );
    }
}

/// With which bytes a program's image is made is all the same to the script: the server's are tried in `oci.sh`.
#[test]
fn the_image_holds_the_program_and_its_user_alone_and_starts_it() {
    if !std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        eprintln!("skipped: this machine has no ca-certificates");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, b"\x7fELF, or so").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/oci.sh");
    let description = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/kube/package.conf");
    let binary = format!("amd64={}", program.display());
    let mut image = Command::new(script);
    image.args(["--of", description, "--version", "1.0.0", "--binary", &binary, "--out"]).arg(dir.path());
    let made = image.stdin(Stdio::null()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let unpack = "mkdir x && tar xf teleport-kube-update-1.0.0.oci.tar -C x && cd x/blobs/sha256 && \
                  for blob in *; do if gzip -t $blob 2>/dev/null; then gzip -dc $blob | tar tvf - --numeric-owner; \
                  else cat $blob; echo; fi; done";
    let listed = Command::new("bash").args(["-euc", unpack]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<_> =
        said.lines().filter(|line| line.starts_with("-")).filter_map(|line| line.split(" ./").nth(1)).collect();
    let roots = "etc/ssl/certs/ca-certificates.crt";
    let wanted = [
        "etc/group",
        "etc/passwd",
        roots,
        "usr/bin/teleport-kube-update",
        "usr/share/doc/teleport-kube-update/LICENSE",
    ];
    assert_eq!(files, wanted, "{said}");
    for part in [
        r#""User":"65532:65532""#,
        r#""Entrypoint":["/usr/bin/teleport-kube-update"],"Cmd":["run"]"#,
        r#""org.opencontainers.image.version":"1.0.0""#,
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
