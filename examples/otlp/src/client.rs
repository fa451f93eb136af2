//! A client for one kind of request: a `POST` over a connection of its own.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ramie::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(10);
/// More than a collector answers.
const MOST_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Client;

#[async_trait]
impl HttpClient for Client {
    /// Blocks the strand that polls: the thread of the batch processor.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        Ok(send(&request)?)
    }
}

fn send(request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
    let authority = request.uri().authority().ok_or_else(|| invalid("the endpoint has no host"))?;
    let port = authority.port_u16().unwrap_or(80);
    let mut stream = TcpStream::connect((authority.host(), port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let body = request.body();
    // HTTP/1.0, so that the answer ends with the connection.
    let mut head = format!("{} {} HTTP/1.0\r\n", request.method(), request.uri().path());
    head += &format!("host: {authority}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in request.headers() {
        let value = value.to_str().map_err(|_| invalid("a header is no text"))?;
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| invalid("the collector's answer is not HTTP"))
}

/// The status and the body of an answer.
fn parse(answer: &[u8]) -> Option<Response<Bytes>> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = str::from_utf8(&answer[..end]).ok()?;
    let status: u16 = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let body = Bytes::copy_from_slice(&answer[end + 4..]);
    Response::builder().status(status).body(body).ok()
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
