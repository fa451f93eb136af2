//! WebSocket: tungstenite's client, and bytes on a socket, against a server.

mod conformance;
mod http2;
mod secure;
mod stop;

use std::{
    io::{self, ErrorKind, Read, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use ramie::{fiber, net::TcpStream, sync::Event};
use ramie_http::{
    Response, Router, Server, ServerHandle, get,
    websocket::{CloseCode, CloseFrame, Message, WebSocket, WebSocketUpgrade},
};
use tungstenite::{
    ClientRequestBuilder, Error, HandshakeError, client::client, protocol::WebSocket as Client,
};

/// Stops a server also when the test has failed.
struct StopAtEnd(ServerHandle);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs `f` with the address of a server, whose only resource is a WebSocket.
fn with_server(
    upgrade: impl Fn(WebSocketUpgrade) -> Response + Send + Sync + 'static,
    f: impl FnOnce(SocketAddr),
) {
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let router = Router::new().route("/", get(upgrade));
        let serving = fiber::spawn(move || server.serve(router));
        f(address);
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}

fn echo(mut socket: WebSocket) -> io::Result<()> {
    while let Some(message) = socket.read()? {
        socket.send(message)?;
    }
    Ok(())
}

fn echoing(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo)
}

fn connect(address: SocketAddr) -> Client<TcpStream> {
    connect_as(address, &[]).unwrap().0
}

type Connected = (Client<TcpStream>, Option<String>);

fn connect_as(address: SocketAddr, protocols: &[&str]) -> Result<Connected, Error> {
    let mut request = ClientRequestBuilder::new(format!("ws://{address}/").parse().unwrap());
    for protocol in protocols {
        request = request.with_sub_protocol(*protocol);
    }
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    match client(request, stream) {
        Ok((socket, response)) => {
            let chosen = response.headers().get("sec-websocket-protocol");
            Ok((socket, chosen.map(|name| name.to_str().unwrap().to_owned())))
        }
        Err(HandshakeError::Failure(error)) => Err(error),
        Err(HandshakeError::Interrupted(_)) => panic!("the stream blocks"),
    }
}

fn close_code(client: &mut Client<TcpStream>) -> u16 {
    loop {
        match client.read().unwrap() {
            Message::Close(frame) => return frame.map_or(1005, |frame| frame.code.into()),
            _ => continue,
        }
    }
}

#[test]
fn messages_come_back() {
    with_server(echoing, |address| {
        let mut client = connect(address);
        for message in [Message::text("hello"), Message::binary(vec![7; 100_000])] {
            client.send(message.clone()).unwrap();
            assert_eq!(client.read().unwrap(), message);
        }
        client.send(Message::Ping("a".into())).unwrap();
        assert_eq!(client.read().unwrap(), Message::Pong("a".into()));
        client.close(Some(CloseFrame { code: CloseCode::Away, reason: "bye".into() })).unwrap();
        assert_eq!(close_code(&mut client), 1001);
        assert!(matches!(client.read(), Err(Error::ConnectionClosed)));
    });
}

#[test]
fn the_first_message_may_come_with_the_request() {
    with_server(echoing, |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
            sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let frame = b"\x81\x82\0\0\0\0hi\x88\x80\0\0\0\0";
        stream.write_all(&[head.as_bytes(), frame].concat()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(response.starts_with(b"HTTP/1.1 101 "), "{response:?}");
        let head = String::from_utf8_lossy(&response);
        assert!(head.contains("\r\nconnection: upgrade\r\n"), "{head}");
        assert!(response.ends_with(b"\r\n\r\n\x81\x02hi\x88\0"), "{response:?}");
    });
}

#[test]
fn subprotocols_and_refusals() {
    let upgrade = |upgrade: WebSocketUpgrade| upgrade.subprotocols(&["b", "a"]).on_upgrade(echo);
    with_server(upgrade, |address| {
        assert_eq!(connect_as(address, &["a", "b"]).unwrap().1.as_deref(), Some("b"));
        assert_eq!(connect_as(address, &[]).unwrap().1, None);
        let mut plain = TcpStream::connect(address).unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        plain.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 426 "), "{response}");
        assert!(response.contains("sec-websocket-version: 13\r\n"), "{response}");
    });
}

#[test]
fn messages_and_frames_have_limits() {
    let upgrade =
        |upgrade: WebSocketUpgrade| upgrade.message_bytes(1000).frame_bytes(600).on_upgrade(echo);
    with_server(upgrade, |address| {
        let mut client = connect(address);
        client.send(Message::binary(vec![1; 600])).unwrap();
        assert_eq!(client.read().unwrap().len(), 600);
        client.send(Message::binary(vec![1; 601])).unwrap();
        assert_eq!(close_code(&mut client), 1009);

        let mut client = connect(address);
        let part = |is_last: bool, code: u8| {
            let mut frame = vec![code | if is_last { 0x80 } else { 0 }, 0x80 | 126, 2, 0x58];
            frame.extend_from_slice(&[0; 4 + 600]);
            frame
        };
        // Twice 600 bytes.
        client.get_mut().write_all(&[part(false, 2), part(true, 0)].concat()).unwrap();
        assert_eq!(close_code(&mut client), 1009);
    });
}

#[test]
fn a_silent_client_is_asked_and_then_left() {
    let ended = Arc::new(Event::new());
    let upgrade = {
        let ended = Arc::clone(&ended);
        move |upgrade: WebSocketUpgrade| {
            let ended = Arc::clone(&ended);
            upgrade.idle_timeout(Duration::from_millis(100)).on_upgrade(move |mut socket| {
                assert_eq!(socket.read().unwrap_err().kind(), ErrorKind::TimedOut);
                ended.set();
                Ok(())
            })
        }
    };
    with_server(upgrade, |address| {
        let mut client = connect(address);
        // Each read answers the ping of before.
        for _ in 0..4 {
            assert_eq!(client.read().unwrap(), Message::Ping("".into()));
        }
        // Now nobody does.
        ended.wait().unwrap();
    });
}

#[test]
fn senders_send_while_the_socket_reads() {
    let begun = Arc::new(Event::new());
    let upgrade = {
        let begun = Arc::clone(&begun);
        move |upgrade: WebSocketUpgrade| {
            let begun = Arc::clone(&begun);
            upgrade.on_upgrade(move |mut socket| {
                let sender = socket.sender();
                let sending = fiber::spawn({
                    let sender = sender.clone();
                    move || {
                        begun.wait().unwrap();
                        (0..1000).try_for_each(|number| sender.send(number.to_string()))
                    }
                });
                while let Some(message) = socket.read()? {
                    socket.send(message)?;
                }
                sending.join().unwrap().unwrap();
                let refused = sender.send("late").unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
                Ok(())
            })
        }
    };
    with_server(upgrade, |address| {
        let mut client = connect(address);
        begun.set();
        let (mut numbers, mut echoes) = (0, 0);
        for _ in 0..100 {
            client.send(Message::binary(vec![1; 5000])).unwrap();
        }
        while (numbers, echoes) != (1000, 100) {
            match client.read().unwrap() {
                Message::Text(text) => {
                    assert_eq!(text.as_str(), numbers.to_string());
                    numbers += 1;
                }
                message => {
                    assert_eq!(message, Message::binary(vec![1; 5000]));
                    echoes += 1;
                }
            }
        }
        client.close(None).unwrap();
        assert_eq!(close_code(&mut client), 1005);
    });
}

#[test]
fn the_server_closes_with_a_reason() {
    let upgrade = |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(|socket| socket.close(CloseCode::Policy, "go away"))
    };
    with_server(upgrade, |address| {
        let mut client = connect(address);
        let Message::Close(Some(frame)) = client.read().unwrap() else { panic!("no close frame") };
        assert_eq!((frame.code, frame.reason.as_str()), (CloseCode::Policy, "go away"));
        assert!(matches!(client.read(), Err(Error::ConnectionClosed)));
    });
}

#[test]
fn a_stream_that_ends_without_a_close_is_an_error() {
    let ended = Arc::new(Event::new());
    let upgrade = {
        let ended = Arc::clone(&ended);
        move |upgrade: WebSocketUpgrade| {
            let ended = Arc::clone(&ended);
            upgrade.on_upgrade(move |mut socket| {
                assert_eq!(socket.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
                ended.set();
                Ok(())
            })
        }
    };
    with_server(upgrade, |address| {
        drop(connect(address));
        ended.wait().unwrap();
    });
}
