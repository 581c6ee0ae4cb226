//! One way to ask both databases: SQLite and PostgreSQL take the same statements, with `$1` for the first value.

use fleet_engine::host::HostId;

use crate::column::{unreadable, unsigned};
use crate::error::Result;

/// A value of a statement. Both databases have these kinds, and no others are used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SqlValue<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Owned(String),
    Id([u8; 16]),
    Key([u8; 32]),
    Bytes(&'a [u8]),
}

macro_rules! value {
    ($($from:ty => $with:expr),*) => { $(impl<'a> From<$from> for SqlValue<'a> {
        fn from(value: $from) -> Self {
            $with(value)
        }
    })* };
}

value!(i64 => SqlValue::Number, u32 => |number| SqlValue::Number(i64::from(number)), &'a str => SqlValue::Text, String => SqlValue::Owned,
    &'a String => |text: &'a String| SqlValue::Text(text), HostId => |id: HostId| SqlValue::Id(id.to_be_bytes()),
    &'a [u8] => SqlValue::Bytes, bool => |is: bool| SqlValue::Number(i64::from(is)));

impl<'a, T: Into<SqlValue<'a>>> From<Option<T>> for SqlValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlValue::Null, Into::into)
    }
}

/// The values of a statement, in its order.
macro_rules! with {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::SqlValue::from($value)),*] };
}
pub(crate) use with;

/// A row of what was asked, by column from 0; `None`: NULL. Errors say what is not of the kind that it must be.
pub(crate) trait SqlRow {
    fn number(&self, column: usize) -> std::result::Result<Option<i64>, String>;
    fn text(&self, column: usize) -> std::result::Result<Option<&str>, String>;
    fn bytes(&self, column: usize) -> std::result::Result<Option<&[u8]>, String>;
}

/// A connection to a database. Errors: `Foreign` where it is damaged, else `Unavailable`: nothing was written.
pub(crate) trait Sql {
    /// What an error calls it: a path, or a server.
    fn name(&self) -> String;

    /// Does `sql`; gives how many rows it changed.
    fn execute(&self, sql: &str, with: &[SqlValue<'_>]) -> Result<u64>;

    /// Does `sql` once for each of `rows`.
    fn execute_each(&self, sql: &str, rows: &[Vec<SqlValue<'_>>]) -> Result<()>;

    /// Gives `take` each row that `sql` finds. What `take` refuses ends it.
    fn each(&self, sql: &str, with: &[SqlValue<'_>], take: &mut dyn FnMut(&dyn SqlRow) -> Result<()>) -> Result<()>;
}

/// What is asked of both in the same way.
pub(crate) trait SqlExt: Sql {
    /// All rows, each as `read` says.
    fn rows<T>(&self, sql: &str, with: &[SqlValue<'_>], read: impl Fn(&SqlFields<'_>) -> Result<T>) -> Result<Vec<T>> {
        let (mut all, name) = (Vec::new(), self.name());
        self.each(sql, with, &mut |row| {
            all.push(read(&SqlFields { row, name: &name })?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The first row, as `read` says.
    fn first<T>(
        &self,
        sql: &str,
        with: &[SqlValue<'_>],
        read: impl Fn(&SqlFields<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.rows(sql, with, read).map(|rows| rows.into_iter().next())
    }

    /// A number that there always is, such as a count.
    fn count(&self, sql: &str) -> Result<u64> {
        Ok(self.first(sql, &[], |row| row.unsigned(0))?.unwrap_or(0))
    }
}

impl<S: Sql + ?Sized> SqlExt for S {}

/// A row whose columns are of the kinds that this program writes; else an error names the database.
pub(crate) struct SqlFields<'a> {
    row: &'a dyn SqlRow,
    name: &'a str,
}

impl<'a> SqlFields<'a> {
    pub(crate) fn of(row: &'a dyn SqlRow, name: &'a str) -> Self {
        Self { row, name }
    }

    /// The database's name.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    fn is_there<T>(&self, column: usize, found: std::result::Result<Option<T>, String>) -> Result<T> {
        let found = found.and_then(|found| found.ok_or_else(|| "it is NULL".to_owned()));
        found.map_err(|error| unreadable(self.name, &format!("column {column}"), &error))
    }

    pub(crate) fn number(&self, column: usize) -> Result<i64> {
        self.is_there(column, self.row.number(column))
    }

    pub(crate) fn unsigned(&self, column: usize) -> Result<u64> {
        unsigned(self.name, self.number(column)?)
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str> {
        self.is_there(column, self.row.text(column))
    }

    pub(crate) fn string(&self, column: usize) -> Result<String> {
        self.text(column).map(str::to_owned)
    }

    pub(crate) fn some_text(&self, column: usize) -> Result<Option<&str>> {
        self.row.text(column).map_err(|error| unreadable(self.name, &format!("column {column}"), &error))
    }

    pub(crate) fn some_number(&self, column: usize) -> Result<Option<i64>> {
        self.row.number(column).map_err(|error| unreadable(self.name, &format!("column {column}"), &error))
    }

    pub(crate) fn bytes<const N: usize>(&self, column: usize) -> Result<[u8; N]> {
        let bytes = self.is_there(column, self.row.bytes(column))?;
        let length = || format!("it has {} bytes", bytes.len());
        bytes.try_into().map_err(|_| unreadable(self.name, &format!("column {column}"), &length()))
    }

    pub(crate) fn host(&self, column: usize) -> Result<HostId> {
        self.bytes(column).map(HostId::from_be_bytes)
    }
}
