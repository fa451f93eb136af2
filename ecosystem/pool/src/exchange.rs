//! The part of a client that the checks use.

use std::{fmt::Debug, io, time::Duration};

use ramie_pool::ManageConnection;

/// A connection to a server that can answer late.
pub trait Exchange {
    /// Asks the server for this number, after a delay. Returns the number that was answered.
    fn ask(&mut self, number: u64, delay: Duration) -> io::Result<u64>;

    /// The number of connections that the server has.
    fn connections(&mut self) -> io::Result<usize>;
}

/// A manager of such connections.
pub trait Server: ManageConnection<Connection: Exchange, Error: Debug> + Clone {}

impl<M> Server for M where M: ManageConnection<Connection: Exchange, Error: Debug> + Clone {}
