//! Records: mappings whose fields are listed once, for reading and for writing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use protocol::installer::Installer;
use protocol::{Edition, Revision, Version};
use yaml::Node;
use yaml::scalar::{duration_text, time_text};
use yaml::view::{View, revision_node};

use crate::report::Result;

/// What can stand in a file under a key.
pub(crate) trait Field: Sized {
    /// What stands there; `None`: nothing. Errors: `config_invalid` with the line.
    fn read(view: &View<'_>) -> Result<Option<Self>>;

    /// As it is written; `None`: it is left out.
    fn node(&self) -> Option<Node>;
}

/// The fields of a record, in their order in the file: each is read by its type or `by` a function, and stands under its name or
/// another `as`. One that is missing has what stands behind `=`, or is an error. `of`: version and edition stand beside them.
/// Whoever lists them has imported [`Field`].
/// `settings`: such a record can be made of nothing, and two changes of it be put together.
macro_rules! record {
    ($type:ty, settings; $($field:ident $(as $key:literal)? $(by $reader:path)? $(= $default:expr)?),+ $(,)?) => {
        record!($type; $($field $(as $key)? $(by $reader)? $(= $default)?),+);

        impl Default for $type {
            fn default() -> Self {
                Self { $($field: record!(@default $($default)?),)+ }
            }
        }

        impl $type {
            /// These settings with what `wanted` changes of `base`. What somebody else has changed here since `base` stays: it is
            /// the later word (SPEC §7).
            #[must_use]
            pub fn changed(&self, base: &Self, wanted: &Self) -> Self {
                Self { $($field: if self.$field == base.$field { &wanted.$field } else { &self.$field }.clone()),+ }
            }

            /// The settings that somebody else has changed here since `base`, and that `wanted` would change again.
            pub fn contested(&self, base: &Self, wanted: &Self) -> Vec<&'static str> {
                let fields = [$((stringify!($field), self.$field != base.$field && wanted.$field != self.$field)),+];
                fields.into_iter().filter_map(|(name, is_contested)| is_contested.then_some(name)).collect()
            }
        }
    };
    ($type:ty $(, of $revision:ident)?; $($field:ident $(as $key:literal)? $(by $reader:path)? $(= $default:expr)?),+ $(,)?) => {
        impl $crate::config::record::Field for $type {
            fn read(view: &yaml::view::View<'_>) -> $crate::report::Result<Option<Self>> {
                if !view.is_there() {
                    return Ok(None);
                }
                let mut failed = Ok(());
                $(let $field = $crate::config::record::value(
                    view, record!(@key $field $($key)?), record!(@read $($reader)?), &mut failed,
                );)+
                failed?;
                Ok(Some(Self {
                    $($revision: view.needed_revision()?,)?
                    $($field: record!(@or view, record!(@key $field $($key)?), $field $(, $default)?),)+
                }))
            }

            fn node(&self) -> Option<yaml::Node> {
                let revision = [$(&self.$revision)?];
                let fields = [$((record!(@key $field $($key)?), self.$field.node())),+];
                Some($crate::config::record::mapping(revision.first().copied(), fields))
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@read) => { Field::read };
    (@read $reader:path) => { $reader };
    (@or $view:ident, $key:expr, $value:ident) => { $view.needed(&format!("complete: {} is missing", $key), $value)? };
    (@or $view:ident, $key:expr, $value:ident, $default:expr) => { $value.unwrap_or_else(|| $default) };
}
pub(crate) use record;

/// What stands under `key`. `failed` keeps the first error, after which nothing is read: a way out at each field is 40 KB of code.
#[inline(never)]
pub(crate) fn value<'v, T>(
    view: &View<'v>,
    key: &str,
    read: fn(&View<'v>) -> Result<Option<T>>,
    failed: &mut Result<()>,
) -> Option<T> {
    failed.as_ref().ok()?;
    let read = view.at(key).and_then(|view| read(&view));
    read.map_err(|error| *failed = Err(error)).ok().flatten()
}

/// The mapping of the fields that have a value; a key with dots stands in the mapping that is named before them.
pub(crate) fn mapping<const N: usize>(revision: Option<&Revision>, fields: [(&str, Option<Node>); N]) -> Node {
    let mut node = revision.map_or_else(|| Node::mapping([]), revision_node);
    for (key, value) in fields {
        if let Some(value) = value {
            node.set(&key.split('.').collect::<Vec<_>>(), value);
        }
    }
    node
}

/// Types that stand in a file as one value: what reads them, and how they are written.
macro_rules! scalars {
    ($($type:ty: $read:expr, $node:expr;)+) => {
        $(impl Field for $type {
            fn read(view: &View<'_>) -> Result<Option<Self>> {
                $read(view)
            }

            fn node(&self) -> Option<Node> {
                Some($node(self))
            }
        })+
    };
}

pub(crate) use scalars;

scalars! {
    bool: View::boolean, Node::plain;
    u32: View::integer, Node::plain;
    String: View::text, Node::text;
    PathBuf: |view: &View<'_>| Ok(view.text()?.map(Self::from)), |path: &Self| Node::text(path.to_string_lossy());
    Duration: View::duration, |length: &Self| Node::plain(duration_text(*length));
    Timestamp: View::time, |time: &Self| Node::plain(time_text(*time));
    Version: |view: &View<'_>| view.parsed("a version"), |version: &Self| Node::text(version.to_string());
    Installer: |view: &View<'_>| view.parsed("an installer"), |it: &Self| Node::text(it.to_string());
    Edition: |view: &View<'_>| view.parsed("an edition"), |edition: &Self| Node::text(edition.as_str());
    Revision: View::revision, revision_node;
}

impl<T: Field> Field for Option<T> {
    fn read(view: &View<'_>) -> Result<Option<Self>> {
        T::read(view).map(Some)
    }

    fn node(&self) -> Option<Node> {
        self.as_ref().and_then(Field::node)
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(view: &View<'_>) -> Result<Option<Self>> {
        let mut all = Self::new();
        for item in view.items()? {
            all.extend(T::read(&item)?);
        }
        Ok(Some(all))
    }

    fn node(&self) -> Option<Node> {
        (!self.is_empty()).then(|| Node::list(self.iter().filter_map(Field::node).collect()))
    }
}

impl Field for BTreeMap<String, String> {
    fn read(view: &View<'_>) -> Result<Option<Self>> {
        view.texts_by_name().map(Some)
    }

    fn node(&self) -> Option<Node> {
        let pairs = || self.iter().map(|(name, value)| (name.as_str(), Some(Node::text(value))));
        (!self.is_empty()).then(|| Node::mapping(pairs()))
    }
}
