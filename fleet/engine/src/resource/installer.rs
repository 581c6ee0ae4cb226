//! `installer`: a script of hosts (DIRECTIVES §4).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use protocol::installer::{InstallerOrder, is_script_name, is_value, is_variable};

use super::fields::ResourceFields;
use super::reader::ResourceReader;
use crate::selection::{Script, attribute_of};

/// An `installer`: what the server says of a script of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallerSpec {
    /// What hosts are told.
    pub script: Script,
    /// The script, for configuration management.
    pub text: String,
}

/// Reads `spec` of an `installer`.
pub(super) fn installer(fields: &ResourceFields<'_>) -> InstallerSpec {
    let mut env = BTreeMap::new();
    for (name, place) in fields.pairs("env") {
        let Some(text) = place.clone().needed("the variable's value").any_scalar() else { continue };
        let attribute = attribute_of(text);
        if !is_variable(name) {
            place.refuse("its name is not of A-Z, 0-9 and `_`, or is one by which a shell runs something else");
        } else if text.starts_with('{') && attribute.is_none() || !text.starts_with('{') && !is_value(text) {
            place.wrong("0 to 256 of A-Z, a-z, 0-9 and `. _ -`, or {target.ATTRIBUTE}");
        }
        env.insert(name.to_owned(), text.to_owned());
    }
    let timeout: SignedDuration = fields.value("timeout");
    let order = InstallerOrder {
        kind: "local-script".to_owned(),
        name: String::new(),
        env,
        shell: fields.value("shell"),
        sha256: fields.get("sha256"),
        timeout_seconds: u32::try_from(timeout.as_secs()).unwrap_or_default(),
    };
    let text: Option<String> = fields.place("install.sh").any_scalar().map(str::to_owned);
    InstallerSpec { script: Script { enabled: fields.value("enabled"), order }, text: text.unwrap_or_default() }
}

/// The name of an `installer`: that of the host's file.
pub(super) fn installer_name(reader: &ResourceReader<'_>) -> Option<String> {
    reader.text_that("a script's name: 1 to 64 of a-z, 0-9 and `-`", is_script_name)
}
