//! Whom an entry of a directive takes.

use std::collections::BTreeMap;

use super::fields::ResourceFields;
use super::key::KeyKind;
use super::reader::ResourceReader;
use crate::policy::Selector;
use crate::selection::BUILD;

pub(super) fn selector_at<'a>(entry: &ResourceFields<'a>, key: &str, item: &ResourceReader<'a>) -> Option<Selector> {
    let fields = entry.fields_at(key, &item.clone().needed("a selector"))?;
    let mut labels = BTreeMap::new();
    for (key, place) in fields.pairs("labels") {
        let value = place.needed("the label's value").read::<String>(&KeyKind::Text(""));
        let is_wrong = key == BUILD || (key == "*") && value.as_deref().is_some_and(|value| value != "*");
        if is_wrong {
            fields.place("labels").wrong("'*': '*' for every host, or a label and its value");
        }
        labels.extend(value.map(|value| (key.to_owned(), value)));
    }
    let services = words(&fields, "services", "a service of Teleport");
    let (group, expression) = (fields.get("group"), fields.get("expression"));
    if labels.is_empty() && services.is_empty() && group.is_none() && expression.is_none() {
        item.refuse("selects nobody: give labels, services, group or expression; '*': '*' among labels is every host");
    }
    Some(Selector { labels, services, group, expression, permit_prerelease: fields.value("permit_prerelease") })
}

/// The texts of a list, none twice.
pub(super) fn words(fields: &ResourceFields<'_>, name: &str, what: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for item in fields.items(name) {
        let Some(word) = item.clone().needed(what).name() else { continue };
        if words.iter().any(|known| known == word) {
            item.refuse("is there twice");
        }
        words.push(word.to_owned());
    }
    words
}
