//! A host's report as it came: signature, bounds, and texts that can be shown (FLEET §5).

use fleet_engine::fleet::{HostChange, HostReport};
use fleet_engine::host::HostId;
use fleet_engine::plain::{cleaned, is_unsafe};
use fleet_engine::selection::{BUILD, Build};
use fleet_wire::answers::ids;
use fleet_wire::api::{ApiError, Code};
use protocol::Version;
use protocol::installer::MAX_NAMED;
use protocol::report::{
    JOIN_HEADER, Key, MAX_BODY, MAX_LABEL, MAX_LABELS, MAX_NUMBER, Report, SIGNATURE_HEADER, SignedQuestion,
    SignedReport, question_message, report_message,
};
use ring::signature::{ED25519, UnparsedPublicKey};

/// Longest of a host's texts but for its error, bytes.
const MAX_TEXT: usize = 256;
/// Longest line of an error, bytes.
const MAX_ERROR: usize = 1024;
/// Most phases of a change.
const MAX_PHASES: usize = 32;

/// A report whose signature is right, and that is within all bounds.
#[derive(Debug, Clone)]
pub(crate) struct ReportBody {
    /// Whose.
    pub(crate) host: HostId,
    /// The key that signed it.
    pub(crate) key: Key,
    /// What it says.
    pub(crate) report: Report,
    /// The digest of the join token that came with it.
    pub(crate) token: Option<String>,
}

impl ReportBody {
    /// Reads a report. `header` gives the value of a header, by its name.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::BadSignature`], [`Code::BadRequest`], and what is wrong.
    pub(crate) fn read<'a>(header: impl Fn(&str) -> Option<&'a str>, body: &[u8]) -> Result<Self, ApiError> {
        if body.len() > MAX_BODY {
            return Err(ApiError::new(Code::TooLarge, format!("a report has at most {MAX_BODY} bytes")));
        }
        let forged = |what: String| ApiError::new(Code::BadSignature, what);
        let signature = header(SIGNATURE_HEADER);
        let signature = signature.ok_or_else(|| forged(format!("a report is signed: header {SIGNATURE_HEADER}")))?;
        let signed: SignedReport = signature.parse().map_err(|error| forged(format!("{SIGNATURE_HEADER}: {error}")))?;
        if !is_signed(&signed.key, &report_message(body), &signed.signature) {
            return Err(forged("the signature is not of this key and this report".to_owned()));
        }
        let bad = |what: String| ApiError::new(Code::BadRequest, format!("this is no report: {what}"));
        let mut report: Report = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        let host = checked(&mut report).map_err(bad)?;
        let token = header(JOIN_HEADER).map(crate::tokens::digest);
        Ok(Self { host, key: signed.key, report, token })
    }

    /// What the engine takes of it. `last`: of its last change, where that is news.
    pub(crate) fn for_engine(&self, is_news: bool) -> HostReport {
        let Report { group, labels, hostname, enabled, pinned, last, .. } = &self.report;
        let change = last.as_ref().filter(|_| is_news).map(|change| HostChange {
            outcome: change.outcome,
            to: plain(&change.to).to_owned(),
            code: change.code.clone(),
        });
        let mut labels = labels.clone();
        let build = self.build();
        if !build.is_empty() {
            labels.insert(BUILD.to_owned(), build);
        }
        HostReport {
            host: self.host,
            update_id: ids::uuid(&self.report.update_id).unwrap_or(0),
            group: Some(group.clone()),
            version: self.report.versions.present().map(|version| plain(version).to_owned()),
            labels: Some(labels),
            hostname: Some(hostname.clone()),
            pinned: Some(*pinned),
            disabled: Some(!enabled),
            is_by_hand: change.is_some() && last.as_ref().is_some_and(|last| last.rollout.is_none()),
            last: change,
            is_of_before: false,
        }
    }

    /// What the host says of its build, by which targets are chosen.
    fn build(&self) -> String {
        let Report { arch, edition, services, installers, .. } = &self.report;
        let (services, installers) = (services.join(","), installers.join(","));
        Build { arch, edition, services: &services, installers: &installers }.text()
    }
}

/// Whether a question is signed by its key.
pub(crate) fn is_signed_question(host: HostId, signed: &SignedQuestion) -> bool {
    let message = question_message(&ids::text(host), signed.epoch, signed.number);
    is_signed(&signed.key, &message, &signed.signature)
}

fn is_signed(key: &Key, message: &[u8], signature: &[u8]) -> bool {
    !is_weak(key) && UnparsedPublicKey::new(&ED25519, key.0).verify(message, signature).is_ok()
}

/// Whether a key is a point of small order (RFC 8032 §5.1 does not exclude them): everybody can sign for it.
fn is_weak(Key(key): &Key) -> bool {
    // The bit of the sign is none of y.
    let [first @ .., last] = *key;
    SMALL_ORDER.iter().any(|weak| weak[..31] == first && weak[31] == last & 0x7f)
}

/// The y of points of small order, little-endian, and what is the same modulo 2^255 - 19.
const SMALL_ORDER: [[u8; 32]; 7] = [
    small(0x00, 0x00, 0x00),
    small(0x01, 0x00, 0x00),
    small(0xec, 0xff, 0x7f),
    small(0xed, 0xff, 0x7f),
    small(0xee, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
];

const fn small(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    (bytes[0], bytes[31]) = (first, last);
    bytes
}

/// A version without `v`.
fn plain(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

/// Holds a report to its bounds, and makes its texts fit to be shown: no control character gets to a terminal, log or page. The
/// host's UUID; or what is wrong.
fn checked(report: &mut Report) -> Result<HostId, String> {
    let host = ids::uuid(&report.host).filter(|id| *id != 0).ok_or("host is no UUID")?;
    if !report.update_id.is_empty() && ids::uuid(&report.update_id).is_none() {
        return Err("update_id is no UUID".to_owned());
    }
    if report.epoch > MAX_NUMBER || report.sequence > MAX_NUMBER {
        return Err(format!("epoch and sequence are at most {MAX_NUMBER}"));
    }
    labels(report)?;
    let Report { hostname, versions, time, group, edition, updater, arch, os, kernel, services, installers, .. } =
        report;
    let version = [&mut versions.installed, &mut versions.running, &mut versions.previous, &mut versions.desired];
    for (name, text) in ["installed", "running", "previous", "desired"].into_iter().zip(version) {
        if !text.is_empty() && text.parse::<Version>().is_err() {
            return Err(format!("versions.{name} is no version"));
        }
    }
    for (name, list) in [("services", services), ("installers", installers)] {
        if list.len() > MAX_NAMED {
            return Err(format!("{name} has more than {MAX_NAMED} items"));
        }
        list.iter_mut().try_for_each(|text| bound(name, text, MAX_TEXT))?;
    }
    let texts = [hostname, time, group, edition, updater, arch, os, kernel];
    let names = ["hostname", "time", "group", "edition", "updater", "arch", "os", "kernel"];
    for (name, text) in names.into_iter().zip(texts) {
        bound(name, text, MAX_TEXT)?;
    }
    last(report)?;
    Ok(host)
}

fn labels(report: &mut Report) -> Result<(), String> {
    if report.labels.len() > MAX_LABELS {
        return Err(format!("a host has at most {MAX_LABELS} labels"));
    }
    let shown = std::mem::take(&mut report.labels).into_iter().map(|(mut key, mut value)| {
        bound("the key of a label", &mut key, MAX_LABEL)?;
        bound("the value of a label", &mut value, MAX_LABEL)?;
        Ok::<_, String>((key, value))
    });
    report.labels = shown.collect::<Result<_, _>>()?;
    Ok(())
}

fn last(report: &mut Report) -> Result<(), String> {
    let Some(last) = &mut report.last else { return Ok(()) };
    if last.to.parse::<Version>().is_err() {
        return Err("last.to is no version".to_owned());
    }
    if last.phases.len() > MAX_PHASES || last.phases.keys().any(|name| name.len() > MAX_TEXT) {
        return Err(format!("a change has at most {MAX_PHASES} phases"));
    }
    last.phases = std::mem::take(&mut last.phases).into_iter().map(|(name, ms)| (cleaned(&name), ms)).collect();
    bound("last.from", &mut last.from, MAX_TEXT)?;
    bound("last.at", &mut last.at, MAX_TEXT)?;
    bound("last.code", &mut last.code, MAX_TEXT)?;
    bound("last.error", &mut last.error, MAX_ERROR)
}

fn bound(name: &str, text: &mut String, most: usize) -> Result<(), String> {
    if text.len() > most {
        return Err(format!("{name} has more than {most} bytes"));
    }
    if text.contains(is_unsafe) {
        *text = cleaned(text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::report::{Outcome, Versions};
    use ring::signature::{Ed25519KeyPair, KeyPair};
    use serde_json::{Value, json};

    use super::*;

    const HOST: &str = "0d4f5b7c-9f0a-4f5e-8d0b-5f1c1f0e2a11";

    fn signed(body: &Value) -> (String, Vec<u8>) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let body = serde_json::to_vec(body).unwrap();
        let key = Key(pair.public_key().as_ref().try_into().unwrap());
        let signature = pair.sign(&report_message(&body)).as_ref().try_into().unwrap();
        (SignedReport { key, signature }.to_string(), body)
    }

    fn read(body: &Value) -> Result<ReportBody, ApiError> {
        let (signature, body) = signed(body);
        ReportBody::read(|name| (name == SIGNATURE_HEADER).then_some(signature.as_str()), &body)
    }

    fn plain_report() -> Value {
        json!({ "host": HOST, "update_id": "", "epoch": 1, "sequence": 2, "time": "2026-01-05T12:00:00Z" })
    }

    #[test]
    fn a_report_is_read_as_far_as_it_is_signed() {
        let (signature, body) = signed(&plain_report());
        let of = |header: Option<&str>, body: &[u8]| {
            ReportBody::read(|name| header.filter(|_| name == SIGNATURE_HEADER), body).map_err(|wrong| wrong.code)
        };
        assert_eq!(of(Some(&signature), &body).unwrap().report.sequence, 2);
        let mut other = body.clone();
        other.push(b' ');
        assert_eq!(of(Some(&signature), &other).unwrap_err(), Code::BadSignature);
        assert_eq!(of(None, &body).unwrap_err(), Code::BadSignature);
        assert_eq!(of(Some("v1"), &body).unwrap_err(), Code::BadSignature);
        let key_of_another = signature.replacen(&signature[3..7], "0000", 1);
        assert_eq!(of(Some(&key_of_another), &body).unwrap_err(), Code::BadSignature);
        assert_eq!(of(Some(&signature), &[b' '; MAX_BODY + 1]).unwrap_err(), Code::TooLarge);
    }

    /// With a key of order 1, 2, 4 or 8 a signature that nobody made is right for one message in as many.
    #[test]
    fn nobody_has_a_key_for_which_everybody_can_sign() {
        let verifies = |key: [u8; 32], message: &[u8]| {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(&key);
            UnparsedPublicKey::new(&ED25519, key).verify(message, &signature).is_ok()
        };
        let mut taken = 0;
        for weak in SMALL_ORDER {
            for sign in [0, 0x80] {
                let mut key = weak;
                key[31] |= sign;
                assert!(is_weak(&Key(key)));
                let is_open = (0..64_u8).any(|message| verifies(key, &[message]));
                taken += u32::from(is_open);
                assert!((0..64_u8).all(|message| !is_signed(&Key(key), &[message], &[&key[..], &[0; 32]].concat())));
            }
        }
        assert!(taken > 0, "without the check some are taken");
        assert!(!is_weak(&Key([7; 32])));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let with = |key: &str, value: Value| {
            let mut report = plain_report();
            report[key] = value;
            read(&report).map(drop).map_err(|wrong| wrong.code)
        };
        let many: serde_json::Map<_, _> = (0..65).map(|at| (at.to_string(), json!("x"))).collect();
        for (key, value) in [
            ("host", json!("")),
            ("host", json!("00000000-0000-0000-0000-000000000000")),
            ("update_id", json!("x")),
            ("epoch", json!(1_u64 << 53)),
            ("sequence", json!(-1)),
            ("labels", Value::Object(many)),
            ("labels", json!({ "x".repeat(257): "" })),
            ("labels", json!({ "x": "y".repeat(257) })),
            ("group", json!("g".repeat(257))),
            ("versions", json!({ "running": "new" })),
            ("last", json!({ "to": "1.0.0", "at": "", "outcome": "exploded" })),
            ("last", json!({ "to": "one", "at": "", "outcome": "failed" })),
        ] {
            assert_eq!(with(key, value.clone()).unwrap_err(), Code::BadRequest, "{key}: {value}");
        }
        assert!(with("labels", json!({ "x".repeat(256): "y".repeat(256) })).is_ok());
    }

    #[test]
    fn no_control_character_is_kept() {
        let mut report = plain_report();
        report["kernel"] = json!("6.1\u{1b}[31m\n");
        report["labels"] = json!({ "a\u{0}b": "c\u{7}" });
        report["last"] = json!({ "to": "v1.0.0", "at": "", "outcome": "failed", "error": "no\r\nroom" });
        let report = read(&report).unwrap().report;
        let text = serde_json::to_string(&report).unwrap();
        assert!(!text.contains("\\u00") && !text.contains("\\n") && !text.contains("\\r"), "{text}");
    }

    #[test]
    fn the_engine_is_told_what_runs_and_of_a_change_once() {
        let mut report = plain_report();
        report["versions"] = json!({ "installed": "v1.1.0", "running": "1.0.0" });
        report["last"] = json!({ "to": "v1.1.0", "at": "", "outcome": "switched" });
        let signed = read(&report).unwrap();
        let taken = signed.for_engine(true);
        assert_eq!(taken.version.as_deref(), Some("1.0.0"));
        assert_eq!(taken.disabled, Some(true), "it does not say that it is enabled");
        let last = taken.last.unwrap();
        assert_eq!((last.outcome, last.to.as_str()), (Outcome::Switched, "1.1.0"));
        assert!(signed.for_engine(false).last.is_none());
        assert_eq!(Versions { installed: "1.0.0".to_owned(), ..Versions::default() }.present(), Some("1.0.0"));
    }
}
