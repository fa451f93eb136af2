//! A connection for one strand at a time.

use std::{fmt, pin::pin};

use ramie::{cancel::check_cancelled, net::TcpStream};
use tokio_postgres::{
    Client, Config, Row, Statement, ToStatement, tls::MakeTlsConnect, types::ToSql,
};

use super::{DrivenStream, PostgresError, driver::Driver, open};

/// A connection to PostgreSQL whose calls park the fiber. The strand that waits for an answer also
/// moves the bytes of the connection, so it needs no fiber of its own, and works on whichever
/// worker it is used.
///
/// # Cancellation
/// Each call is a cancel point, and fails with [`PostgresError::Cancelled`] if it is cancelled. If
/// the strand is cancelled already, a call sends nothing and breaks nothing. A call that is
/// cancelled later, or panics, before its answer has arrived breaks the connection: all further
/// calls fail with [`PostgresError::Broken`] and send nothing. An error that the server answers
/// breaks nothing.
///
/// A query whose call was cancelled goes on at the server, and keeps its locks, until it ends or
/// the server's `statement_timeout` stops it; set that for a connection by
/// `options='-c statement_timeout=5s'` in its configuration.
///
/// # Panics
/// Each call panics inside [`no_switch`](ramie::no_switch()), if it would have to wait, and breaks
/// the connection.
pub struct PostgresConnection {
    client: Client,
    driver: Driver,
    /// False while a call runs, and for ever if it is interrupted.
    is_open: bool,
}

type Result<T> = std::result::Result<T, PostgresError>;

impl PostgresConnection {
    /// Connects to the first host of the configuration that accepts, by TCP or a Unix socket. For
    /// TLS pass a connector, such as that of the crate `tokio-postgres-rustls`, otherwise `NoTls`.
    ///
    /// The settings for keepalive, `tcp_user_timeout` and `load_balance_hosts` have no effect.
    ///
    /// # Blocking
    /// Parks the fiber until the server accepts.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// No host can be reached, or it refuses; the error is that of the last host. `TimedOut`: the
    /// `connect_timeout` of the configuration has expired. `InvalidInput`: there is no host, or
    /// `target_session_attrs` is set, which is not supported.
    pub fn connect<T>(config: &Config, tls: T) -> Result<Self>
    where
        T: MakeTlsConnect<DrivenStream<TcpStream>, Stream: Send + 'static>,
    {
        let (client, driver) = open::open(config, tls)?;
        Ok(PostgresConnection { client, driver, is_open: true })
    }

    /// Runs an async closure with the client of the crate, and moves the bytes meanwhile. So all of
    /// the crate can be used: transactions, `COPY`, streams of rows.
    ///
    /// The closure may wait for anything that needs no runtime of tokio. On a fiber, a timer of
    /// tokio panics; limit the call by [`try_with_timeout`](ramie::cancel::try_with_timeout).
    ///
    /// Helper fibers wait for the socket, as [`Io`](ramie_futures::Io) describes, because the
    /// closure may wait for other things, too. In the other methods this strand waits itself, which
    /// is cheaper.
    ///
    /// Finish a `COPY` and streams of rows inside the closure. Their bytes move only during calls
    /// of this connection, and the other methods do not notice when a sink of `COPY` continues.
    ///
    /// # Blocking
    /// Parks the fiber until the closure's future is ready.
    ///
    /// # Cancellation
    /// A cancel point. A call that is cancelled after its start breaks the connection.
    ///
    /// # Errors
    /// The closure fails, an earlier call has broken the connection, or the strand is cancelled.
    ///
    /// # Panics
    /// With the closure's panic, which breaks the connection. Inside
    /// [`no_switch`](ramie::no_switch()), if the call would have to wait.
    pub fn run<R>(
        &mut self,
        exchange: impl AsyncFnOnce(&mut Client) -> std::result::Result<R, tokio_postgres::Error>,
    ) -> Result<R> {
        self.exchange(false, exchange)
    }

    /// Makes a call of the crate that waits for nothing but the connection, so this strand can wait
    /// for the socket itself.
    fn call<R>(
        &mut self,
        exchange: impl AsyncFnOnce(&mut Client) -> std::result::Result<R, tokio_postgres::Error>,
    ) -> Result<R> {
        self.exchange(true, exchange)
    }

    fn exchange<R>(
        &mut self,
        waits_itself: bool,
        exchange: impl AsyncFnOnce(&mut Client) -> std::result::Result<R, tokio_postgres::Error>,
    ) -> Result<R> {
        let PostgresConnection { client, driver, is_open } = self;
        if !*is_open {
            return Err(PostgresError::Broken);
        }
        // Before the connection counts as broken, because a call that fails here sends nothing.
        check_cancelled()?;
        *is_open = false;
        let outcome = {
            let exchange = pin!(exchange(client));
            match waits_itself {
                true => driver.wait_itself(exchange),
                false => driver.wait_by_helpers(exchange),
            }
        }?;
        *is_open = driver.is_open();
        outcome.map_err(|error| match driver.take_end() {
            // The client knows only that the connection has ended; its future knows why.
            Some(why) if error.is_closed() => why.into(),
            _ => error.into(),
        })
    }

    /// Executes a statement, and returns the number of rows that it changed, as
    /// `Client::execute` does.
    ///
    /// # Errors
    /// The server refuses, an earlier call has broken the connection, or the strand is cancelled.
    pub fn execute<S>(&mut self, statement: &S, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64>
    where
        S: ?Sized + ToStatement,
    {
        self.call(async |client| client.execute(statement, parameters).await)
    }

    /// Executes statements without parameters, separated by `;`, as `Client::batch_execute` does.
    ///
    /// # Errors
    /// The server refuses, an earlier call has broken the connection, or the strand is cancelled.
    pub fn batch_execute(&mut self, statements: &str) -> Result<()> {
        self.call(async |client| client.batch_execute(statements).await)
    }

    /// Returns the rows of a query, as `Client::query` does.
    ///
    /// # Errors
    /// The server refuses, an earlier call has broken the connection, or the strand is cancelled.
    pub fn query<S>(
        &mut self,
        statement: &S,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>>
    where
        S: ?Sized + ToStatement,
    {
        self.call(async |client| client.query(statement, parameters).await)
    }

    /// Returns the only row of a query, as `Client::query_one` does.
    ///
    /// # Errors
    /// There is no row, or more than one. Otherwise as [`query`](Self::query).
    pub fn query_one<S>(&mut self, statement: &S, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row>
    where
        S: ?Sized + ToStatement,
    {
        self.call(async |client| client.query_one(statement, parameters).await)
    }

    /// Prepares a statement, as `Client::prepare` does.
    ///
    /// # Errors
    /// The server refuses, an earlier call has broken the connection, or the strand is cancelled.
    pub fn prepare(&mut self, query: &str) -> Result<Statement> {
        self.call(async |client| client.prepare(query).await)
    }

    /// Returns whether the connection can be used: no call was interrupted, and the server has not
    /// been seen to end it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open && !self.client.is_closed()
    }
}

impl fmt::Debug for PostgresConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConnection")
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}
