//! axum, hyper, tower and httparse on fibers.

use std::{
    collections::HashMap,
    convert::Infallible,
    io::{self, Read, Write},
    net::SocketAddr,
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Query, State},
    routing::{get, post},
};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Bytes, service::service_fn};
use hyper_util::service::TowerToHyperService;
use ramie::{
    fiber,
    future::{block_on, block_on_or_cancelled},
    net::TcpStream,
};
use ramie_futures::{Io, LocalFibers};
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::{
    harness::{Kind, Section, Tried, Way},
    sections::support::beside_server,
};

const FILE: &str = "web/servers.rs";

pub(super) const SECTIONS: [Section; 4] = [
    Section {
        kind: Kind::Web,
        way: Way::Futures,
        against: "hyper's client",
        note: "`TowerToHyperService` makes a `Router` a service for hyper. Without axum's feature \
               `tokio`, which has `axum::serve`, no runtime of tokio is needed, and handlers may \
               wait in plain calls of Ramie.",
        ..Section::new("axum", FILE, axum)
    },
    Section {
        kind: Kind::Web,
        way: Way::Futures,
        against: "itself, by HTTP/1.1 and HTTP/2",
        note: "Use `ramie_futures::{Io, LocalFibers}` as its stream and executor. Its timers need \
               tokio; use deadlines of Ramie instead.",
        ..Section::new("hyper", FILE, hyper)
    },
    Section {
        kind: Kind::Web,
        way: Way::Futures,
        against: "itself",
        note: "`block_on(service.ready())`, then `block_on(service.call(request))`. Layers that \
               need tokio's timer or spawn, such as `timeout`, need `block_on_with`.",
        ..Section::new("tower", FILE, tower)
    },
    Section {
        kind: Kind::Web,
        against: "ramie-http",
        note: "It parses bytes in memory.",
        ..Section::new("httparse", FILE, httparse)
    },
];

fn serve_axum(stream: TcpStream) -> io::Result<()> {
    async fn add(State(sum): State<i64>, Query(numbers): Query<HashMap<String, i64>>) -> String {
        // A plain call that waits.
        fiber::sleep(Duration::from_millis(2));
        (sum + numbers.values().sum::<i64>()).to_string()
    }
    async fn double(Json(numbers): Json<Vec<i64>>) -> Json<Vec<i64>> {
        Json(numbers.into_iter().map(|number| 2 * number).collect())
    }
    let router = Router::new().route("/add", get(add)).route("/double", post(double)).with_state(1);
    let service = TowerToHyperService::new(router);
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(Io::new(stream), service);
    block_on_or_cancelled(connection).map_err(io::Error::from)?.map_err(io::Error::other)
}

type Answer = (StatusCode, Bytes);

/// Sends requests over one connection of HTTP/1.1.
fn ask_by_http1(
    address: SocketAddr,
    requests: Vec<Request<Full<Bytes>>>,
) -> io::Result<Vec<Answer>> {
    let stream = Io::new(TcpStream::connect(address)?);
    let (mut sender, connection) =
        block_on(hyper::client::conn::http1::handshake(stream)).map_err(io::Error::other)?;
    let connection = fiber::spawn_local(|| block_on(connection));
    let mut answers = Vec::new();
    for request in requests {
        let answer = block_on(sender.send_request(request)).map_err(io::Error::other)?;
        let status = answer.status();
        let body = block_on(answer.into_body().collect()).map_err(io::Error::other)?;
        answers.push((status, body.to_bytes()));
    }
    drop(sender);
    connection.join().expect("no panic").map_err(io::Error::other)?;
    Ok(answers)
}

fn axum() -> Tried {
    beside_server(serve_axum, |address| {
        let get = Request::get("/add?a=2&b=3").header("host", "x").body(Full::default())?;
        let post = Request::post("/double").header("host", "x");
        let post = post.header("content-type", "application/json").body(Full::from("[1, 21]"))?;
        let lost = Request::get("/lost").header("host", "x").body(Full::default())?;
        let answers = ask_by_http1(address, vec![get, post, lost])?;
        assert_eq!(answers[0], (StatusCode::OK, "6".into()));
        assert_eq!(answers[1], (StatusCode::OK, "[2,42]".into()));
        assert_eq!(answers[2].0, StatusCode::NOT_FOUND);
        Ok(())
    })
}

async fn mirror(
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    Ok(Response::new(Full::new(request.into_body().collect().await?.to_bytes())))
}

fn serve_http1(stream: TcpStream) -> io::Result<()> {
    let server = hyper::server::conn::http1::Builder::new();
    let connection = server.serve_connection(Io::new(stream), service_fn(mirror));
    block_on_or_cancelled(connection).map_err(io::Error::from)?.map_err(io::Error::other)
}

fn serve_http2(stream: TcpStream) -> io::Result<()> {
    let server = hyper::server::conn::http2::Builder::new(LocalFibers);
    let connection = server.serve_connection(Io::new(stream), service_fn(mirror));
    block_on_or_cancelled(connection).map_err(io::Error::from)?.map_err(io::Error::other)
}

fn hyper() -> Tried {
    let large = Bytes::from(vec![7; 1_000_000]);
    beside_server(serve_http1, |address| -> Tried {
        let request = || Request::post("/").header("host", "x").body(Full::new(large.clone()));
        let answers = ask_by_http1(address, vec![request()?, request()?])?;
        assert!(answers.iter().all(|(_, body)| *body == large));
        Ok(())
    })?;
    beside_server(serve_http2, |address| {
        let stream = Io::new(TcpStream::connect(address)?);
        let (sender, connection) =
            block_on(hyper::client::conn::http2::handshake(LocalFibers, stream))?;
        let connection = fiber::spawn_local(|| block_on(connection));
        let ask = |_| {
            let (mut sender, body) = (sender.clone(), Full::new(large.clone()));
            fiber::spawn_local(move || -> Result<Bytes, hyper::Error> {
                let request = Request::post("http://x/").body(body).expect("a valid request");
                let answer = block_on(sender.send_request(request))?;
                Ok(block_on(answer.into_body().collect())?.to_bytes())
            })
        };
        let answers: Vec<_> = (0..8).map(ask).collect();
        for answer in answers {
            assert!(answer.join().expect("no panic")? == large);
        }
        drop(sender);
        Ok(connection.join().expect("no panic")?)
    })
}

fn tower() -> Tried {
    let double = tower::service_fn(|number: u32| async move {
        fiber::sleep(Duration::from_millis(2));
        Ok::<_, Infallible>(2 * number)
    });
    let service = ServiceBuilder::new()
        .concurrency_limit(2)
        .map_request(|text: &str| text.len() as u32)
        .map_response(|number: u32| number.to_string())
        .service(double);
    let calls: Vec<_> = ["a", "bb", "ccc", "dddd"]
        .map(|text| {
            let mut service = service.clone();
            fiber::spawn_local(move || {
                block_on(service.ready()).expect("infallible");
                block_on(service.call(text)).expect("infallible")
            })
        })
        .into();
    let answers: Vec<_> = calls.into_iter().map(|call| call.join().expect("no panic")).collect();
    assert_eq!(answers, ["2", "4", "6", "8"]);
    Ok(())
}

fn httparse() -> Tried {
    super::beside_ramie_http(|address| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Response::new(&mut headers);
        let length = head.parse(&answer)?.unwrap();
        assert_eq!(head.code, Some(200));
        assert_eq!(&answer[length..], b"hello");
        Ok(())
    })
}
