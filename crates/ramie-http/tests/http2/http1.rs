//! hyper's client over HTTP/1.1, to handlers that its client over HTTP/2 calls, too.

use std::io::{Read, Write};

use hyper::{
    body::Frame,
    client::conn::http1::{self as over_http1, SendRequest as SendOverHttp1},
    upgrade,
};
use ramie_http::{IntoResponse, Response, Upgrade, Upgraded};

use super::{
    bodies::{self, LARGE},
    *,
};

type ClientOverHttp1 = SendOverHttp1<ClientBody>;

fn connect_over_http1(address: SocketAddr) -> (ClientOverHttp1, Driven) {
    let stream = Io::new(TcpStream::connect(address).unwrap());
    let (client, connection) = block_on(over_http1::handshake(stream)).unwrap();
    (client, fiber::spawn_local(|| block_on(connection.with_upgrades())))
}

fn with_client_over_http1(router: Router, f: impl FnOnce(&mut ClientOverHttp1, &ServerHandle)) {
    with_server(router, bodies::limits(), |address, server| {
        let (mut client, driven) = connect_over_http1(address);
        f(&mut client, server);
        drop(client);
        driven.join().unwrap().unwrap();
    });
}

fn exchange(
    client: &mut ClientOverHttp1,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: ClientBody,
) -> HyperResponse<Incoming> {
    let mut asked = HyperRequest::builder().method(method).uri(path).header("host", "a.test");
    for (name, value) in fields {
        asked = asked.header(*name, *value);
    }
    block_on(client.ready()).unwrap();
    block_on(client.send_request(asked.body(body).unwrap())).unwrap()
}

#[test]
fn one_connection_carries_all_kinds_of_messages() {
    with_client_over_http1(bodies::router(), |client, _| {
        let get = |client: &mut _, path| exchange(client, "GET", path, &[], full(""));
        for (path, has_length) in [("/large", true), ("/read", false), ("/sized", true)] {
            let response = get(client, path);
            let fields = response.headers();
            assert_eq!(fields.contains_key("content-length"), has_length, "{path}");
            assert_eq!(fields.contains_key("transfer-encoding"), !has_length, "{path}");
            let body = block_on(response.into_body().collect()).unwrap().to_bytes();
            assert!(body.len() == LARGE && body.iter().all(|byte| *byte == 7), "{path}");
        }
        let collected = block_on(get(client, "/written").into_body().collect()).unwrap();
        assert_eq!(collected.trailers(), Some(&bodies::trailers()));
        assert_eq!(collected.to_bytes(), "0 1 2 ");
        assert_eq!(get(client, "/empty").status(), StatusCode::NO_CONTENT);
        assert_eq!(get(client, "/none").status(), StatusCode::NOT_FOUND);
        let head = exchange(client, "HEAD", "/large", &[], full(""));
        assert_eq!(head.headers()["content-length"], LARGE.to_string().as_str());
        assert_eq!(text(head), "");

        let sized = exchange(client, "POST", "/count", &[], full(vec![1; LARGE]));
        assert_eq!(text(sized), format!("{LARGE} Some({LARGE}) []"));
        let pieces = (0..300).map(|_| Frame::data(Bytes::from(vec![1; 1000])));
        let chunks = bodies::frames(pieces.chain([Frame::trailers(bodies::trailers())]));
        let chunked = exchange(client, "POST", "/count", &[("trailer", "x-sum")], chunks);
        assert_eq!(text(chunked), r#"300000 None ["x-sum"]"#);
        let waits = [("expect", "100-continue")];
        assert_eq!(text(exchange(client, "POST", "/echo", &waits, full("hello"))), "hello");
    });
}

#[test]
fn a_body_that_fails_is_an_error_of_the_client() {
    for path in ["/short", "/panics"] {
        with_server(bodies::router(), Limits::default(), |address, _| {
            let (mut client, driven) = connect_over_http1(address);
            let response = exchange(&mut client, "GET", path, &[], full(""));
            assert!(block_on(response.into_body().collect()).is_err(), "{path}");
            // The connection has ended, too: with the same error, or as one that was closed.
            let _ = driven.join().unwrap();
        });
    }
}

#[test]
fn a_server_that_stops_closes_the_connection_behind_the_response() {
    let (begun, may_end) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let handler = {
        let (begun, may_end) = (Arc::clone(&begun), Arc::clone(&may_end));
        move || {
            begun.set();
            may_end.wait().unwrap();
            "done"
        }
    };
    with_client_over_http1(Router::new().route("/", get(handler)), |client, server| {
        let stopped = server.clone();
        let stopping = fiber::spawn_local(move || {
            begun.wait().unwrap();
            stopped.stop();
            may_end.set();
        });
        let response = exchange(client, "GET", "/", &[], full(""));
        assert_eq!(response.headers()["connection"], "close");
        assert_eq!(text(response), "done");
        stopping.join().unwrap();
        assert!(block_on(client.ready()).is_err(), "the connection is closed");
    });
}

#[test]
fn the_client_changes_to_another_protocol() {
    fn shout(mut stream: Upgraded) {
        let mut bytes = [0; 3];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes.map(|byte| byte.to_ascii_uppercase())).unwrap();
    }
    let handler = || {
        let fields = [("upgrade", "shout"), ("connection", "upgrade")];
        let mut response: Response = (StatusCode::SWITCHING_PROTOCOLS, fields, ()).into_response();
        response.extensions_mut().insert(Upgrade::new(shout));
        response
    };
    with_client_over_http1(Router::new().route("/", get(handler)), |client, _| {
        let fields = [("upgrade", "shout"), ("connection", "upgrade")];
        let response = exchange(client, "GET", "/", &fields, full(""));
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let upgraded = block_on(upgrade::on(response)).unwrap();
        let parts = upgraded.downcast::<Io<TcpStream>>().unwrap();
        assert!(parts.read_buf.is_empty());
        let mut stream = parts.io.get_ref();
        stream.write_all(b"abc").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ABC");
    });
}
