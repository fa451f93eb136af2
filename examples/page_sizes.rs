//! Prints the sizes of the front pages of some servers (`host` or `host:port`). It asks eight
//! servers at a time, for three seconds each and ten seconds altogether.
//!
//! `cargo run -p ramie --example page_sizes -- example.org kernel.org`

use ramie::{
    cancel::{Elapsed, try_with_timeout, with_timeout},
    io::{self, Read, Write},
    net::TcpStream,
    structured::par_map,
    time::Duration,
};

fn page_size(server: &str) -> io::Result<usize> {
    let address = if server.contains(':') { server } else { &format!("{server}:80") };
    try_with_timeout(Duration::from_secs(3), || {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET / HTTP/1.0\r\nHost: {server}\r\n\r\n")?;
        stream.read_to_end(&mut Vec::new())
    })
}

fn main() {
    let servers: Vec<_> = std::env::args().skip(1).collect();
    if servers.is_empty() {
        eprintln!("usage: page_sizes SERVER…, each a host or host:port");
        std::process::exit(2);
    }
    ramie::run(|| {
        // The fibers may borrow `servers`, because `par_map` waits until all have ended.
        let all = || par_map(&servers, 8, |server| page_size(server));
        // Calls that still wait after ten seconds fail; the other results are kept.
        let sizes = with_timeout(Duration::from_secs(10), all).unwrap_or_else(Elapsed::into_value);
        for (server, size) in servers.iter().zip(sizes) {
            match size {
                Ok(size) => println!("{size:9} {server}"),
                Err(error) => println!("        - {server}: {error}"),
            }
        }
    });
}
