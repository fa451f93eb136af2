//! WebSocket over streams of HTTP/2 (RFC 8441), with hyper's client.

use std::{future::poll_fn, pin::Pin};

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request as HyperRequest, Response as HyperResponse,
    body::{Bytes, Incoming},
    client::conn::http2::{self, SendRequest},
    ext::Protocol,
    rt::{Read as _, ReadBuf, Write as _},
    upgrade::Upgraded,
};
use ramie::{fiber::JoinHandle, future::block_on};
use ramie_futures::{Io, LocalFibers};
use ramie_http::{Limits, StatusCode};
use tungstenite::protocol::Role;

use super::*;

type Sender = SendRequest<Empty<Bytes>>;

/// The stream of the client, for tungstenite.
struct Blocking(Upgraded);

impl Read for Blocking {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = ReadBuf::new(buf);
        block_on(poll_fn(|cx| Pin::new(&mut self.0).poll_read(cx, filled.unfilled())))?;
        Ok(filled.filled().len())
    }
}

impl Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block_on(poll_fn(|cx| Pin::new(&mut self.0).poll_write(cx, bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `f` with a connection of HTTP/2, which ends with it.
fn with_connection(
    upgrade: impl Fn(WebSocketUpgrade) -> Response + Send + Sync + 'static,
    f: impl FnOnce(&mut Sender, &ServerHandle),
) {
    ramie::run(|| {
        let limits = Limits { idle_timeout: Duration::from_millis(50), ..Limits::default() };
        let server = Server::bind("127.0.0.1:0").unwrap().limits(limits);
        let server = server.grace(Duration::from_secs(1000));
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let router = Router::new().route("/", get(upgrade)).route("/plain", get(|| "plain"));
        let serving = fiber::spawn(move || server.serve(router));
        let (mut sender, driven) = open(TcpStream::connect(address).unwrap());
        f(&mut sender, &stop.0);
        drop(sender);
        driven.join().unwrap().unwrap();
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}

fn open(stream: TcpStream) -> (Sender, JoinHandle<hyper::Result<()>>) {
    let (sender, connection) = block_on(http2::handshake(LocalFibers, Io::new(stream))).unwrap();
    // Another fiber of hyper receives the settings of the server.
    while !connection.is_extended_connect_protocol_enabled() {
        fiber::yield_now();
    }
    (sender, fiber::spawn_local(|| block_on(connection)))
}

fn ask(sender: &mut Sender, request: HyperRequest<()>) -> HyperResponse<Incoming> {
    block_on(sender.send_request(request.map(|()| Empty::new()))).unwrap()
}

fn connect_to(path: &str, protocol: &'static str) -> HyperRequest<()> {
    HyperRequest::builder()
        .method("CONNECT")
        .uri(format!("http://a.test{path}"))
        .header("sec-websocket-version", "13")
        .extension(Protocol::from_static(protocol))
        .body(())
        .unwrap()
}

fn connect(sender: &mut Sender) -> Client<Blocking> {
    let mut request = connect_to("/", "websocket");
    request.headers_mut().insert("sec-websocket-protocol", "b".parse().unwrap());
    let response = ask(sender, request);
    assert_eq!(response.status(), StatusCode::OK);
    let headers: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
    assert_eq!(headers, ["sec-websocket-protocol", "date"]);
    let upgraded = block_on(hyper::upgrade::on(response)).unwrap();
    Client::from_raw_socket(Blocking(upgraded), Role::Client, None)
}

fn echoing(upgrade: WebSocketUpgrade) -> Response {
    upgrade.subprotocols(&["b"]).on_upgrade(echo)
}

fn closes_with(client: &mut Client<Blocking>, code: u16) {
    let told = loop {
        if let Message::Close(frame) = client.read().unwrap() {
            break frame.map_or(1005, |frame| frame.code.into());
        }
    };
    assert_eq!(told, code);
    assert!(matches!(client.read(), Err(Error::ConnectionClosed)));
}

#[test]
fn streams_carry_messages_beside_requests() {
    with_connection(echoing, |sender, _| {
        let mut clients = [connect(sender), connect(sender)];
        for size in [5, 100_000, 1 << 20] {
            for client in &mut clients {
                client.send(Message::binary(vec![7; size])).unwrap();
            }
            for client in &mut clients {
                assert_eq!(client.read().unwrap(), Message::binary(vec![7; size]));
            }
            let plain = HyperRequest::get("http://a.test/plain").body(()).unwrap();
            let body = ask(sender, plain).into_body();
            assert_eq!(block_on(body.collect()).unwrap().to_bytes(), "plain");
        }
        // The connection is not idle meanwhile.
        fiber::sleep(Duration::from_millis(200));
        for mut client in clients {
            client.close(None).unwrap();
            closes_with(&mut client, 1005);
        }
    });
}

#[test]
fn other_uses_of_connect_are_refused() {
    with_connection(echoing, |sender, _| {
        let mut no_version = connect_to("/", "websocket");
        no_version.headers_mut().remove("sec-websocket-version");
        for (request, status) in [
            (connect_to("/", "other"), 501),
            (connect_to("/plain", "websocket"), 501),
            (connect_to("/none", "websocket"), 404),
            (no_version, 426),
        ] {
            assert_eq!(ask(sender, request).status(), status);
        }
    });
}

#[test]
fn a_stop_closes_streams_with_1001() {
    with_connection(echoing, |sender, server| {
        let mut client = connect(sender);
        client.send(Message::text("hello")).unwrap();
        assert_eq!(client.read().unwrap(), Message::text("hello"));
        server.stop();
        closes_with(&mut client, 1001);
    });
}

#[test]
fn a_silent_stream_is_asked_and_then_left() {
    let ended = Arc::new(Event::new());
    let upgrade = {
        let ended = Arc::clone(&ended);
        move |upgrade: WebSocketUpgrade| {
            let ended = Arc::clone(&ended);
            let upgrade = upgrade.subprotocols(&["b"]).idle_timeout(Duration::from_millis(100));
            upgrade.on_upgrade(move |mut socket| {
                assert_eq!(socket.read().unwrap_err().kind(), ErrorKind::TimedOut);
                ended.set();
                Ok(())
            })
        }
    };
    with_connection(upgrade, |sender, _| {
        let mut client = connect(sender);
        for _ in 0..3 {
            assert_eq!(client.read().unwrap(), Message::Ping("".into()));
        }
        ended.wait().unwrap();
    });
}

/// A handler need not read to be ended with its connection.
#[test]
fn the_end_of_the_connection_cancels_its_streams() {
    let cancelled = Arc::new(Event::new());
    let upgrade = {
        let cancelled = Arc::clone(&cancelled);
        move |upgrade: WebSocketUpgrade| {
            let cancelled = Arc::clone(&cancelled);
            upgrade.subprotocols(&["b"]).on_upgrade(move |_| {
                assert!(Event::new().wait().is_err());
                cancelled.set();
                Ok(())
            })
        }
    };
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let serving = fiber::spawn(move || server.serve(Router::new().route("/", get(upgrade))));
        let stream = TcpStream::connect(address).unwrap();
        let other = stream.try_clone().unwrap();
        let (mut sender, driven) = open(stream);
        let client = connect(&mut sender);
        other.shutdown(std::net::Shutdown::Both).unwrap();
        cancelled.wait().unwrap();
        drop((client, sender));
        let _ = driven.join().unwrap();
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}
