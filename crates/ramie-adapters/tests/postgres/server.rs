//! A server in this process that knows a few messages of PostgreSQL's protocol.

use std::{
    io::{Read, Write},
    path::PathBuf,
};

use ramie::{
    Runtime,
    fiber::{self, JoinHandle},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
};
use ramie_adapters::postgres::PostgresConnection;
use tokio_postgres::{Config, NoTls};

/// The server's end of a connection, after the client has signed in.
pub(crate) struct Server<S>(pub(crate) S);

impl<S: Read + Write> Server<S> {
    /// Signs a client in.
    pub(crate) fn accept(mut stream: S) -> Self {
        let length = read_length(&mut stream);
        read(&mut stream, length);
        let mut server = Server(stream);
        server.send(b'R', &0_u32.to_be_bytes());
        server.ready();
        server
    }

    /// Reads the start of a message, and returns its kind and the length of its rest.
    pub(crate) fn head(&mut self) -> (u8, usize) {
        let kind = read(&mut self.0, 1)[0];
        (kind, read_length(&mut self.0))
    }

    pub(crate) fn rest(&mut self, length: usize) -> Vec<u8> {
        read(&mut self.0, length)
    }

    /// Reads a query of the simple protocol.
    pub(crate) fn query(&mut self) -> String {
        let (kind, length) = self.head();
        assert_eq!(kind, b'Q');
        let text = self.rest(length);
        String::from_utf8(text[..length - 1].to_vec()).unwrap()
    }

    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        self.0.write_all(&message).expect("the client is there");
    }

    /// Sends rows with one column of 1000 bytes.
    pub(crate) fn rows(&mut self, count: usize) {
        let mut row = vec![0, 1, 0, 0, 3, 0xe8];
        row.resize(1006, b'x');
        for _ in 0..count {
            self.send(b'D', &row);
        }
    }

    /// Ends the answer to a query.
    pub(crate) fn complete(&mut self) {
        self.send(b'C', b"SELECT 1\0");
        self.ready();
    }

    pub(crate) fn ready(&mut self) {
        self.send(b'Z', b"I");
    }

    /// Answers queries until the client goes away, and returns their number.
    pub(crate) fn serve(mut self) -> usize {
        let mut count = 0;
        let mut kind = [0];
        while self.0.read(&mut kind).expect("the end of the stream") == 1 {
            assert_eq!(kind, *b"Q");
            let length = read_length(&mut self.0);
            self.rest(length);
            self.complete();
            count += 1;
        }
        count
    }
}

fn read(stream: &mut impl Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("the client is there");
    bytes
}

/// Reads the length of a message, without the four bytes of the length itself.
fn read_length(stream: &mut impl Read) -> usize {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("the client is there");
    u32::from_be_bytes(length) as usize - 4
}

pub(crate) fn config(port: u16) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("me");
    config
}

/// Connects over TCP to a server, which runs `serve` on a fiber of this worker.
pub(crate) fn connect<R: 'static>(
    serve: impl FnOnce(Server<TcpStream>) -> R + 'static,
) -> (PostgresConnection, JoinHandle<R>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = config(listener.local_addr().unwrap().port());
    let serve = move || serve(Server::accept(listener.accept().unwrap().0));
    let served = fiber::spawn_local(serve);
    (PostgresConnection::connect(&config, NoTls).unwrap(), served)
}

/// A folder for a Unix socket, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes a folder, with the socket of a server.
    pub(crate) fn new(name: &str) -> (Self, UnixListener) {
        let name = format!("ramie-postgres-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        let listener = UnixListener::bind(path.join(".s.PGSQL.5432")).unwrap();
        (Folder(path), listener)
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(&self.0).user("me");
        config
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs on the fibers of one worker.
pub(crate) fn on_fibers(test: impl FnOnce()) {
    Runtime::builder().workers(1).build().unwrap().run(test);
}
