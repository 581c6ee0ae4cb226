//! How the value of a key is read: the type of the field and the row of the key say it.

use jiff::{SignedDuration, Timestamp};
use protocol::{Digest, Version};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;
use yaml::scalar;

use super::key::KeyKind;
use super::reader::{KeyValue, ResourceReader};
use super::url;
use crate::calendar::{Days, Zone};
use crate::labels::Expression;
use crate::percent::Percent;
use crate::policy::{Mode, OnHalt, Schedule, Strategy};

impl KeyValue for u32 {
    /// Of a [`KeyKind::Decimal`] in hundredths: 150 for `1.5`.
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.scalar(&kind.wanted(), |text, plain| {
            let (range, number) = match *kind {
                KeyKind::Whole(least, most) => (least..=most, u32::try_from(scalar::integer(text)?).ok()?),
                KeyKind::Decimal(least, most) => (least * 100..=most * 100, hundredths(text)?),
                _ => return None,
            };
            (plain && range.contains(&number)).then_some(number)
        })
    }
}

/// A number with at most two decimals.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_decimal = matches!(decimals.len(), 1..=2) && decimals.bytes().all(|byte| byte.is_ascii_digit());
    let parts: u32 = format!("{decimals:0<2}").parse().ok().filter(|_| is_decimal)?;
    u32::try_from(scalar::integer(whole)?).ok()?.checked_mul(100)?.checked_add(parts)
}

/// Of a key that need not be there.
impl<T: KeyValue> KeyValue for Option<T> {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.read(kind).map(Some)
    }
}

impl KeyValue for u8 {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        Self::try_from(place.read::<u32>(kind)?).ok()
    }
}

/// Without quotes: YAML's spellings of booleans, and numbers.
impl KeyValue for bool {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.scalar(&kind.wanted(), |text, plain| scalar::boolean(text).filter(|_| plain))
    }
}

impl KeyValue for f64 {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.scalar(&kind.wanted(), |text, plain| {
            let number: Self = text.parse().ok().filter(|_| plain && scalar::is_number(text))?;
            (0.0..=1.0).contains(&number).then_some(number)
        })
    }
}

impl KeyValue for Percent {
    /// `10%`, `10 %` or `10`.
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.scalar(&kind.wanted(), |text, _| {
            let number = text.strip_suffix('%').map_or(text, str::trim_end);
            Self::new(u8::try_from(scalar::integer(number)?).ok()?)
        })
    }
}

impl KeyValue for SignedDuration {
    /// With its unit, such as `90m`; 0 needs none.
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        let KeyKind::Minutes(least, most) = *kind else { return None };
        place.scalar(&kind.wanted(), |text, _| {
            let has_unit = text == "0" || scalar::integer(text).is_none();
            let length = Self::try_from(scalar::duration(text).filter(|_| has_unit)?).ok()?;
            (Self::from_mins(least)..=Self::from_mins(most)).contains(&length).then_some(length)
        })
    }
}

impl KeyValue for Days {
    /// A list of days that is not empty: a window without days never opens.
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        let items = place.list()?;
        if items.is_empty() {
            place.refuse("is empty: such a window never opens; leave it out for the default, or give \"*\"");
        }
        let day = |item: &ResourceReader<'_>| {
            let word = item.clone().needed("a day").text()?;
            if Self::parse(&[word]).is_err() {
                item.wrong(&kind.wanted());
            }
            Some(word.to_owned())
        };
        let words: Vec<String> = items.iter().filter_map(day).collect();
        Self::parse(&words.iter().map(String::as_str).collect::<Vec<_>>()).ok()
    }
}

impl KeyValue for Zone {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.text_as(&kind.wanted(), Self::parse)
    }
}

impl KeyValue for Expression {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        place.parsed(&kind.wanted(), Self::parse)
    }
}

impl KeyValue for String {
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
        match kind {
            KeyKind::Address => place.parsed(&kind.wanted(), |text| url::check(text).map(|()| text.to_owned())),
            KeyKind::Name(_) => place.name().map(str::to_owned),
            KeyKind::Text(_) => place.text().map(str::to_owned),
            KeyKind::Words(_) => word(place, kind),
            _ => place.any_scalar().map(str::to_owned),
        }
    }
}

/// A text that its type reads.
macro_rules! parsed {
    ($($type:ty),*) => {$(
        impl KeyValue for $type {
            fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
                place.scalar(&kind.wanted(), |text, _| text.parse().ok())
            }
        }
    )*};
}

parsed!(Timestamp, Version, Digest);

/// One of a few words, which are the variants of its type.
macro_rules! words {
    ($($type:ty),*) => {$(
        impl KeyValue for $type {
            fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self> {
                word(place, kind)
            }
        }
    )*};
}

words!(Mode, OnHalt, Schedule, Strategy);

fn word<T: for<'de> Deserialize<'de>>(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<T> {
    let KeyKind::Words(words) = kind else { return None };
    place.scalar(&kind.wanted(), |text, _| {
        let known = words.iter().find(|word| **word == text)?;
        T::deserialize(IntoDeserializer::<Error>::into_deserializer(*known)).ok()
    })
}
