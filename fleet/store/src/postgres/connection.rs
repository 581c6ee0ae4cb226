//! Connections to a PostgreSQL server, as the store asks any database.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use futures_util::{StreamExt, TryStreamExt, future, stream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Config};

use super::address::{self, causes};
use super::tls::PostgresTls;
use crate::error::{Error, Result};
use crate::sql::{Sql, SqlRow, SqlValue};

/// Until an answer is given up: a stop is decided within 2 s, and what is answered is good for 30 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// Until the server gives up a statement, so that it goes on with nothing that nobody waits for.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '8s'";
/// Connections for reading; the store's own is one more.
const READERS: usize = 8;
/// Statements that are on their way at once.
const PIPELINE: usize = 256;
/// Rows that are waited for together: to wait costs more than a row.
const AT_ONCE: usize = 256;
/// Between two attempts to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// Where our tables are.
const PREPARE: &str = "SET search_path = teleport_fleet; SET idle_in_transaction_session_timeout = '15s'";

/// What speaks with servers. It lasts as long as the process, and no request of a host waits for it.
static SPEAKER: LazyLock<std::io::Result<tokio::runtime::Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("store").enable_all().build()
});

fn speaker() -> Result<&'static tokio::runtime::Runtime> {
    SPEAKER.as_ref().map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))
}

/// Waits for an answer; a thread of another runtime does so as well, and gives its other work away meanwhile.
fn wait_for<T>(answer: impl Future<Output = T>) -> Result<T> {
    let speaker = speaker()?;
    Ok(tokio::task::block_in_place(|| speaker.block_on(answer)))
}

/// A PostgreSQL server, with connections to it.
pub(crate) struct PostgresServer {
    name: String,
    config: Config,
    tls: PostgresTls,
    pool: Pool,
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PostgresServer {
    /// The server at `url`; nothing is connected yet. Errors: `Refused`: the address, the authorities or the file of passwords
    /// cannot be read.
    pub(crate) fn new(url: &str) -> Result<Self> {
        let (config, tls, name) = address::parse(url)?;
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Clean };
        let manager = Manager::from_config(config.clone(), tls.clone(), manager);
        let pool = Pool::builder(manager).max_size(READERS + 1).runtime(Runtime::Tokio1);
        let pool =
            pool.timeouts(Timeouts { wait: Some(PATIENCE), create: Some(PATIENCE), recycle: Some(PATIENCE) }).build();
        let pool = pool.map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self { name, config, tls, pool })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A connection. Errors: `Unavailable`.
    pub(crate) fn connect(&self) -> Result<PostgresConnection> {
        let unavailable = |error: &dyn std::error::Error| {
            Error::Unavailable(format!(
                "{} cannot be reached: {}: check that it runs and that this host may connect",
                self.name,
                causes(error)
            ))
        };
        let client = wait_for(self.pool.get())?.map_err(|error| unavailable(&error))?;
        let connection = PostgresConnection { name: self.name.clone(), client };
        connection.batch(PREPARE)?;
        connection.batch(STATEMENT_TIMEOUT)?;
        Ok(connection)
    }

    /// Has `wake` called with the number of each write, and after each break with the highest; until the process ends.
    pub(crate) fn listen(self: &Arc<Self>, wake: impl Fn(i64) + Send + Sync + 'static) -> Result<()> {
        let server = Arc::clone(self);
        speaker()?.spawn(async move {
            loop {
                // What fails here is found by asking each second.
                let _ = server.hear(&wake).await;
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
        Ok(())
    }

    async fn hear(&self, wake: &(impl Fn(i64) + Sync)) -> std::result::Result<(), tokio_postgres::Error> {
        let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
        let mut messages = stream::poll_fn(|cx| connection.poll_message(cx));
        let mut begun = pin!(client.batch_execute("LISTEN teleport_fleet"));
        let mut is_begun = false;
        loop {
            let message = if is_begun {
                messages.next().await
            } else {
                match future::select(messages.next(), &mut begun).await {
                    future::Either::Left((message, _)) => message,
                    future::Either::Right((done, _)) => {
                        done?;
                        is_begun = true;
                        wake(i64::MAX);
                        continue;
                    }
                }
            };
            match message {
                Some(Ok(AsyncMessage::Notification(told))) => wake(told.payload().parse().unwrap_or(i64::MAX)),
                Some(message) => drop(message?),
                None => return Ok(()),
            }
        }
    }
}

/// A connection.
pub(crate) struct PostgresConnection {
    name: String,
    client: Object,
}

impl fmt::Debug for PostgresConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

impl PostgresConnection {
    /// Does statements without values.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        self.wait(self.client.batch_execute(sql))
    }

    /// Reads in a transaction of its own, of one point in time.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&dyn Sql) -> Result<T>) -> Result<T> {
        // A walk through a long log, or a move of the whole fleet, keeps nobody waiting.
        self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0")?;
        let found = read(self);
        self.batch("ROLLBACK")?;
        found
    }

    /// Ends the transaction; afterwards it is durable. Errors: `Unavailable` where the server says that it is not, else `Unknown`.
    pub(crate) fn commit(&self) -> Result<()> {
        let done = wait_for(async { tokio::time::timeout(PATIENCE, self.client.batch_execute("COMMIT")).await })?;
        let unknown = |what: &str| {
            Error::Unknown(format!("{}: {what} while writing: it is not known whether the change was kept", self.name))
        };
        match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.as_db_error().is_some_and(|error| *error.code() != SqlState::ADMIN_SHUTDOWN) => {
                Err(self.error(&error))
            }
            Ok(Err(error)) => Err(unknown(&causes(&error))),
            Err(_) => Err(unknown("no answer")),
        }
    }

    /// Ends it: what it was asked, and did not answer, is not given to whoever comes next.
    pub(super) fn close(self) {
        drop(Object::take(self.client));
    }

    fn wait<T>(&self, asked: impl Future<Output = Answer<T>>) -> Result<T> {
        let answer = wait_for(async { tokio::time::timeout(PATIENCE, asked).await })?;
        let answer = answer.map_err(|_| {
            Error::Unavailable(format!("{} does not answer: nothing was written; check it and the network", self.name))
        })?;
        answer.map_err(|error| self.error(&error))
    }

    fn error(&self, error: &tokio_postgres::Error) -> Error {
        let name = &self.name;
        let Some(db) = error.as_db_error() else {
            let error = causes(error);
            return Error::Unavailable(format!(
                "{name}: {error}: nothing was written; check the server and the network"
            ));
        };
        let said = db.message();
        let line = match *db.code() {
            SqlState::DISK_FULL => "its disk is full, nothing was written: free some space".to_owned(),
            SqlState::READ_ONLY_SQL_TRANSACTION => {
                "it is a standby, nothing was written: name the primary, or both with \
                 target_session_attrs=read-write"
                    .to_owned()
            }
            SqlState::LOCK_NOT_AVAILABLE => format!("another server writes for long ({said}): nothing was written"),
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
                return Error::Foreign(format!("{name} is damaged ({said}): restore it by PostgreSQL's own tools"));
            }
            SqlState::INSUFFICIENT_PRIVILEGE => {
                format!("{said}: give the user all rights on the schema teleport_fleet")
            }
            _ => format!("{said}: nothing was written; see the server's log"),
        };
        Error::Unavailable(format!("{name}: {line}"))
    }
}

impl Sql for PostgresConnection {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn execute(&self, sql: &str, with: &[SqlValue<'_>]) -> Result<u64> {
        self.wait(async { self.client.execute_raw(&self.client.prepare_cached(sql).await?, with).await })
    }

    fn execute_each(&self, sql: &str, rows: &[Vec<SqlValue<'_>>]) -> Result<()> {
        rows.chunks(PIPELINE).try_for_each(|rows| {
            self.wait(async {
                let statement = self.client.prepare_cached(sql).await?;
                // Each is sent before the one before is answered; the server does them in this order.
                let sent = rows.iter().map(|row| self.client.execute_raw(&statement, row));
                stream::iter(sent).buffered(PIPELINE).try_for_each(|_| future::ok(())).await
            })
        })
    }

    fn each(&self, sql: &str, with: &[SqlValue<'_>], take: &mut dyn FnMut(&dyn SqlRow) -> Result<()>) -> Result<()> {
        let rows = self.wait(async { self.client.query_raw(&self.client.prepare_cached(sql).await?, with).await })?;
        let mut rows = pin!(rows);
        loop {
            let some: Vec<_> = self.wait(rows.as_mut().take(AT_ONCE).try_collect())?;
            some.iter().try_for_each(|row| take(row))?;
            if some.len() < AT_ONCE {
                return Ok(());
            }
        }
    }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(
        &self,
        to: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Number(number) if *to == Type::INT4 => return i32::try_from(*number)?.to_sql(to, out),
            Self::Number(number) => out.extend_from_slice(&number.to_be_bytes()),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Owned(text) => out.extend_from_slice(text.as_bytes()),
            Self::Id(id) => out.extend_from_slice(id),
            Self::Key(key) => out.extend_from_slice(key),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(to: &Type) -> bool {
        matches!(*to, Type::INT8 | Type::INT4 | Type::TEXT | Type::JSON | Type::BYTEA)
    }

    to_sql_checked!();
}

/// A text, also of JSON, which is kept as it was written.
struct AnyText<'a>(&'a str);

impl<'a> FromSql<'a> for AnyText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(of: &Type) -> bool {
        matches!(*of, Type::TEXT | Type::JSON)
    }
}

impl SqlRow for tokio_postgres::Row {
    fn number(&self, column: usize) -> std::result::Result<Option<i64>, String> {
        self.try_get(column).map_err(|error| causes(&error))
    }

    fn text(&self, column: usize) -> std::result::Result<Option<&str>, String> {
        let text: Option<AnyText<'_>> = self.try_get(column).map_err(|error| causes(&error))?;
        Ok(text.map(|AnyText(text)| text))
    }

    fn bytes(&self, column: usize) -> std::result::Result<Option<&[u8]>, String> {
        self.try_get(column).map_err(|error| causes(&error))
    }
}
