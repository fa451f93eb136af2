//! Values that block, in a pool.

use std::{error::Error, fmt, io, sync::Arc};

use ramie_pool::ManageConnection;

use super::Blocking;

type Opens<T> = dyn Fn() -> io::Result<T> + Send + Sync;
type Tests<T> = dyn Fn(&mut T) -> io::Result<()> + Send + Sync;

/// Manages a [`Pool`](ramie_pool::Pool) of connections whose calls block, such as those of
/// rusqlite, diesel or mysql. It opens, tests and closes them on the blocking pool.
///
/// A connection whose call was left behind ([`Blocking::run_or_cancelled`]) is closed by its job.
/// The pool opens another one in its place at once, so there can be more connections than the pool
/// allows, until such calls have ended.
///
/// # Examples
/// ```
/// # mod rusqlite {
/// #     pub struct Connection;
/// #     impl Connection {
/// #         pub fn open(_: &str) -> std::io::Result<Self> { Ok(Connection) }
/// #         pub fn execute(&self, _: &str, _: [u8; 0]) -> std::io::Result<usize> { Ok(1) }
/// #     }
/// # }
/// use ramie_adapters::BlockingManager;
/// use ramie_pool::Pool;
///
/// ramie::run(|| {
///     let manager = BlockingManager::new(|| rusqlite::Connection::open("data"));
///     let pool = Pool::builder().max_size(4).build(manager);
///     let count = pool.get()?.run(|connection| connection.execute("DELETE FROM old", []))?;
///     assert_eq!(count, 1);
///     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct BlockingManager<T> {
    open: Arc<Opens<T>>,
    test: Arc<Tests<T>>,
}

impl<T> BlockingManager<T> {
    /// Makes a manager that opens connections by this closure. Their test always succeeds, unless
    /// [`test`](Self::test) sets another one.
    pub fn new<E>(open: impl Fn() -> Result<T, E> + Send + Sync + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let open = move || open().map_err(io::Error::other);
        BlockingManager { open: Arc::new(open), test: Arc::new(|_| Ok(())) }
    }

    /// Sets the test of connections that have been idle: mysql's `ping`, for example.
    #[must_use]
    pub fn test<E>(mut self, test: impl Fn(&mut T) -> Result<(), E> + Send + Sync + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.test = Arc::new(move |value| test(value).map_err(io::Error::other));
        self
    }
}

impl<T: Send + 'static> ManageConnection for BlockingManager<T> {
    type Connection = Blocking<T>;
    /// That of the closures, in an error of kind `Other`, or a cancellation.
    type Error = io::Error;

    fn connect(&self) -> io::Result<Blocking<T>> {
        let open = Arc::clone(&self.open);
        // As a cancel point, so that a request for a connection keeps to its deadline.
        let value = Blocking::new(()).run_or_cancelled(move |()| open())??;
        Ok(Blocking::new(value))
    }

    fn is_valid(&self, connection: &mut Blocking<T>) -> io::Result<()> {
        let test = Arc::clone(&self.test);
        connection.run_or_cancelled(move |value| test(value))?
    }

    fn has_broken(&self, connection: &mut Blocking<T>) -> bool {
        connection.is_lost()
    }
}

impl<T> fmt::Debug for BlockingManager<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingManager").finish_non_exhaustive()
    }
}
