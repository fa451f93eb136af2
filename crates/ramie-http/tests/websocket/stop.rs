//! WebSockets of a server that stops.

use std::sync::Mutex;

use super::*;

/// What the handler of a WebSocket has read last.
type LastRead = Arc<Mutex<Option<io::Result<Option<Message>>>>>;

fn with_stopping_server(f: impl FnOnce(SocketAddr, &ServerHandle)) -> LastRead {
    let last = LastRead::default();
    let own = Arc::clone(&last);
    let upgrade = move |upgrade: WebSocketUpgrade| {
        let last = Arc::clone(&own);
        upgrade.on_upgrade(move |mut socket| {
            loop {
                match socket.read() {
                    Ok(Some(message)) => socket.send(message)?,
                    ended => {
                        *last.lock().unwrap() = Some(ended);
                        // It stays at its end.
                        assert!(matches!(socket.read(), Ok(None)));
                        let refused = socket.send("late").unwrap_err();
                        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
                        return Ok(());
                    }
                }
            }
        })
    };
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().grace(Duration::from_secs(1000));
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let router = Router::new().route("/", get(upgrade));
        let serving = fiber::spawn(move || server.serve(router));
        f(address, &stop.0);
        serving.join().unwrap().unwrap();
    });
    last
}

#[test]
fn a_stop_closes_with_1001() {
    let last = with_stopping_server(|address, server| {
        let mut client = connect(address);
        client.send(Message::text("hello")).unwrap();
        assert_eq!(client.read().unwrap(), Message::text("hello"));
        server.stop();
        assert_eq!(close_code(&mut client), 1001);
        // The answer of the client, then the end of the stream.
        assert!(matches!(client.read(), Err(Error::ConnectionClosed)));
    });
    assert!(matches!(*last.lock().unwrap(), Some(Ok(None))));
}

/// Its messages are not lost without a word: it is told 1001, and gets no echo.
#[test]
fn a_client_that_goes_on_is_closed() {
    with_stopping_server(|address, server| {
        let mut client = connect(address);
        client.send(Message::text("hello")).unwrap();
        assert_eq!(client.read().unwrap(), Message::text("hello"));
        server.stop();
        while client.send(Message::text("more")).is_ok() {
            match client.read() {
                Ok(Message::Close(frame)) => {
                    assert_eq!(frame.unwrap().code, CloseCode::Away);
                    break;
                }
                echo => assert_eq!(echo.unwrap(), Message::text("more")),
            }
        }
        while client.read().is_ok() {}
    });
}
