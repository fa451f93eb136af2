//! One thread of tokio.

use std::io;

use ::tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, LocalOptions},
    task::spawn_local,
};

use super::{listen, request::Exchange};

pub fn serve() -> io::Result<()> {
    Builder::new_current_thread()
        .enable_io()
        .build_local(LocalOptions::default())?
        .block_on(accept())
}

async fn accept() -> io::Result<()> {
    let listener = listen()?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        // The errors of a connection concern the client, and wrk counts them.
        spawn_local(converse(stream));
    }
}

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    let mut exchange = Exchange::new();
    loop {
        match stream.read(exchange.space()).await? {
            0 => return Ok(()),
            count => exchange.received(count)?,
        }
        stream.write_all(&exchange.output).await?;
        exchange.output.clear();
    }
}
