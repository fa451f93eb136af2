//! The servers by name, and how each is started.

use std::{io, process::Command};

use clap::ValueEnum;

use super::{
    blocking, epoll,
    foreign::{Programs, Source},
    nginx, owned_buffers,
    ramie_http::{self, FULL_PATH},
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
    /// The crate `ramie-http` with one route.
    RamieHttp,
    /// The crate `ramie-http` with several routes, a parameter, and fields of both heads.
    RamieHttpFull,
    /// Like ramie-http, on two workers.
    #[value(name = "ramie-http-2")]
    RamieHttp2,
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
    /// hyper on one thread of tokio.
    Hyper,
    /// axum on one thread of tokio.
    Axum,
    /// actix-web with one worker.
    Actix,
    /// net/http of Go, with GOMAXPROCS=1.
    GoNetHttp,
    /// nginx in a single process.
    Nginx,
}

impl Kind {
    pub fn all() -> Vec<Kind> {
        Kind::value_variants().to_vec()
    }

    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub fn source(self) -> Source {
        match self {
            Kind::RamieServe | Kind::RamieServePoll => Source::Ramie,
            Kind::Hyper => Source::Peer("rust-http", "hyper"),
            Kind::Axum => Source::Peer("rust-http", "axum"),
            Kind::Actix => Source::Peer("rust-http", "actix"),
            Kind::GoNetHttp => Source::Peer("go", "http"),
            Kind::Nginx => Source::Nginx,
            _ => Source::Bench,
        }
    }

    pub fn is_the_program(self) -> bool {
        matches!(self.source(), Source::Ramie)
    }

    /// Whether it obeys a [`Service`]. The others have one answer and compute nothing.
    pub fn has_services(self) -> bool {
        matches!(self.source(), Source::Bench)
    }

    /// A loop over a bare ring.
    pub fn is_raw_ring(self) -> bool {
        use Kind::{RawMultishot, RawMultishotDirect, RawSingle, RawSingleDirect};
        matches!(self, RawSingle | RawMultishot | RawSingleDirect | RawMultishotDirect)
    }

    /// The threads that serve.
    pub fn workers(self) -> usize {
        if self == Kind::RamieHttp2 { 2 } else { 1 }
    }

    /// The path that the bench requests.
    pub fn path(self) -> &'static str {
        if self == Kind::RamieHttpFull { FULL_PATH } else { "/" }
    }

    /// The command that starts it.
    pub fn command(self, programs: &Programs, service: Service) -> Result<Command, String> {
        let mut command;
        match self.source() {
            Source::Ramie => {
                command = Command::new(programs.ramie);
                command.args(["serve", "--hello", "--addr", "127.0.0.1:0", "--workers", "1"]);
            }
            Source::Peer(program, server) => {
                command = Command::new(programs.peer(program));
                command.arg(server);
            }
            Source::Bench | Source::Nginx => {
                command = process::ourselves()?;
                command.args(["http-server", &self.name()]).args(service.arguments());
            }
        }
        if let Some(driver) = self.driver() {
            command.env("RAMIE_DRIVER", driver);
        }
        Ok(command)
    }

    /// The driver of a server on Ramie.
    fn driver(self) -> Option<&'static str> {
        use Kind::{Ramie, RamieHttp, RamieHttp2, RamieHttpFull, RamieRead, RamieServe};
        match self {
            Ramie | RamieRead | RamieServe | RamieHttp | RamieHttpFull | RamieHttp2 => {
                Some("uring")
            }
            Kind::RamiePoll | Kind::RamieServePoll => Some("poll"),
            _ => None,
        }
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
            Kind::RamieHttp | Kind::RamieHttp2 => {
                ramie_http::serve(ramie_http::hello(), self.workers())
            }
            Kind::RamieHttpFull => ramie_http::serve(ramie_http::full(), self.workers()),
            Kind::RawEpoll => epoll::serve(),
            Kind::Tokio => tokio::serve(),
            Kind::Monoio => owned_buffers::serve_on_monoio(),
            Kind::Compio => owned_buffers::serve_on_compio(),
            Kind::May => blocking::serve_on_coroutines(),
            Kind::Nginx => nginx::serve(),
            Kind::RamieServe | Kind::RamieServePoll => Err(of_another("ramie")),
            Kind::Hyper | Kind::Axum | Kind::Actix => Err(of_another("rust-http")),
            Kind::GoNetHttp => Err(of_another("go")),
        }
    }
}

fn of_another(program: &str) -> io::Error {
    io::Error::other(format!("the program `{program}` serves this kind itself"))
}
