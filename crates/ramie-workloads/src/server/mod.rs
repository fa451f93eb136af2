//! A blocking TCP server that greets each client and closes, with a strand for each connection.
//!
//! Modules: `service` (the server), `clients` (the clients, which run in a process of their own).

mod clients;
mod service;

use clap::{Args, ValueEnum};

pub use self::{
    clients::{Visits, visit},
    service::{ServedClients, ServerSetup},
};
use crate::count::count;

/// The line that the server writes to each client.
pub(crate) const GREETING: &[u8] = b"hello from server\n";

/// The largest number of connections that the server has at once, each with a strand of its own.
/// The server stops accepting while it has as many, so that they are no danger to the machine if
/// they are threads. The bound is the same on all engines, so that they stay comparable.
pub const MOST_CONNECTIONS: u32 = 10_000;

// Same name as `ramie_http::Server`: this is a workload, named by its command.
/// A TCP server greets N clients and closes: the cost of a strand for each connection
///
/// The server accepts in a loop and spawns a strand for each connection, which writes
/// `hello from server` and a line feed, and closes. The calls block the strand. At most 10,000
/// strands (fewer threads where more are not safe) serve at once; the server stops accepting until
/// one of them ends. The clients run in a process of their own, and each compares every byte. One
/// op is one client. The time is from the start of the first client until the server has closed the
/// last connection.
///
/// accept_wait_us is how long the server's calls of accept took: mean and maximum of the time from
/// the call to its return, in which the server waits for a client. client_wait_us is how long a
/// client took, from before it connects until it has read to the end of the connection; this
/// includes the time that the connection waits in the kernel until the server accepts it.
/// server_cpu_percent is the CPU time of the server's process divided by the time; 100 is one CPU.
/// peak_rss_bytes is the peak of its resident memory, without the kernel's memory for threads and
/// sockets. threads is the number of its OS threads: those of connections at their peak, and all
/// others, such as workers and the watchdog. clients_at_once is the largest number of clients that
/// may be connected at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Server {
    /// Number of clients, each with one connection
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub clients: u32,
    /// Order in which the clients connect
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Sequential)]
    pub order: Order,
}

/// The order in which clients connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Order {
    /// One after another: each connects when the one before it has read everything
    Sequential,
    /// All at once, or as many as net.core.somaxconn and the hard limit on descriptors allow; then
    /// the next one connects when one is done
    Concurrent,
}

impl Order {
    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Order::Sequential => "sequential",
            Order::Concurrent => "concurrent",
        }
    }
}

impl Server {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("clients", self.clients.into())]
    }

    /// The clients that are to be connected at once, if nothing limits them.
    pub fn clients_at_once(&self) -> u32 {
        match self.order {
            Order::Sequential => 1,
            Order::Concurrent => self.clients,
        }
    }

    /// The connections of the server at once: with clients one after another, a strand may still
    /// end when the next one starts.
    pub(crate) fn strands(&self) -> u64 {
        u64::from(self.clients_at_once().min(MOST_CONNECTIONS)) + 1
    }
}
