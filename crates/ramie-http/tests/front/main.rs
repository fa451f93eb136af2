//! What stands in front of a server: proxies, TLS behind them, and systemd.

#[path = "../common/child.rs"]
mod child;
mod listeners;
mod memory;
mod systemd;

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ramie::{
    fiber,
    net::TcpStream,
    os::unix::net::{UnixListener, UnixStream},
};
use ramie_http::{
    Limits, Network, ProxyFields, Router, Server, ServerHandle, Tls, TlsConfig, extract::Peer, get,
};

/// Stops a server also when the test has failed.
pub(crate) struct StopAtEnd(pub(crate) ServerHandle);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn router() -> Router {
    Router::new()
        .route("/", get(|Peer(peer): Peer| peer.to_string()))
        .route("/fields", get(|fields: ProxyFields| format!("{fields:?}")))
}

fn run(server: Server, f: impl FnOnce(&ServerHandle)) {
    let stop = StopAtEnd(server.handle());
    let serving = fiber::spawn(move || server.serve(router()));
    f(&stop.0);
    drop(stop);
    serving.join().unwrap().unwrap();
}

fn with_server(proxies: &[&str], limits: Limits, f: impl FnOnce(SocketAddr, &ServerHandle)) {
    ramie::run(|| {
        let proxies = proxies.iter().map(|text| text.parse::<Network>().unwrap());
        let server = Server::bind("127.0.0.1:0").unwrap().limits(limits).proxy_protocol(proxies);
        let address = server.local_addr().unwrap();
        run(server, |handle| f(address, handle));
    });
}

const ASK: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const VERSION_1: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 50000 443\r\n";
const VERSION_2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\xc3\x50\x01\xbb";

/// Sends each piece in a segment of its own, and returns the response.
fn ask(mut stream: impl Read + Write, pieces: &[&[u8]]) -> String {
    for piece in pieces {
        stream.write_all(piece).unwrap();
        fiber::yield_now();
    }
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}")).1
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn handlers_see_the_client_behind_the_proxy() {
    with_server(&["10.0.0.0/8", "127.0.0.1"], Limits::default(), |address, _| {
        let asked = |pieces: &[&[u8]]| body(&ask(connect(address), pieces)).to_owned();
        for header in [VERSION_1.as_bytes(), VERSION_2] {
            assert_eq!(asked(&[&[header, ASK.as_bytes()].concat()]), "192.0.2.1:50000");
            let (begin, end) = header.split_at(9);
            assert_eq!(asked(&[begin, end, ASK.as_bytes()]), "192.0.2.1:50000");
            let end = [end, &ASK.as_bytes()[..10]].concat();
            assert_eq!(asked(&[begin, &end, &ASK.as_bytes()[10..]]), "192.0.2.1:50000");
        }
        for unknown in ["PROXY UNKNOWN\r\n", "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
            let told = asked(&[unknown.as_bytes(), ASK.as_bytes()]);
            assert!(told.starts_with("127.0.0.1:"), "{told}");
        }
    });
}

#[test]
fn handlers_see_the_fields_of_a_proxy() {
    with_server(&["127.0.0.1"], Limits::default(), |address, _| {
        let ask_fields = ASK.replace(" / ", " /fields ");
        let told = |header: &[u8]| {
            let told = ask(connect(address), &[header, ask_fields.as_bytes()]);
            body(&told).to_owned()
        };
        assert_eq!(told(VERSION_1.as_bytes()), "{}");
        assert_eq!(told(VERSION_2), "{}");
        let mut header = VERSION_2.to_vec();
        header[15] += 8;
        header.extend_from_slice(b"\x02\0\x05a.org");
        assert_eq!(told(&header), r#"{2: "a.org"}"#);
        // A field that is not whole.
        *header.get_mut(30).unwrap() += 1;
        assert_eq!(ask(connect(address), &[&header, ask_fields.as_bytes()]), "");
    });
}

#[test]
fn only_proxies_are_believed() {
    with_server(&["10.0.0.0/8"], Limits::default(), |address, _| {
        let told = ask(connect(address), &[ASK.as_bytes()]);
        assert!(body(&told).starts_with("127.0.0.1:"), "{told}");
        let refused = ask(connect(address), &[VERSION_1.as_bytes(), ASK.as_bytes()]);
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    });
}

#[test]
fn a_proxy_without_a_header_is_left() {
    let limits = Limits { handshake_timeout: Duration::from_millis(100), ..Limits::default() };
    with_server(&["127.0.0.0/8"], limits, |address, _| {
        for begin in [ASK, "PROXY TCP4 x\r\n", "PROXY TCP4 192.0", "", "\r\n\r\n\0"] {
            let mut stream = connect(address);
            stream.write_all(begin.as_bytes()).unwrap();
            let mut rest = Vec::new();
            // The end, or a reset because of bytes that nobody has read.
            let _ = stream.read_to_end(&mut rest);
            assert_eq!(rest, b"", "{begin:?}");
        }
        let cut = connect(address);
        cut.shutdown(Shutdown::Write).unwrap();
        assert_eq!(ask(&cut, &[]), "");
    });
}

#[test]
fn connections_count_for_the_clients_of_a_proxy() {
    let limits = Limits { connections_per_address: 1, ..Limits::default() };
    with_server(&["127.0.0.1"], limits, |address, server| {
        let header = |last: u8| format!("PROXY TCP4 192.0.2.{last} 192.0.2.9 1 2\r\n");
        let opened = |last| {
            let mut stream = connect(address);
            let ask = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
            stream.write_all(format!("{}{ask}", header(last)).as_bytes()).unwrap();
            let mut begin = [0; 15];
            stream.read_exact(&mut begin).map(|()| stream)
        };
        let first = opened(1).unwrap();
        let second = opened(2).unwrap();
        assert!(opened(1).is_err());
        drop(first);
        while server.connections() > 1 {
            fiber::yield_now();
        }
        opened(1).unwrap();
        drop(second);
    });
}

#[test]
fn unix_sockets_are_those_of_a_proxy() {
    ramie::run(|| {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("front.socket");
        let _ = std::fs::remove_file(&path);
        let server = Server::on_unix(UnixListener::bind(&path).unwrap());
        run(server.proxy_protocol([]), |_| {
            let stream = UnixStream::connect(&path).unwrap();
            let told = ask(stream, &[VERSION_2, ASK.as_bytes()]);
            assert_eq!(body(&told), "192.0.2.1:50000");
        });
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn tls_begins_behind_the_header() {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::new(TlsConfig::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().tls(&tls);
        let address = server.local_addr().unwrap();
        run(server.proxy_protocol(["127.0.0.1".parse().unwrap()]), |_| {
            let name = "a.test".try_into().unwrap();
            let mut session = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
            // The header and the beginning of the handshake in one segment.
            let mut first = VERSION_1.as_bytes().to_vec();
            session.write_tls(&mut first).unwrap();
            let mut stream = connect(address);
            stream.write_all(&first).unwrap();
            let told = ask(rustls::StreamOwned::new(session, stream), &[ASK.as_bytes()]);
            assert_eq!(body(&told), "192.0.2.1:50000");
        });
    });
}
