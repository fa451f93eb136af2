//! HTTPS: clients of rustls, curl and openssl against a server.

mod certificates;
mod idle;
mod programs;

use std::{
    env, fs,
    io::{self, ErrorKind, Read, Write},
    net::SocketAddr,
    process,
    sync::Arc,
    time::Duration,
};

use ramie::{fiber, net::TcpStream};
use ramie_http::{
    Body, ClientCertificates, Limits, Request, Router, Server, ServerHandle, Tls, TlsConfig,
    TlsInfo, get, post,
};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    crypto::ring,
};

use self::certificates::{Authority, Issued};

type Client = StreamOwned<ClientConnection, TcpStream>;

fn config(issued: &Issued) -> TlsConfig {
    TlsConfig::from_pem(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap()
}

fn about(tls: TlsInfo) -> String {
    let name = tls.server_name().unwrap_or("no name");
    let certificates = tls.client_certificates().len();
    format!("{} {name} {certificates} {}", tls.version(), tls.is_resumed())
}

fn router() -> Router {
    Router::new()
        .route("/", get(|| "hello"))
        .route("/tls", get(about))
        .route("/file", get(source))
        .route("/large", get(|| Body::from(vec![7; LARGE])))
        .route("/echo", post(|request: Request| request.into_body()))
        .route("/text", post(|text: String| text))
        .route(
            "/length",
            post(|mut body: Body| io::copy(&mut body, &mut io::sink()).unwrap().to_string()),
        )
}

const LARGE: usize = 3 << 20;

/// A body of this test's own source.
fn source() -> Body {
    let file =
        ramie::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/main.rs")).unwrap();
    Body::from_file(file, 0..SOURCE.len() as u64)
}

const SOURCE: &str = include_str!("main.rs");

/// Runs `f` with the address of a server.
fn with_server(tls: Option<&Tls>, limits: Limits, f: impl FnOnce(SocketAddr)) {
    ramie::run(|| {
        let mut server = Server::bind("127.0.0.1:0").unwrap().limits(limits);
        if let Some(tls) = tls {
            server = server.tls(tls);
        }
        let (address, handle) = (server.local_addr().unwrap(), server.handle());
        let serving = fiber::spawn(move || server.serve(router()));
        let stop = StopAtEnd(handle);
        f(address);
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}

/// Stops a server also when the test has failed.
struct StopAtEnd(ServerHandle);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn client_config(roots: RootCertStore, own: Option<&Issued>) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own.map(Issued::for_rustls) {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    })
}

fn connect(address: SocketAddr, config: &Arc<ClientConfig>, name: &'static str) -> Client {
    let session = ClientConnection::new(Arc::clone(config), name.try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    StreamOwned::new(session, stream)
}

/// Sends a request, and returns the body of its response, up to the end of the stream.
fn ask(client: &mut Client, path: &str) -> io::Result<String> {
    write!(client, "GET {path} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n")?;
    let mut response = String::new();
    // Fails if the server closes without `close_notify`.
    client.read_to_string(&mut response)?;
    Ok(response.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn alert_of(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

#[test]
fn certificates_are_chosen_by_name() {
    let authority = Authority::new("authority");
    let (a, b) = (authority.server(&["a.test"]), authority.server(&["b.test", "*.b.test"]));
    let both = config(&a).certificate(b.chain.as_bytes(), b.key.as_bytes()).unwrap();
    let tls = Tls::new(both.clone()).unwrap();
    let trusting = client_config(authority.roots(), None);
    with_server(Some(&tls), Limits::default(), |address| {
        for name in ["a.test", "b.test", "x.b.test"] {
            let found = ask(&mut connect(address, &trusting, name), "/tls").unwrap();
            assert_eq!(found, format!("TLSv1_3 {name} 0 false"));
        }
        // The first certificate, which the client does not accept for this name.
        let refused = ask(&mut connect(address, &trusting, "c.test"), "/tls").unwrap_err();
        assert!(refused.to_string().contains("not valid for name"), "{refused}");

        tls.replace(both.refuse_unknown_names()).unwrap();
        let refused = ask(&mut connect(address, &trusting, "c.test"), "/tls").unwrap_err();
        assert!(alert_of(&refused).is_some(), "{refused}");
        ask(&mut connect(address, &trusting, "b.test"), "/tls").unwrap();
    });
}

#[test]
fn errors_of_files_name_the_file_or_its_part() {
    let none = TlsConfig::from_files("/none/chain.pem", "/none/key.pem").unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    assert!(none.to_string().starts_with("/none/chain.pem: "), "{none}");
    let issued = Authority::new("authority").server(&["a.test"]);
    let chain = issued.chain.as_bytes();
    let no_key = TlsConfig::from_pem(chain, chain).unwrap_err();
    assert_eq!(no_key.kind(), ErrorKind::InvalidData);
    assert!(no_key.to_string().starts_with("no private key found"), "{no_key}");
    let file = env::temp_dir().join(format!("ramie-no-key-{}", process::id()));
    fs::write(&file, chain).unwrap();
    let no_key = TlsConfig::from_files(&file, &file).unwrap_err().to_string();
    fs::remove_file(&file).unwrap();
    let expected = format!("{0} with {0}: no private key found", file.display());
    assert!(no_key.starts_with(&expected), "{no_key}");
}

#[test]
fn clients_show_their_certificates() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let server = authority.server(&["a.test"]);
    let with = |need| {
        let config = config(&server).client_certificates(authority.pem().as_bytes(), need);
        Tls::new(config.unwrap()).unwrap()
    };
    let own = [authority.client(2100), authority.client(2020), other.client(2100)];
    let asked = |address, own: Option<&Issued>| {
        let config = client_config(authority.roots(), own);
        ask(&mut connect(address, &config, "a.test"), "/tls")
    };
    with_server(Some(&with(ClientCertificates::Required)), Limits::default(), |address| {
        assert_eq!(asked(address, Some(&own[0])).unwrap(), "TLSv1_3 a.test 1 false");
        let alert = |own| alert_of(&asked(address, own).unwrap_err());
        assert_eq!(alert(None), Some(AlertDescription::CertificateRequired));
        assert_eq!(alert(Some(&own[1])), Some(AlertDescription::CertificateExpired));
        assert_eq!(alert(Some(&own[2])), Some(AlertDescription::UnknownCA));
    });
    with_server(Some(&with(ClientCertificates::Optional)), Limits::default(), |address| {
        assert_eq!(asked(address, None).unwrap(), "TLSv1_3 a.test 0 false");
        assert_eq!(asked(address, Some(&own[0])).unwrap(), "TLSv1_3 a.test 1 false");
        let alert = alert_of(&asked(address, Some(&own[1])).unwrap_err());
        assert_eq!(alert, Some(AlertDescription::CertificateExpired));
    });
}

/// Each ticket holds the client's certificate, and both wait in front of the first response.
#[test]
fn a_large_client_certificate_leaves_room_for_responses() {
    let authority = Authority::new("authority");
    let config = config(&authority.server(&["a.test"]));
    let need = ClientCertificates::Required;
    let tls = Tls::new(config.client_certificates(authority.pem().as_bytes(), need).unwrap());
    let own = client_config(authority.roots(), Some(&authority.large_client(29_000)));
    with_server(Some(&tls.unwrap()), Limits::default(), |address| {
        let mut client = connect(address, &own, "a.test");
        let text = "x".repeat(12 << 10);
        let head = "POST /text HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n";
        write!(client, "{head}content-length: {}\r\n\r\n{text}", text.len()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(&text), "{answer}");
        assert_eq!(client.conn.tls13_tickets_received(), 2);
    });
}

/// What the client goes on to send is read, so that the answer is not lost.
#[test]
fn an_upload_that_is_too_large_is_answered() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let limits = Limits { body_bytes: 1000, ..Limits::default() };
    with_server(Some(&tls), limits, |address| {
        let mut client = connect(address, &client_config(authority.roots(), None), "a.test");
        write!(client, "POST /text HTTP/1.1\r\nhost: a.test\r\ncontent-length: {LARGE}\r\n\r\n")
            .unwrap();
        client.write_all(&vec![7; LARGE]).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    });
}

#[test]
fn sessions_are_resumed_until_the_settings_change() {
    let authority = Authority::new("authority");
    let first = authority.server(&["a.test"]);
    let tls = Tls::new(config(&first)).unwrap();
    let trusting = client_config(authority.roots(), None);
    with_server(Some(&tls), Limits::default(), |address| {
        let ask_anew = || {
            let mut client = connect(address, &trusting, "a.test");
            let text = ask(&mut client, "/tls").unwrap();
            (text, client.conn.handshake_kind().unwrap())
        };
        assert_eq!(ask_anew(), ("TLSv1_3 a.test 0 false".into(), HandshakeKind::Full));
        assert_eq!(ask_anew(), ("TLSv1_3 a.test 0 true".into(), HandshakeKind::Resumed));

        let mut old = connect(address, &trusting, "a.test");
        write!(old, "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").unwrap();
        let mut head = [0; 15];
        old.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        let other = Authority::new("other");
        tls.replace(config(&other.server(&["a.test"]))).unwrap();
        let refused = ask(&mut connect(address, &trusting, "a.test"), "/").unwrap_err();
        assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
        // The old connection keeps its settings.
        assert!(ask(&mut old, "/tls").unwrap().contains("a.test 0"));

        tls.replace(config(&first)).unwrap();
        assert_eq!(ask_anew().1, HandshakeKind::Full);
    });
}

#[test]
fn bodies_go_both_ways_at_once() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let trusting = client_config(authority.roots(), None);
    let limits = Limits { body_bytes: 2 * LARGE as u64, ..Limits::default() };
    with_server(Some(&tls), limits, |address| {
        let mut client = connect(address, &trusting, "a.test");
        let large = ask(&mut client, "/large").unwrap();
        assert_eq!(ask(&mut connect(address, &trusting, "a.test"), "/file").unwrap(), SOURCE);
        assert!(large.len() == LARGE && large.bytes().all(|byte| byte == 7));

        let mut client = connect(address, &trusting, "a.test");
        let mut post = |path: &str, body: &[u8]| {
            let length = body.len();
            write!(client, "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
                .unwrap();
            client.write_all(body).unwrap();
        };
        post("/length", &vec![1; LARGE]);
        post("/length", &[]);
        let mut text = String::new();
        while text.matches("HTTP/1.1 200 OK").count() < 2 || !text.ends_with("\r\n\r\n0") {
            let mut piece = [0; 4096];
            let read = client.read(&mut piece).unwrap();
            assert!(read > 0, "{text}");
            text.push_str(str::from_utf8(&piece[..read]).unwrap());
        }
        assert!(text.contains(&format!("\r\n\r\n{LARGE}HTTP")), "{text}");
    });
}

/// The client writes on a fiber while another one reads, so that neither side waits for the other.
#[test]
fn a_reader_that_waits_does_not_stop_a_writer() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let trusting = client_config(authority.roots(), None);
    let limits = Limits { body_bytes: 2 * LARGE as u64, ..Limits::default() };
    with_server(Some(&tls), limits, |address| {
        let mut client = connect(address, &trusting, "a.test");
        // The echo is sent while the server waits for more: each piece comes back before the next
        // one is sent.
        write!(client, "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            .unwrap();
        let mut received = Vec::new();
        for number in 0..20 {
            let wanted = format!("piece {number:02}");
            // By one write, because the echo has a chunk for each piece that arrives.
            client.write_all(format!("8\r\n{wanted}\r\n").as_bytes()).unwrap();
            while !received.windows(8).any(|window| window == wanted.as_bytes()) {
                let mut piece = [0; 4096];
                let read = client.read(&mut piece).unwrap();
                assert!(read > 0);
                received.extend_from_slice(&piece[..read]);
            }
        }
    });
}

#[test]
fn plain_http_is_answered_on_a_port_of_tls() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    with_server(Some(&tls), Limits::default(), |address| {
        let mut client = TcpStream::connect(address).unwrap();
        write!(client, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 400"), "{response}");
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{response}");
    });
}

#[test]
fn garbage_instead_of_a_handshake_ends_the_connection() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    with_server(Some(&tls), Limits::default(), |address| {
        for garbage in
            [&b"\x16\x03\x01\xff\xff garbage"[..], b"\0\0\0\0\0\0\0\0\0", b"\x80\x2e\x01"]
        {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(garbage).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            // At most an alert.
            assert!(rest.is_empty() || rest[0] == 0x15, "{rest:?}");
        }
    });
}

#[test]
fn tls_on_a_plain_port_ends_at_once() {
    let trusting = client_config(Authority::new("authority").roots(), None);
    let limits = Limits { head_timeout: Duration::from_secs(1000), ..Limits::default() };
    with_server(None, limits, |address| {
        let refused = ask(&mut connect(address, &trusting, "a.test"), "/").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData, "{refused}");
    });
}

#[test]
fn a_slow_handshake_ends_at_its_limit() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let limits = Limits { handshake_timeout: Duration::from_millis(200), ..Limits::default() };
    with_server(Some(&tls), limits, |address| {
        for begin in [&b""[..], b"\x16\x03\x01"] {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(begin).unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b"");
        }
    });
}

#[test]
fn a_stop_ends_handshakes_that_wait() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let limits = Limits { handshake_timeout: Duration::from_secs(1000), ..Limits::default() };
    with_server(Some(&tls), limits, |address| {
        let client = TcpStream::connect(address).unwrap();
        // The server waits for it when the closure ends, and nobody closes it.
        std::mem::forget(client);
    });
}

#[test]
fn the_connections_of_idle_clients_end_with_close_notify() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let trusting = client_config(authority.roots(), None);
    let limits = Limits { idle_timeout: Duration::from_millis(100), ..Limits::default() };
    with_server(Some(&tls), limits, |address| {
        let mut client = connect(address, &trusting, "a.test");
        // Fails if the stream ends without `close_notify`.
        assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
    });
}
