//! WebSocket over TLS, whose stream is read and written at once.

use ramie_http::{Tls, TlsConfig};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

use super::*;

const MESSAGES: usize = 300;
const SIZE: usize = 40_000;

/// Sends and receives at once: more than the buffers of the kernel hold.
fn flood(mut socket: WebSocket) -> io::Result<()> {
    let sender = socket.sender();
    let sending = fiber::spawn(move || {
        (0..MESSAGES).try_for_each(|number| sender.send(vec![number as u8; SIZE]))
    });
    let mut received = 0;
    while let Some(message) = socket.read()? {
        assert_eq!(message, Message::binary(vec![received as u8; SIZE]));
        received += 1;
    }
    sending.join().unwrap()?;
    assert_eq!(received, MESSAGES);
    Ok(())
}

#[test]
fn tls_carries_both_directions_at_once() {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::new(TlsConfig::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let ended = Arc::new(Event::new());
    let upgrade = {
        let ended = Arc::clone(&ended);
        move |upgrade: WebSocketUpgrade| {
            let ended = Arc::clone(&ended);
            upgrade.on_upgrade(move |socket| {
                flood(socket).inspect(|()| {
                    ended.set();
                })
            })
        }
    };
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().tls(&tls);
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let serving = fiber::spawn(move || server.serve(Router::new().route("/", get(upgrade))));
        let name = "a.test".try_into().unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = ClientRequestBuilder::new("wss://a.test/".parse().unwrap());
        let (mut client, _) = client(request, StreamOwned::new(session, stream)).unwrap();
        for number in 0..MESSAGES {
            client.send(Message::binary(vec![number as u8; SIZE])).unwrap();
            // The server sends whether or not it receives.
            let received = client.read().unwrap();
            assert_eq!(received, Message::binary(vec![number as u8; SIZE]));
        }
        client.close(None).unwrap();
        while client.read().is_ok() {}
        ended.wait().unwrap();
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}
