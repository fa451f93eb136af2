//! A TCP server that sends back what it receives: a fiber a connection.

use ramie::net::TcpListener;
use std::io::{self, Read, Write};

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    ramie::run(|| {
        let listener = TcpListener::bind(&address)?;
        println!("listening on {}", listener.local_addr()?);
        for stream in listener.incoming() {
            let mut stream = stream?;
            ramie::fiber::spawn(move || -> io::Result<()> {
                let mut buffer = [0; 4096];
                loop {
                    match stream.read(&mut buffer)? {
                        0 => return Ok(()),
                        count => stream.write_all(&buffer[..count])?,
                    }
                }
            });
        }
        Ok(())
    })
}
