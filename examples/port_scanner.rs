//! Says which TCP ports of a host are open: `port_scanner 127.0.0.1 1 1024`. A few hundred fibers
//! take the next port each, until there is none left.

use std::{env, io, time::Duration};

use ramie::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::Mutex,
    thread,
};

const PROBES: usize = 256;
const TIMEOUT: Duration = Duration::from_millis(500);
const USAGE: &str = "usage: port_scanner <host> <first port> <last port>";

fn port(text: &str) -> io::Result<u16> {
    text.parse().map_err(|_| io::Error::other(format!("'{text}' is no port; {USAGE}")))
}

fn scan(arguments: &[String]) -> io::Result<()> {
    let [host, first, last] = arguments else { return Err(io::Error::other(USAGE)) };
    let (first, last) = (port(first)?, port(last)?);
    let mut found = (host.as_str(), first).to_socket_addrs()?;
    let host = found.next().ok_or_else(|| io::Error::other("the host has no address"))?.ip();
    let ports = Mutex::new(first..=last);
    let open = Mutex::new(Vec::new());
    // The lock is held for as long as it takes to count, not while connecting.
    let next_port = || ports.lock().unwrap().next();
    let probe = || {
        while let Some(port) = next_port() {
            let address = SocketAddr::new(host, port);
            if TcpStream::connect_timeout(&address, TIMEOUT).is_ok() {
                open.lock().unwrap().push(port);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..PROBES {
            scope.spawn(probe);
        }
    });
    let mut open = open.into_inner().unwrap();
    open.sort_unstable();
    open.iter().for_each(|port| println!("{port} is open"));
    println!("{} of {} ports are open", open.len(), (first..=last).len());
    Ok(())
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Err(error) = ramie::run(|| scan(&arguments)) {
        eprintln!("{error}");
        std::process::exit(2);
    }
}
