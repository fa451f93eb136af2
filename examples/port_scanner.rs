//! Lists the open TCP ports of a host: `port_scanner 127.0.0.1 1 1024`. Each of 256 fibers takes
//! the next port until none is left.

use std::{env, io, num::NonZero, time::Duration};

use ramie::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::Mutex,
    thread,
};

const PROBES: usize = 256;
const TIMEOUT: Duration = Duration::from_millis(500);
/// The errnos of a call for which the process or the system has no descriptor left.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];
const USAGE: &str = "usage: port_scanner <host> <first port> <last port>";

fn misused(why: &str) -> io::Error {
    io::Error::other(format!("{why}{USAGE}"))
}

fn port(text: &str) -> io::Result<u16> {
    let port = text.parse().map(NonZero::<u16>::get);
    port.map_err(|_| misused(&format!("'{text}' is no port, 1 to 65535; ")))
}

fn is_open(address: SocketAddr) -> io::Result<bool> {
    match TcpStream::connect_timeout(&address, TIMEOUT) {
        // This error is no answer about the port.
        Err(error) if error.raw_os_error().is_some_and(|code| NO_DESCRIPTOR.contains(&code)) => {
            Err(io::Error::other(format!("{error}; raise `ulimit -n` above {}", PROBES + 50)))
        }
        result => Ok(result.is_ok()),
    }
}

fn scan(arguments: &[String]) -> io::Result<()> {
    let [host, first, last] = arguments else { return Err(misused("")) };
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(misused(&format!("the first port, {first}, is above the last, {last}; ")));
    }
    let mut found = (host.as_str(), first)
        .to_socket_addrs()
        .map_err(|error| io::Error::other(format!("cannot find {host}: {error}")))?;
    let host = found.next().ok_or_else(|| misused("the host has no address; "))?.ip();
    let ports = Mutex::new(first..=last);
    let open = Mutex::new(Vec::new());
    // The lock is held while counting only, not while connecting.
    let next_port = || ports.lock().unwrap().next();
    let probe = || -> io::Result<()> {
        while let Some(port) = next_port() {
            if is_open(SocketAddr::new(host, port))? {
                open.lock().unwrap().push(port);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let probes: Vec<_> = (0..PROBES).map(|_| scope.spawn(probe)).collect();
        probes.into_iter().try_for_each(|probe| probe.join().unwrap())
    })?;
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
