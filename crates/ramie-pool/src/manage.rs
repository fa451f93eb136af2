//! The interface to a protocol.

use std::error::Error;

/// Opens connections of one kind and judges them. The methods and their names are those of r2d2 and
/// bb8; they may wait, as any code on a fiber may.
pub trait ManageConnection: Send + Sync + 'static {
    /// The connections. They are used by one strand after another, also on other workers.
    type Connection: Send + 'static;
    /// The error of [`connect`](Self::connect) and [`is_valid`](Self::is_valid).
    type Error: Error + Send + Sync + 'static;

    /// Opens a connection.
    ///
    /// The call runs under the time limit of the request for a connection, so a cancel point in it
    /// fails when the time is up.
    ///
    /// # Errors
    /// The connection cannot be opened.
    fn connect(&self) -> Result<Self::Connection, Self::Error>;

    /// Tests, by a short exchange, whether an idle connection still works. Called before a
    /// connection is lent that has been idle for a while ([`PoolBuilder::test_after_idle`]); if it
    /// fails, the connection is closed, and the request gets another one.
    ///
    /// [`PoolBuilder::test_after_idle`]: crate::PoolBuilder::test_after_idle
    ///
    /// # Errors
    /// The connection does not work.
    fn is_valid(&self, connection: &mut Self::Connection) -> Result<(), Self::Error>;

    /// Returns whether a connection must not be used again, without an exchange:
    /// an answer is outstanding, a transaction is open, the peer has closed it. Called when a
    /// connection is returned, unless the pool closes it for another reason.
    ///
    /// The pool notices cancellations and panics by itself; this is for everything else that can
    /// interrupt an exchange, such as a timeout of the socket.
    fn has_broken(&self, connection: &mut Self::Connection) -> bool;
}
