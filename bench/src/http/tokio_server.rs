//! The peer: one thread of tokio, httparse, and the answer that `ramie serve --hello` gives.

use std::io;

use ::tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::LocalOptions,
    task::spawn_local,
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\n\
    Hello, world!\n";
const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;

pub fn serve() -> Result<(), String> {
    ::tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build_local(LocalOptions::default())
        .and_then(|runtime| runtime.block_on(accept()))
        .map_err(|error| error.to_string())
}

async fn accept() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        // An error of a connection is the client's affair, and wrk counts it.
        spawn_local(converse(stream));
    }
}

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    let mut input = vec![0; HEAD_MAX].into_boxed_slice();
    let mut output = Vec::new();
    let mut filled = 0;
    loop {
        match stream.read(&mut input[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        let used = answer(&input[..filled], &mut output)?;
        stream.write_all(&output).await?;
        output.clear();
        input.copy_within(used..filled, 0);
        filled -= used;
    }
}

/// Answers all requests that are whole and gives their length.
fn answer(input: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
    let mut used = 0;
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&input[used..]).map_err(io::Error::other)? {
            httparse::Status::Complete(length) => used += length,
            httparse::Status::Partial => return Ok(used),
        }
        output.extend_from_slice(ANSWER);
    }
}
