//! The servers by name, and how each is started.

use std::{io, path::Path, process::Command};

use clap::ValueEnum;

use super::{
    blocking, epoll, owned_buffers,
    request::Service,
    ring::{self, Files, Receive},
    tokio,
};
use crate::process;

/// A server. Each is a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A bare ring, one receive for each request.
    RawSingle,
    /// A bare ring, one multishot receive for each connection, on incremental buffers.
    RawMultishot,
    /// Like raw-single, with direct descriptors.
    RawSingleDirect,
    /// Like raw-multishot, with direct descriptors.
    RawMultishotDirect,
    /// A bare handler on fibers, by `recv_each`.
    Ramie,
    /// A bare handler on fibers, by `read`.
    RamieRead,
    /// `ramie serve --hello`.
    RamieServe,
    /// A bare epoll set.
    RawEpoll,
    /// Like ramie, by polling.
    RamiePoll,
    /// Like ramie-serve, by polling.
    RamieServePoll,
    Tokio,
    Monoio,
    Compio,
    May,
}

impl Kind {
    pub fn all() -> Vec<Kind> {
        Kind::value_variants().to_vec()
    }

    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub fn is_the_program(self) -> bool {
        matches!(self, Kind::RamieServe | Kind::RamieServePoll)
    }

    /// A loop over a bare ring.
    pub fn is_raw_ring(self) -> bool {
        use Kind::{RawMultishot, RawMultishotDirect, RawSingle, RawSingleDirect};
        matches!(self, RawSingle | RawMultishot | RawSingleDirect | RawMultishotDirect)
    }

    /// The command that starts it. The program `ramie` has its own service.
    pub fn command(self, ramie: &Path, service: Service) -> Result<Command, String> {
        let mut command;
        if self.is_the_program() {
            command = Command::new(ramie);
            command.args(["serve", "--hello", "--addr", "127.0.0.1:0", "--workers", "1"]);
        } else {
            command = process::ourselves()?;
            command.args(["http-server", &self.name()]).args(service.arguments());
        }
        match self {
            Kind::Ramie | Kind::RamieRead | Kind::RamieServe => {
                command.env("RAMIE_DRIVER", "uring")
            }
            Kind::RamiePoll | Kind::RamieServePoll => command.env("RAMIE_DRIVER", "poll"),
            _ => &mut command,
        };
        Ok(command)
    }

    /// Serves in this process, until it is killed.
    pub fn serve(self, service: Service) -> io::Result<()> {
        service.begin();
        match self {
            Kind::RawSingle => ring::serve(Receive::Single, Files::Plain),
            Kind::RawMultishot => ring::serve(Receive::Multishot, Files::Plain),
            Kind::RawSingleDirect => ring::serve(Receive::Single, Files::Direct),
            Kind::RawMultishotDirect => ring::serve(Receive::Multishot, Files::Direct),
            Kind::Ramie | Kind::RamiePoll => blocking::serve_on_fibers(Receive::Multishot),
            Kind::RamieRead => blocking::serve_on_fibers(Receive::Single),
            Kind::RamieServe | Kind::RamieServePoll => {
                Err(io::Error::other("the program `ramie` serves this kind itself"))
            }
            Kind::RawEpoll => epoll::serve(),
            Kind::Tokio => tokio::serve(),
            Kind::Monoio => owned_buffers::serve_on_monoio(),
            Kind::Compio => owned_buffers::serve_on_compio(),
            Kind::May => blocking::serve_on_coroutines(),
        }
    }
}
