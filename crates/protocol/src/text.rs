//! Types that are one string in JSON and YAML: as [`std::fmt::Display`] writes it and [`std::str::FromStr`] reads it.

/// Writes a type in JSON and YAML as [`std::fmt::Display`] does, and reads it as [`std::str::FromStr`] does.
#[macro_export]
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
