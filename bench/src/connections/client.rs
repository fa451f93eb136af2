//! The clients: a process that opens connections, and sends and checks messages on request.
//!
//! | it reads | it does | it prints |
//! |---|---|---|
//! | - | opens all connections, from several addresses | `open` |
//! | a line | sends a message on each, and compares the echo | `right` |
//! | the end | closes them and ends | - |

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use ::tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::MESSAGE;
use crate::process::{self, KillOnDrop};

/// At most this number of messages are under way at once; the other connections are idle.
const AT_ONCE: usize = 512;

/// The number of addresses from which a client connects in turn.
const SOURCES: usize = 8;

/// A client process, which is killed when the value is dropped.
pub struct Client {
    process: KillOnDrop,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl Client {
    pub fn start(addresses: &str, count: usize) -> Result<Self, String> {
        let mut child: Child = process::ourselves()?
            .args(["echo-client", addresses, &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let orders = child.stdin.take().ok_or("the client's input is not piped")?;
        let reports = child.stdout.take().ok_or("the client's output is not piped")?;
        Ok(Client { process: KillOnDrop(child), orders, reports: BufReader::new(reports) })
    }

    /// Waits until the client prints a word.
    pub fn expect(&mut self, word: &str) -> Result<(), String> {
        let mut line = String::new();
        self.reports.read_line(&mut line).map_err(|error| error.to_string())?;
        match line.trim() == word {
            true => Ok(()),
            // It has printed the reason on stderr.
            false => Err(format!("a client ended before it printed `{word}`")),
        }
    }

    /// Makes it send a message on each connection.
    pub fn order(&mut self) -> Result<(), String> {
        self.orders.write_all(b"\n").map_err(|error| error.to_string())
    }

    /// Makes it close all connections, and waits for its end.
    pub fn finish(self) -> Result<(), String> {
        let Client { mut process, orders, .. } = self;
        drop(orders);
        let status = process.0.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("a client ended with {status}")) }
    }
}

/// The body of the client process; `addresses` are the server's, with commas between them.
pub fn run(addresses: &str, count: usize) -> Result<(), String> {
    let parsed = addresses.split(',').map(str::parse).collect::<Result<Vec<SocketAddr>, _>>();
    let addresses = parsed.map_err(|error| error.to_string())?;
    let runtime = ::tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let address = addresses[number % addresses.len()];
            let opened = connect(source(number), address).await;
            streams.push(opened.map_err(|error| format!("connection {number}: {error}"))?);
        }
        println!("open");
        let mut orders = io::stdin().lines();
        let mut round = 0;
        while orders.next().is_some() {
            for (chunk, streams) in streams.chunks_mut(AT_ONCE).enumerate() {
                exchange(streams, chunk * AT_ONCE, round).await?;
            }
            round += 1;
            println!("right");
        }
        Ok(())
    })
}

/// Connects from a given address.
async fn connect(source: IpAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(target).await
}

/// The source address of the connection of that number. Each source has its own ports.
fn source(number: usize) -> IpAddr {
    loopback((1 << 16) + number % SOURCES)
}

/// Sends a message on each of these connections, and only then reads the answers.
async fn exchange(streams: &mut [TcpStream], first: usize, round: usize) -> Result<(), String> {
    let failed = |number: usize, error: io::Error| format!("exchange {number}: {error}");
    for (number, stream) in (first..).zip(&mut *streams) {
        let sent = stream.write_all(&message(number, round)).await;
        sent.map_err(|error| failed(number, error))?;
    }
    for (number, stream) in (first..).zip(streams) {
        let mut received = [0; MESSAGE];
        let read = stream.read_exact(&mut received).await;
        read.map_err(|error| failed(number, error))?;
        if received != message(number, round) {
            return Err(format!("exchange {number}: the echo differs from the message"));
        }
    }
    Ok(())
}

/// A message that differs from those of all other connections and rounds.
fn message(number: usize, round: usize) -> [u8; MESSAGE] {
    let mut bytes = [0; MESSAGE];
    for (place, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        let word = (number as u64 + 1 + ((round as u64) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&word.rotate_left(place as u32 * 7).to_le_bytes());
    }
    bytes
}

/// The number of addresses that a server needs for a number of connections. For each connection to
/// one address the client needs a port, and not all ports are free.
pub fn addresses_for(count: usize) -> usize {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ends: Vec<usize> = range.split_whitespace().filter_map(|end| end.parse().ok()).collect();
    let ports = match ends.as_slice() {
        &[first, last] if first < last => last - first,
        _ => 28_000,
    };
    count.div_ceil(ports * 3 / 4).max(1)
}

/// The loopback address of that number, from 0.
pub fn loopback(number: usize) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + number as u32).into()
}

#[cfg(test)]
mod tests {
    use super::{SOURCES, addresses_for, loopback, message, source};

    #[test]
    fn messages_differ() {
        assert_ne!(message(1, 0), message(2, 0));
        assert_ne!(message(1, 0), message(1, 1));
        assert_ne!(message(0, 0)[..8], message(0, 0)[8..16]);
    }

    #[test]
    fn many_connections_go_to_several_addresses() {
        assert_eq!(addresses_for(1), 1);
        assert!(addresses_for(1_000_000) > 10);
        assert_eq!(loopback(255).to_string(), "127.0.1.0");
    }

    #[test]
    fn they_come_from_several_addresses() {
        assert_eq!(source(0).to_string(), "127.1.0.1");
        assert_eq!(source(SOURCES - 1).to_string(), "127.1.0.8");
        assert_eq!(source(SOURCES), source(0));
    }
}
