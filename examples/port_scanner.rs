//! Says which TCP ports of a host are open: `port_scanner 127.0.0.1 1 1024`. A few hundred fibers
//! take the next port each, until there is none left.

use std::{
    env,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ramie::{net::TcpStream, sync::Mutex, thread};

const PROBES: usize = 256;
const TIMEOUT: Duration = Duration::from_millis(500);

fn argument<T: std::str::FromStr>(index: usize, default: T) -> T {
    let Some(text) = env::args().nth(index) else { return default };
    text.parse().unwrap_or_else(|_| panic!("'{text}' is not wanted: host, first port, last port"))
}

fn main() {
    let host = argument(1, IpAddr::from([127, 0, 0, 1]));
    let (first, last): (u16, u16) = (argument(2, 1), argument(3, 1024));
    let ports = Mutex::new(first..=last);
    let open = Mutex::new(Vec::new());
    // The lock is held for as long as it takes to count, not while connecting.
    let next_port = || ports.lock().unwrap().next();
    let probe = || {
        while let Some(port) = next_port() {
            if TcpStream::connect_timeout(&SocketAddr::new(host, port), TIMEOUT).is_ok() {
                open.lock().unwrap().push(port);
            }
        }
    };
    ramie::run(|| {
        thread::scope(|scope| {
            for _ in 0..PROBES {
                scope.spawn(probe);
            }
        });
    });
    let mut open = open.into_inner().unwrap();
    open.sort_unstable();
    open.iter().for_each(|port| println!("{port} is open"));
    println!("{} of {} ports are open", open.len(), (first..=last).len());
}
