//! The servers, each a process of its own.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::Arc,
    thread,
};

use clap::ValueEnum;
use ramie_http::{Router, Server, Tls, TlsConfig, get};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::settings;
use crate::process;

pub const SMALL_PATH: &str = "/";
pub const LARGE_PATH: &str = "/mib";
/// The answer at [`SMALL_PATH`].
pub const TEXT: &str = "Hello, world!\n";
/// The length of the answer at [`LARGE_PATH`].
pub const MIB: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// rustls on blocking sockets, a thread for each connection.
    Threads,
    RamieHttp,
    /// hyper and tokio-rustls on one thread of tokio.
    Hyper,
}

impl Kind {
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether its program is there.
    pub fn is_there(self, peers: &Path) -> bool {
        self != Kind::Hyper || peers.join("rust-http").exists()
    }

    /// The command that starts it, with the folder of its certificate.
    pub fn command(self, peers: &Path, folder: &Path) -> Result<Command, String> {
        let mut command;
        if self == Kind::Hyper {
            command = Command::new(peers.join("rust-http"));
            command.arg("hyper-tls");
        } else {
            command = process::ourselves()?;
            command.args(["tls-server", &self.name()]);
        }
        command.arg(folder);
        Ok(command)
    }
}

/// Serves in this process, until it is killed.
pub fn serve(kind: Kind, folder: &Path) -> Result<(), String> {
    match kind {
        Kind::Threads => {
            let config = settings::server(folder)?;
            serve_on_threads(&config).map_err(|error| error.to_string())
        }
        Kind::RamieHttp => {
            let [chain, key] = settings::read(folder)?;
            serve_on_fibers(&chain, &key).map_err(|error| error.to_string())
        }
        Kind::Hyper => Err("the program `rust-http` serves this kind itself".to_owned()),
    }
}

fn serve_on_fibers(chain: &[u8], key: &[u8]) -> io::Result<()> {
    let large: &'static [u8] = vec![b'x'; MIB].leak();
    let router =
        Router::new().route(SMALL_PATH, get(|| TEXT)).route(LARGE_PATH, get(move || large));
    let runtime = ::ramie::Runtime::builder().workers(1).build().map_err(io::Error::other)?;
    runtime.run(|| {
        let tls = Tls::new(TlsConfig::from_pem(chain, key)?)?;
        let server = Server::bind("127.0.0.1:0")?.tls(&tls);
        println!("listening on {}", server.local_addr()?);
        server.serve(router)
    })
}

fn serve_on_threads(config: &Arc<ServerConfig>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    let large = vec![b'x'; MIB];
    let large = large.as_slice();
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let stream = stream.unwrap_or_else(|error| {
                // The end of this scope would wait for the threads, whose clients wait for others.
                eprintln!("bench: accept: {error}");
                std::process::exit(1)
            });
            // The errors of a connection concern the client, and the load counts them.
            scope.spawn(move || serve_connection(stream, config, large));
        }
        Ok(())
    })
}

fn serve_connection(stream: TcpStream, config: &Arc<ServerConfig>, large: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, stream);
    let mut request = [0; 512];
    loop {
        let mut filled = 0;
        while !request[..filled].ends_with(b"\r\n\r\n") {
            match stream.read(&mut request[filled..])? {
                0 => return Ok(()),
                count => filled += count,
            }
        }
        let is_large = request.starts_with(format!("GET {LARGE_PATH} ").as_bytes());
        let body = if is_large { large } else { TEXT.as_bytes() };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        if is_large {
            stream.write_all(head.as_bytes())?;
            stream.write_all(body)?;
        } else {
            stream.write_all(&[head.as_bytes(), body].concat())?;
        }
    }
}
