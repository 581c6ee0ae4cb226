//! Archives as others read them.

use std::process::Command;

use p256::ecdsa::signature::hazmat::PrehashVerifier;
use sha2::{Digest, Sha256};
use testing::cluster::{Archive, Signer};

#[test]
fn tar_lists_what_was_described() {
    let directory = tempfile::tempdir().unwrap();
    let archive = Archive::new("15.1.1", "enterprise-fips", "amd64").updater(b"#!/bin/sh\n").helper("tsh");
    let written = archive.write_to(directory.path());
    assert!(written.path.ends_with("teleport-ent-v15.1.1-linux-amd64-fips-bin.tar.gz"));
    let listed = Command::new("tar").arg("-tzf").arg(&written.path).output().unwrap();
    assert!(listed.status.success());
    let listed = String::from_utf8(listed.stdout).unwrap();
    let described: Vec<String> = archive.listing().into_iter().map(|(path, _)| path).collect();
    assert_eq!(listed.lines().collect::<Vec<_>>(), described);
    for name in ["teleport", "tsh", "teleport-update", "examples/systemd/teleport.service"] {
        assert!(described.contains(&format!("teleport-ent/{name}")), "{name}");
    }
}

#[test]
fn the_digest_and_the_signature_fit_the_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let signer = Signer::fixed(1);
    let written = Archive::new("1.0.0", "oss", "arm64").rfd_layout().signed(&signer).write_to(directory.path());
    let digest = Sha256::digest(std::fs::read(&written.path).unwrap());
    let beside = |suffix: &str| std::fs::read_to_string(format!("{}{suffix}", written.path.display())).unwrap();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(beside(".sha256"), format!("{hex}  teleport-v1.0.0-linux-arm64-bin.tar.gz\n"));
    let der = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, beside(".sig").trim()).unwrap();
    let signature = p256::ecdsa::DerSignature::from_bytes(&der).unwrap();
    let key: p256::ecdsa::VerifyingKey = signer.public_key_pem().parse().unwrap();
    key.verify_prehash(&digest, &signature).unwrap();
}

#[test]
fn padding_makes_the_archive_as_long_as_asked() {
    let archive = Archive::new("1.0.0", "oss", "amd64");
    let plain = archive.bytes().len();
    let padded = archive.padding(2 << 20).bytes().len() - plain;
    assert!((1_900_000..2_300_000).contains(&padded), "{padded}");
}

#[test]
fn the_packed_agent_runs_and_says_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let written = Archive::simple("15.2.0").padding(1 << 20).write_to(directory.path());
    assert!(Command::new("tar").arg("-xzf").arg(&written.path).current_dir(&directory).status().unwrap().success());
    for (name, answer) in [("teleport", "Teleport v15.2.0 "), ("tsh", "Tsh v15.2.0 ")] {
        let said = Command::new(directory.path().join("teleport").join(name)).arg("version").output().unwrap();
        assert!(String::from_utf8(said.stdout).unwrap().starts_with(answer));
    }
}
