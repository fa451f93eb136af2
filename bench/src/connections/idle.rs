//! The user memory of an idle connection of `ramie serve --hello`: the growth of the process per
//! connection, once each connection has been answered and is idle.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{http::first_line, process::KillOnDrop};

/// The target, in bytes per connection.
const TARGET: usize = 5 * 1024;
const WARM_UP: usize = 10;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
const ANSWER_END: &[u8] = b"Hello, world!\n";

/// Returns whether the target is met.
pub fn weigh(ramie: &Path, driver: &str, count: usize) -> Result<bool, String> {
    if !ramie.exists() {
        println!("{driver}: idle connections: skipped, there is no {}", ramie.display());
        return Ok(true);
    }
    let child = Command::new(ramie)
        .args(["serve", "--hello", "--addr", "127.0.0.1:0", "--workers", "1"])
        .env("RAMIE_DRIVER", driver)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut server = KillOnDrop(child);
    let address = first_line(&mut server)?.replace("listening on ", "");
    let warm_up = open(&address, WARM_UP)?;
    let before = resident(&server)?;
    let idle = open(&address, count)?;
    // No event reports that the last fiber waits again; its answer has been written.
    thread::sleep(Duration::from_millis(100));
    let each = resident(&server)?.saturating_sub(before) / count;
    drop((warm_up, idle));
    let verdict = if each <= TARGET { "met" } else { "MISSED" };
    println!("{driver}: {count} idle connections of `ramie serve`, {each} bytes of memory each");
    println!("  -> target {TARGET}: {verdict}");
    Ok(each <= TARGET)
}

/// Opens this number of connections, and has one request answered on each.
fn open(address: &str, count: usize) -> Result<Vec<TcpStream>, String> {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(REQUEST)?;
        let (mut answer, mut filled) = ([0; 256], 0);
        while !answer[..filled].ends_with(ANSWER_END) {
            match stream.read(&mut answer[filled..])? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(stream)
    };
    let streams = (0..count).map(|_| ask()).collect::<std::io::Result<_>>();
    streams.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => format!(
            "no port is free to connect to {address}; those of the last run are free in a minute"
        ),
        _ => format!("{address}: {error}"),
    })
}

/// The server's resident memory in bytes.
fn resident(server: &KillOnDrop) -> Result<usize, String> {
    let path = format!("/proc/{}/statm", server.0.id());
    let statm = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.map(|pages| pages * rustix::param::page_size()).ok_or(format!("{path}: no size"))
}
