//! Where a store is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::postgres::{PostgresServer, PostgresStore};
use crate::shared::SharedTables;
use crate::sqlite::SqliteStore;
use crate::store::Store;

/// Where a store is: in one file of a directory, or in a PostgreSQL database beside which the directory has what this host notes.
#[derive(Debug, Clone)]
pub struct StorePlace {
    pub(crate) dir: PathBuf,
    pub(crate) server: Option<Arc<PostgresServer>>,
}

impl StorePlace {
    /// The directory `dir`; `url`: the address of a PostgreSQL database. Errors: `Refused`: it is none, or its file of passwords
    /// or authorities cannot be read. Nothing is connected yet.
    pub fn new(dir: &Path, url: Option<&str>) -> Result<Self> {
        let server = url.map(PostgresServer::new).transpose()?.map(Arc::new);
        Ok(Self { dir: dir.to_owned(), server })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory, where the store is a file in it. Errors: `Refused`: it is in PostgreSQL.
    pub fn in_file(&self) -> Result<&Path> {
        match &self.server {
            None => Ok(&self.dir),
            Some(server) => Err(Error::Refused(format!(
                "{}: back it up and restore it by PostgreSQL's own tools (pg_dump --schema teleport_fleet, pg_restore)",
                server.name()
            ))),
        }
    }

    /// What servers that share it tell each other; `None`: it is a file, which has one server.
    pub fn shared(&self) -> Option<SharedTables> {
        self.server.clone().map(SharedTables)
    }

    /// What people call it.
    pub fn name(&self) -> String {
        self.server.as_ref().map_or_else(|| self.dir.display().to_string(), |server| server.name().to_owned())
    }

    /// Opens it. Errors: as [`SqliteStore::open`], without `Locked` where it is shared.
    pub fn open(&self) -> Result<Box<dyn Store>> {
        Ok(match &self.server {
            None => Box::new(SqliteStore::open(&self.dir)?),
            Some(server) => Box::new(PostgresStore::open(&self.dir, server)?),
        })
    }

    /// Has `wake` called with the number of each write ([`Store::position`]), in another thread, until the process ends; with the
    /// highest number where some may have been missed.
    pub fn listen(&self, wake: impl Fn(i64) + Send + Sync + 'static) -> Result<()> {
        self.server.as_ref().map_or(Ok(()), |server| server.listen(wake))
    }
}

impl From<&Path> for StorePlace {
    fn from(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), server: None }
    }
}
