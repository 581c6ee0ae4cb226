//! stub
use std::path::{Path, PathBuf};
use crate::report::Result;
/// stub
pub struct Package { /// n
 pub name: String }
/// stub
pub fn installed(_root: Option<&Path>) -> Result<Vec<Package>> { Ok(Vec::new()) }
/// stub
pub fn purge(_p: &Package, _k: &[PathBuf], _d: &[PathBuf], _root: Option<&Path>, _a: &Path) -> Result<()> { Ok(()) }
