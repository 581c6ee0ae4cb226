//! The keys of a mapping, of which none is ignored.

use super::dialect::PolicyDialect;
use super::fault::FaultList;
use super::key::{Key, KeyKind, KeyTable};
use super::nearest;
use super::reader::{KeyValue, ResourceReader};

/// Most unknown keys of a mapping that are told: more than all faults of a text.
const MOST: usize = 20;

/// The keys of a mapping, as its table has them.
#[derive(Debug)]
pub(super) struct ResourceFields<'a> {
    here: ResourceReader<'a>,
    table: &'static KeyTable,
    /// Which defaults count.
    column: usize,
}

impl<'a> ResourceReader<'a> {
    /// The keys of a mapping; `None` (and a fault) for something else. What is absent has no keys, and a key that the table has
    /// not is a fault.
    pub(super) fn fields(&self, table: &'static KeyTable, column: usize) -> Option<ResourceFields<'a>> {
        self.fields_and(table, column, None)
    }

    /// The same, where one more key may stand.
    pub(super) fn fields_and(
        &self,
        table: &'static KeyTable,
        column: usize,
        more: Option<&'static str>,
    ) -> Option<ResourceFields<'a>> {
        self.mapping()?;
        let known: Vec<&str> = table.keys.iter().map(|key| key.name).chain(more).collect();
        for (name, place) in self.keys().filter(|(name, _)| !known.contains(name)).take(MOST) {
            match nearest::of(name, &known) {
                Some(near) => place.refuse(format!("is not a known key; did you mean {near}?")),
                None => place.refuse(format!("is not a known key; known are {}", known.join(", "))),
            }
        }
        Some(ResourceFields { here: self.clone(), table, column })
    }

    /// `None` (and a fault) if something else than a mapping stands here.
    pub(super) fn mapping(&self) -> Option<()> {
        if self.is_there() && !self.is_mapping() {
            self.wrong("a mapping of keys and values");
            return None;
        }
        Some(())
    }
}

impl<'a> ResourceFields<'a> {
    /// Those of a mapping without any.
    pub(super) fn none(table: &'static KeyTable, column: usize, found: &'a FaultList) -> Self {
        Self { here: ResourceReader::nowhere(found), table, column }
    }

    /// Whether they are of a group in this dialect.
    pub(super) fn is_of(&self, dialect: PolicyDialect) -> bool {
        self.column == dialect.column()
    }

    fn key(&self, name: &str) -> &'static Key {
        let key = self.table.key(name);
        debug_assert!(key.is_some(), "{name} is not in the table {}", self.table.heading);
        key.unwrap_or(&self.table.keys[0])
    }

    /// A fault of the mapping.
    pub(super) fn refuse(&self, what: &str) {
        self.here.refuse(what);
    }

    /// The place of a key; a fault where it must be there and is not.
    pub(super) fn place(&self, name: &str) -> ResourceReader<'a> {
        let place = self.here.at(name);
        match self.key(name).required() {
            Some(wanted) => place.needed(wanted),
            None => place,
        }
    }

    /// The value of a key, or its default where nothing stands there, or something that is wrong.
    pub(super) fn get<T: KeyValue>(&self, name: &str) -> Option<T> {
        let key = self.key(name);
        let default = || {
            let (node, found) = (key.default_value(self.column)?, FaultList::default());
            ResourceReader::root(&node, &found).read(&key.kind)
        };
        self.place(name).read(&key.kind).or_else(default)
    }

    /// The same of a key that has a default.
    pub(super) fn value<T: KeyValue + Default>(&self, name: &str) -> T {
        self.get(name).unwrap_or_default()
    }

    /// The keys of the mapping at a key; `None` (and perhaps a fault) where there is none.
    pub(super) fn fields(&self, name: &str) -> Option<ResourceFields<'a>> {
        self.place(name).there().and_then(|place| self.fields_at(name, place))
    }

    /// The same, or those of a mapping without any.
    pub(super) fn section(&self, name: &str) -> Self {
        let table = self.key(name).kind.table().unwrap_or(self.table);
        self.fields(name).unwrap_or_else(|| Self { here: self.here.at(name), table, column: self.column })
    }

    /// What `convert` makes of the scalar at a key, or of its default.
    pub(super) fn scalar<T>(&self, name: &str, wanted: &str, convert: impl Fn(&str) -> Option<T>) -> Option<T> {
        let default = || convert(self.key(name).default_value(self.column)?.as_str()?);
        self.place(name).scalar(wanted, |text, _| convert(text)).or_else(default)
    }

    /// The keys of the mapping that stands there, as one may at the key `name` or in its list or mapping.
    pub(super) fn fields_at(&self, name: &str, place: &ResourceReader<'a>) -> Option<ResourceFields<'a>> {
        place.fields(self.key(name).kind.table()?, self.column)
    }

    /// The items of the list at a key, as many as it may have; more are a fault.
    pub(super) fn items(&self, name: &str) -> Vec<ResourceReader<'a>> {
        let KeyKind::List(nouns, most, _) = self.key(name).kind else { return Vec::new() };
        self.place(name).items_up_to(most, nouns)
    }

    /// The keys of the mapping at a key, whose keys are data, and the places of their values; too many are a fault.
    pub(super) fn pairs(&self, name: &str) -> Vec<(&'a str, ResourceReader<'a>)> {
        let KeyKind::Map(nouns, most, _) = self.key(name).kind else { return Vec::new() };
        self.place(name).pairs_up_to(most, nouns)
    }
}
