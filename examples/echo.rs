//! A TCP echo server with a fiber for each connection: `echo 127.0.0.1:7000`.

use ramie::{fiber, net::TcpListener, time::Duration};
use std::io::{self, Read, Write};

fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        match stream {
            // An error on one connection ends only that connection.
            Ok(stream) => drop(fiber::spawn(|| echo(stream))),
            // Perhaps no descriptor is left; wait until some connections have closed.
            Err(_) => fiber::sleep(Duration::from_millis(10)),
        }
    }
    Ok(())
}

fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    if let Err(error) = ramie::run(|| serve(&address)) {
        eprintln!("cannot listen on {address}: {error}");
        std::process::exit(1);
    }
}
