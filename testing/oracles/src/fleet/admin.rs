//! Bodies of the admin API: what is read is written and read the same.

use fleet_wire::api::{Act, Decided, NewToken, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any bytes as the body of each request.
pub fn fleet_admin(bytes: &[u8]) {
    same::<Write>(bytes);
    same::<Act>(bytes);
    same::<Decided>(bytes);
    same::<NewToken>(bytes);
}

fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&read).unwrap();
    assert_eq!(serde_json::from_slice::<T>(&written).unwrap(), read);
}
