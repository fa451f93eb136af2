//! An HTTP server under load: the server's strands, and the load generator in a process of its own.
//!
//! Modules: `exchange` (the server's side of the protocol, without I/O), `page` (the answer),
//! `sockets` (the calls of each kind of strand), `server` (accepts and answers), `answer` (the
//! client's side of the protocol), `load` (the generator), `result` (the row).
//!
//! | the server | the generator |
//! |---|---|
//! | listens, and accepts one connection after another | opens all connections and sends one request on each, which is not counted |
//! | | prints `ready` |
//! | starts its clocks, writes a byte to the generator | sends the requests; each connection has one on the way |
//! | stops its clocks | prints its report |
//!
//! The server is in the process that is measured. Its CPU time, and the counters of that process,
//! are therefore those of the server alone.

mod answer;
mod exchange;
mod load;
mod page;
mod result;
mod server;
mod sockets;

use clap::{Args, ValueEnum};

pub use self::{
    exchange::{AfterAnswers, Exchange},
    load::{LoadPlan, LoadReport, Loaded},
    page::Page,
    server::{HttpServer, Overseer, STOPPED, ServeError, Served},
    sockets::Sockets,
};
use crate::count::{count, count_or_none};

/// C connections send N GET requests to an HTTP/1.1 server, each after the answer to the one before
///
/// One op is one request. The server has one strand per connection, and takes the connections in
/// turn onto its workers or processes. The load generator is a process of its own, on fibers; its
/// CPU time is not in the figures. Each connection sends one request before the clocks start.
/// requests_per_s and latency_us are those that the generator sees, from before a request is sent
/// until the last byte of its answer is checked. cpu_us_per_request is the CPU time of the server's
/// process or processes, in user space and in the kernel.
///
/// The status, the length and every byte of each answer are checked, and so are the numbers of
/// requests and answers, and the result of --work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Http {
    /// Number of keep-alive connections
    #[arg(long, value_name = "C", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub connections: u32,
    /// Number of requests on all connections together
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true)]
    pub requests: u64,
    /// Length of an answer's body in bytes
    #[arg(long, value_name = "BYTES", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub body: u32,
    /// CPU time that the server computes for each request, in microseconds
    #[arg(long, value_name = "US", value_parser = count_or_none, default_value = "0")]
    #[arg(allow_negative_numbers = true)]
    pub work: u32,
    /// I/O driver of the server's fibers [default: that of RAMIE_DRIVER]
    #[arg(long, value_enum)]
    pub driver: Option<IoDriver>,
    /// How the server sends head and body of an answer
    #[arg(long, value_enum, default_value_t = WriteMode::Single)]
    pub write: WriteMode,
    /// Port of the server at 127.0.0.1 [default: a free one]
    #[arg(long, value_parser = count::<u16>, allow_negative_numbers = true)]
    pub port: Option<u16>,
}

/// An I/O driver of fibers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum IoDriver {
    /// io_uring
    Uring,
    /// Readiness polling
    Poll,
}

impl IoDriver {
    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            IoDriver::Uring => "uring",
            IoDriver::Poll => "poll",
        }
    }
}

/// How the server sends the head and the body of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum WriteMode {
    /// Copied into one buffer, by one write
    Single,
    /// From where they lie, by one vectored write
    Vectored,
}

impl WriteMode {
    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            WriteMode::Single => "single",
            WriteMode::Vectored => "vectored",
        }
    }
}

/// The bytes that the kernel buffers for a connection, at both ends, and the server.
const BUFFERS: u64 = 32 * 1024;

impl Http {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("connections", self.connections.into()),
            ("requests", self.requests),
            ("body", self.body.into()),
            ("work", self.work.into()),
        ]
    }

    pub(crate) fn words(&self) -> Vec<(&'static str, &'static str)> {
        let driver = self.driver.map(|driver| ("driver", driver.name()));
        std::iter::once(("write", self.write.name())).chain(driver).collect()
    }

    /// The arguments beside the numbers.
    pub(crate) fn other_arguments(&self) -> Vec<String> {
        let words = self.words().into_iter().map(|(name, word)| format!("--{name}={word}"));
        words.chain(self.port.map(|port| format!("--port={port}"))).collect()
    }

    /// A strand per connection, one that accepts, and one that oversees the run.
    pub(crate) fn strands(&self) -> u64 {
        u64::from(self.connections) + 2
    }

    /// The memory for the answers that are on the way, in this process, in the kernel and in the
    /// generator.
    pub fn buffers(&self) -> u64 {
        u64::from(self.connections).saturating_mul(u64::from(self.body).saturating_add(BUFFERS))
    }

    /// The share of one of several processes. The generator sends all requests.
    #[must_use]
    pub fn share(&self, number: u32, of: u32) -> Self {
        let connections = self.connections / of + u32::from(number < self.connections % of);
        Http { connections, ..*self }
    }
}
