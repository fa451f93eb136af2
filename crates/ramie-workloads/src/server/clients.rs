//! The clients of the server, which run in a process of their own.
//!
//! A client connects, reads to the end of the connection and compares the bytes. The clients come
//! from several loopback addresses, because each address has about 28,000 ports for connections to
//! one server.

use std::{
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ramie::net::TcpStream;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use serde::{Deserialize, Serialize};

use super::GREETING;
use crate::{
    OnFibers, WorkloadError,
    strands::{join_all, spawn_all},
};

/// The number of clients that come from one address, well below the number of its ports.
const CLIENTS_PER_ADDRESS: u32 = 10_000;
/// The address of the first clients.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);
/// How long a client waits for bytes. A server takes seconds at most to serve thousands at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Visits {
    /// The clients that read the right bytes.
    pub clients: u64,
    /// The sum of their waits, from before a client connects until the end of its connection.
    pub sum_us: f64,
    /// The longest wait.
    pub max_us: f64,
}

impl Visits {
    fn add(&mut self, wait: Duration) {
        let us = wait.as_secs_f64() * 1e6;
        self.clients += 1;
        self.sum_us += us;
        self.max_us = self.max_us.max(us);
    }

    fn merged(self, other: Visits) -> Self {
        Visits {
            clients: self.clients + other.clients,
            sum_us: self.sum_us + other.sum_us,
            max_us: self.max_us.max(other.max_us),
        }
    }
}

/// Runs `clients` clients on fibers of the calling runtime, `at_once` of them at once.
///
/// # Blocking
/// Parks the calling fiber until all clients are done.
///
/// # Errors
/// If a client cannot connect or reads other bytes than the server writes; the clients that have
/// not begun by then do not run.
pub fn visit(server: SocketAddr, clients: u32, at_once: u32) -> Result<Visits, WorkloadError> {
    let all = Arc::new(AllClients {
        server,
        clients: clients.into(),
        next: AtomicU64::new(0),
        has_failed: AtomicBool::new(false),
        error: Mutex::new(None),
    });
    let fibers = spawn_all::<OnFibers, _, _>(at_once as usize, |_| {
        let all = Arc::clone(&all);
        move || all.run()
    });
    let fibers = fibers.map_err(|failure| {
        all.has_failed.store(true, Ordering::Relaxed);
        failure.give_up()
    })?;
    let mut visits = Visits::default();
    join_all::<OnFibers, Visits>(fibers, |own| visits = visits.merged(own))?;
    let error = all.error.lock().unwrap_or_else(PoisonError::into_inner).take();
    match error {
        Some(error) => Err(error),
        None => Ok(visits),
    }
}

/// The parts that all clients share.
struct AllClients {
    server: SocketAddr,
    clients: u64,
    /// The number of the next client.
    next: AtomicU64,
    has_failed: AtomicBool,
    /// The first error.
    error: Mutex<Option<WorkloadError>>,
}

impl AllClients {
    /// Runs one client after another until there are no more.
    fn run(&self) -> Visits {
        let mut visits = Visits::default();
        while !self.has_failed.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.clients {
                break;
            }
            let begin = Instant::now();
            match greeted(self.server, source(number)) {
                Ok(()) => visits.add(begin.elapsed()),
                Err(error) => self.fail(number, &error),
            }
        }
        visits
    }

    fn fail(&self, number: u64, error: &io::Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        let (number, all) = (number + 1, self.clients);
        let error = WorkloadError::new(format!("client {number} of {all}: {error}"));
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// The address from which a client comes.
fn source(number: u64) -> Ipv4Addr {
    let address = number / u64::from(CLIENTS_PER_ADDRESS);
    Ipv4Addr::from(u32::from(FIRST_ADDRESS) + address as u32)
}

/// One client: connects, and compares all bytes up to the end of the connection.
fn greeted(server: SocketAddr, source: Ipv4Addr) -> io::Result<()> {
    let socket = connected(server, source)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot connect ({error})")))?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    // One byte more, to see the end of the connection and bytes that do not belong there.
    let mut bytes = [0; GREETING.len() + 1];
    let mut length = 0;
    while length < bytes.len() {
        let read = stream.read(&mut bytes[length..]);
        match read.map_err(|error| io::Error::other(format!("no greeting ({error})")))? {
            0 => break,
            more => length += more,
        }
    }
    match &bytes[..length] == GREETING {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "read {length} bytes that differ from the greeting; please report this"
        ))),
    }
}

fn connected(server: SocketAddr, source: Ipv4Addr) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    ramie::ring::connect(&socket, server)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that writes these bytes to each of `clients` clients.
    fn server(bytes: &'static [u8], clients: usize) -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(clients) {
                std::io::Write::write_all(&mut stream.unwrap(), bytes).unwrap();
            }
        });
        address
    }

    #[test]
    fn every_client_compares_every_byte() {
        ramie::run(|| {
            let visits = visit(server(GREETING, 7), 7, 3).unwrap();
            assert_eq!(visits.clients, 7);
            assert!(visits.sum_us >= visits.max_us && visits.max_us > 0.0);
            for wrong in [&b"hello from servet\n"[..], b"hello", b"", b"hello from server\n!"] {
                let error = visit(server(wrong, 1), 1, 1).unwrap_err().to_string();
                assert!(error.contains("client 1 of 1: read"), "{error}");
            }
        });
    }

    #[test]
    fn a_client_that_cannot_connect_is_an_error() {
        let closed = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let error = ramie::run(|| visit(address, 3, 2)).unwrap_err().to_string();
        assert!(error.contains("of 3: cannot connect"), "{error}");
    }

    #[test]
    fn clients_come_from_several_addresses() {
        let addresses = [0, 9_999, 10_000, 2_560_000].map(|number| source(number).to_string());
        assert_eq!(addresses, ["127.1.0.1", "127.1.0.1", "127.1.0.2", "127.1.1.1"]);
        assert!(source(u32::MAX.into()).is_loopback());
    }
}
