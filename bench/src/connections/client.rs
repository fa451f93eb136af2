//! The clients: a process that opens connections, and sends and checks messages on request. A
//! message is one that is echoed, or a request of HTTP.
//!
//! | it reads | it does | it prints |
//! |---|---|---|
//! | - | opens all connections, from several addresses | `open` |
//! | a line | sends a message on each, and checks the answer | `right` |
//! | the end | closes them and ends | - |

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use clap::ValueEnum;

use ::tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::MESSAGE;
use crate::process::{self, KillOnDrop};

/// At most this number of messages are under way at once; the other connections are idle.
const AT_ONCE: usize = 512;

/// The number of addresses from which a client connects in turn.
const SOURCES: usize = 16;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
const ANSWER_BEGIN: &[u8] = b"HTTP/1.1 200 OK\r\n";
const ANSWER_END: &[u8] = b"\r\n\r\nHello, world!\n";

/// The messages of a client, and the answers that it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// A message of its own for each connection and round, and its echo.
    Echo,
    /// A request, and the answer of `ramie serve --hello`.
    Http,
}

/// A client process, which is killed when the value is dropped.
pub struct Client {
    process: KillOnDrop,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl Client {
    pub fn start(protocol: Protocol, addresses: &str, count: usize) -> Result<Self, String> {
        let protocol = protocol.to_possible_value().ok_or("a protocol without a name")?;
        let mut child: Child = process::ourselves()?
            .args(["connections-client", protocol.get_name(), addresses, &count.to_string()])
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
pub fn run(protocol: Protocol, addresses: &str, count: usize) -> Result<(), String> {
    let parsed = addresses.split(',').map(str::parse).collect::<Result<Vec<SocketAddr>, _>>();
    let addresses = parsed.map_err(|error| error.to_string())?;
    let runtime = ::tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let address = addresses[number % addresses.len()];
            let opened = connect(source(protocol, number), address).await;
            streams.push(opened.map_err(|error| format!("connection {number}: {error}"))?);
        }
        println!("open");
        let mut orders = io::stdin().lines();
        let mut round = 0;
        while orders.next().is_some() {
            for (chunk, streams) in streams.chunks_mut(AT_ONCE).enumerate() {
                exchange(protocol, streams, chunk * AT_ONCE, round).await?;
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

/// The source address of the connection of that number. Each source has its own ports. Each
/// protocol has its own sources, because ports of closed connections cannot be reused for a minute.
fn source(protocol: Protocol, number: usize) -> IpAddr {
    let network = match protocol {
        Protocol::Echo => 1 << 16,
        Protocol::Http => 2 << 16,
    };
    loopback(network + number % SOURCES)
}

/// Sends a message on each of these connections, and only then reads the answers.
async fn exchange(
    protocol: Protocol,
    streams: &mut [TcpStream],
    first: usize,
    round: usize,
) -> Result<(), String> {
    let failed = |number: usize, error: io::Error| format!("exchange {number}: {error}");
    for (number, stream) in (first..).zip(&mut *streams) {
        let sent = match protocol {
            Protocol::Echo => stream.write_all(&message(number, round)).await,
            Protocol::Http => stream.write_all(REQUEST).await,
        };
        sent.map_err(|error| failed(number, error))?;
    }
    for (number, stream) in (first..).zip(streams) {
        let is_right = match protocol {
            Protocol::Echo => has_echo(stream, &message(number, round)).await,
            Protocol::Http => has_answer(stream).await,
        };
        if !is_right.map_err(|error| failed(number, error))? {
            return Err(format!("exchange {number}: the answer is wrong"));
        }
    }
    Ok(())
}

async fn has_echo(stream: &mut TcpStream, message: &[u8; MESSAGE]) -> io::Result<bool> {
    let mut received = [0; MESSAGE];
    stream.read_exact(&mut received).await?;
    Ok(received == *message)
}

async fn has_answer(stream: &mut TcpStream) -> io::Result<bool> {
    let (mut answer, mut filled) = ([0; 512], 0);
    while !answer[..filled].ends_with(ANSWER_END) {
        match stream.read(&mut answer[filled..]).await? {
            // The end, or an answer that is too long.
            0 => return Ok(false),
            count => filled += count,
        }
    }
    Ok(answer.starts_with(ANSWER_BEGIN))
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
    use super::{Protocol, SOURCES, addresses_for, loopback, message, source};

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
        let of_echo = |number| source(Protocol::Echo, number);
        assert_eq!(of_echo(0).to_string(), "127.1.0.1");
        assert_eq!(of_echo(SOURCES - 1).to_string(), "127.1.0.16");
        assert_eq!(of_echo(SOURCES), of_echo(0));
        assert_ne!(source(Protocol::Http, 0), of_echo(0));
    }
}
