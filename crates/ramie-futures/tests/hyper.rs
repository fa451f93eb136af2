//! hyper's HTTP/2 on fibers, both ends, over one connection.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, Incoming},
    client::conn::http2::{self, SendRequest},
    service::service_fn,
};
use ramie::{
    channel::{self, Receiver},
    fiber::{self, JoinHandle},
    future::{RecvFuture, block_on},
    net::{TcpListener, TcpStream},
};
use ramie_futures::{Fibers, Io, LocalFibers};

const CHUNKS: usize = 64;
const CHUNK: usize = 16 << 10;

/// A body whose parts a fiber sends.
struct Chunks {
    receiver: Receiver<Bytes>,
    next: RecvFuture<Bytes>,
}

impl Chunks {
    fn new(receiver: Receiver<Bytes>) -> Self {
        let next = (&receiver).into_future();
        Chunks { receiver, next }
    }

    /// One part, and the end.
    fn one(bytes: Bytes) -> Self {
        let (sender, receiver) = channel::bounded(1);
        sender.send(bytes).unwrap();
        Chunks::new(receiver)
    }

    fn from_fiber() -> Self {
        let (sender, receiver) = channel::bounded(1);
        fiber::spawn(move || {
            (0..CHUNKS).for_each(|n| sender.send(Bytes::from(vec![n as u8; CHUNK])).unwrap());
        });
        Chunks::new(receiver)
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let received = ready!(Pin::new(&mut self.next).poll(context));
        self.next = (&self.receiver).into_future();
        Poll::Ready(received.ok().map(|bytes| Ok(Frame::data(bytes))))
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Chunks>, hyper::Error> {
    let body = match request.uri().path() {
        "/stream" => Chunks::from_fiber(),
        "/count" => {
            let sent = request.into_body().collect().await?.to_bytes();
            Chunks::one(Bytes::from(sent.len().to_string()))
        }
        path => {
            // Blocks only the fiber of this request.
            fiber::sleep(Duration::from_millis(20));
            Chunks::one(Bytes::from(path.to_owned()))
        }
    };
    Ok(Response::new(body))
}

type Client = SendRequest<Chunks>;

/// Serves one connection, and passes its client to `f`.
fn with_client(is_local: bool, f: impl FnOnce(Client)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = fiber::spawn(move || {
        let stream = Io::new(listener.accept().unwrap().0);
        let answer = service_fn(answer);
        if is_local {
            let server = hyper::server::conn::http2::Builder::new(LocalFibers);
            block_on(server.serve_connection(stream, answer)).unwrap();
        } else {
            let server = hyper::server::conn::http2::Builder::new(Fibers);
            block_on(server.serve_connection(stream, answer)).unwrap();
        }
    });
    let stream = Io::new(TcpStream::connect(address).unwrap());
    let (client, connection) = block_on(http2::handshake(Fibers, stream)).unwrap();
    let connection = fiber::spawn(|| block_on(connection));
    f(client);
    connection.join().unwrap().unwrap();
    server.join().unwrap();
}

fn ask(client: &Client, path: String, body: Chunks) -> JoinHandle<Bytes> {
    let mut client = client.clone();
    fiber::spawn(move || {
        let request = Request::post(format!("http://test{path}")).body(body).unwrap();
        let response = block_on(client.send_request(request)).unwrap();
        block_on(response.into_body().collect()).unwrap().to_bytes()
    })
}

fn parallel_requests(is_local: bool) {
    with_client(is_local, |client| {
        let start = Instant::now();
        let ask = |n: usize| ask(&client, format!("/{n}"), Chunks::one(Bytes::new()));
        let answers: Vec<_> = (0..50).map(ask).collect();
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.join().unwrap(), format!("/{n}"));
        }
        // In sequence they would take a second.
        assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
    });
}

fn streamed_bodies(is_local: bool) {
    with_client(is_local, |client| {
        let down = ask(&client, "/stream".into(), Chunks::one(Bytes::new()));
        let up = ask(&client, "/count".into(), Chunks::from_fiber());
        assert_eq!(up.join().unwrap(), (CHUNKS * CHUNK).to_string());
        let down = down.join().unwrap();
        assert_eq!(down.len(), CHUNKS * CHUNK);
        assert!(down.chunks(CHUNK).enumerate().all(|(n, chunk)| chunk == [n as u8; CHUNK]));
    });
}

#[test]
fn requests_over_one_connection_run_in_parallel() {
    ramie::run(|| parallel_requests(true));
}

#[test]
fn bodies_are_streamed_both_ways() {
    ramie::run(|| streamed_bodies(true));
}

#[test]
fn tasks_may_run_on_several_workers() {
    let runtime = ramie::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        parallel_requests(false);
        streamed_bodies(false);
    });
}

#[test]
fn a_whole_body_is_sent() {
    ramie::run(|| {
        let (left, right) = ramie::os::unix::net::UnixStream::pair().unwrap();
        let server = fiber::spawn(move || {
            let echo = service_fn(|request: Request<Incoming>| async {
                let body = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(Response::new(Full::new(body)))
            });
            let server = hyper::server::conn::http1::Builder::new();
            block_on(server.serve_connection(Io::new(left), echo)).unwrap();
        });
        let handshake = hyper::client::conn::http1::handshake(Io::new(right));
        let (mut client, connection) = block_on(handshake).unwrap();
        let connection = fiber::spawn(|| block_on(connection));
        let body = Bytes::from(vec![7; 1 << 20]);
        let request = Request::new(Full::new(body.clone()));
        let response = block_on(client.send_request(request)).unwrap();
        assert_eq!(block_on(response.into_body().collect()).unwrap().to_bytes(), body);
        drop(client);
        connection.join().unwrap().unwrap();
        server.join().unwrap();
    });
}
