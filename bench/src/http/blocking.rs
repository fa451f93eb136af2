//! Servers with blocking calls: a fiber of Ramie, or a coroutine of may, per connection.

use std::io::{self, Read, Write};

use super::{listen, request::Exchange, ring::Receive};

fn converse(mut stream: impl Read + Write) -> io::Result<()> {
    let mut exchange = Exchange::new();
    loop {
        match stream.read(exchange.space())? {
            0 => return Ok(()),
            count => exchange.received(count)?,
        }
        stream.write_all(&exchange.output)?;
        exchange.output.clear();
    }
}

/// Like `converse`, with bytes in the runtime's own buffers, received by one op for all.
fn converse_by_leases(stream: ::ramie::net::TcpStream) -> io::Result<()> {
    let mut exchange = Exchange::new();
    for bytes in stream.recv_each() {
        exchange.received_elsewhere(&bytes?)?;
        (&stream).write_all(&exchange.output)?;
        exchange.output.clear();
    }
    Ok(())
}

pub fn serve_on_fibers(receive: Receive) -> io::Result<()> {
    let runtime = ::ramie::Runtime::builder().workers(1).build().map_err(io::Error::other)?;
    runtime.run(|| {
        for stream in ::ramie::net::TcpListener::from(listen()?).incoming() {
            let stream = stream?;
            // The errors of a connection concern the client, and wrk counts them.
            match receive {
                Receive::Single => ::ramie::fiber::spawn(move || converse(stream)),
                Receive::Multishot => ::ramie::fiber::spawn(move || converse_by_leases(stream)),
            };
        }
        Ok(())
    })
}

pub fn serve_on_coroutines() -> io::Result<()> {
    ::may::config().set_workers(1);
    let address = "127.0.0.1:0";
    let listener = ::may::net::TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    let accept = ::may::go!(move || -> io::Result<()> {
        for stream in listener.incoming() {
            let stream = stream?;
            ::may::go!(move || converse(stream));
        }
        Ok(())
    });
    accept.join().map_err(|_| io::Error::other("a coroutine panicked"))?
}
