//! monoio and compio on io_uring, one thread each. They need an owned buffer for each op.

use std::io;

use super::{
    listen,
    request::{Exchange, HEAD_MAX},
};
use crate::rings;

pub fn serve_on_monoio() -> io::Result<()> {
    use ::monoio::{
        io::{AsyncReadRent, AsyncWriteRentExt},
        net::{TcpListener, TcpStream},
    };

    async fn converse(mut stream: TcpStream) -> io::Result<()> {
        let mut exchange = Exchange::new();
        let mut buffer = Vec::with_capacity(HEAD_MAX);
        loop {
            let result;
            (result, buffer) = stream.read(buffer).await;
            match result? {
                0 => return Ok(()),
                count => exchange.received_elsewhere(&buffer[..count])?,
            }
            let result;
            (result, exchange.output) = stream.write_all(exchange.output).await;
            result?;
            exchange.output.clear();
        }
    }

    rings::monoio()?.block_on(async {
        let listener = TcpListener::from_std(listen()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            ::monoio::spawn(converse(stream));
        }
    })
}

pub fn serve_on_compio() -> io::Result<()> {
    use ::compio::{
        BufResult,
        io::{AsyncRead, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        runtime::spawn,
    };

    async fn converse(mut stream: TcpStream) -> io::Result<()> {
        let mut exchange = Exchange::new();
        let mut buffer = Vec::with_capacity(HEAD_MAX);
        loop {
            let result;
            buffer.clear();
            BufResult(result, buffer) = stream.read(buffer).await;
            match result? {
                0 => return Ok(()),
                count => exchange.received_elsewhere(&buffer[..count])?,
            }
            let result;
            BufResult(result, exchange.output) = stream.write_all(exchange.output).await;
            result?;
            exchange.output.clear();
        }
    }

    rings::compio()?.block_on(async {
        let listener = TcpListener::from_std(listen()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            spawn(converse(stream)).detach();
        }
    })
}
