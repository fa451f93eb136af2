//! A server that returns the bodies that it gets, to try clients:
//! `cargo run -p ramie-http --example mirror -- 127.0.0.1:8080`.
//!
//! `/` answers with the body of the request, `/refuse` without reading it, `/chunks` in chunks with
//! a trailer, `/close` with a close, and `/head` with the method, the path and the query of the
//! request.

use std::{io, io::Write};

use ramie_http::{Body, HeaderMap, HeaderValue, IntoResponse, Request, Response, Router};
use ramie_http::{Limits, Server, StatusCode, any};

fn mirror(request: Request) -> Response {
    request.into_body().into_response()
}

fn head(request: Request) -> String {
    format!("{} {} {}", request.method(), request.path(), request.query().unwrap_or_default())
}

fn chunks() -> Body {
    Body::from_writer(|out| {
        for number in 1..=3 {
            writeln!(out, "line {number}")?;
            out.flush()?;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-lines", HeaderValue::from_static("3"));
        out.set_trailers(trailers);
        Ok(())
    })
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let router = Router::new()
        .route("/", any(mirror))
        .route("/refuse", any(|| StatusCode::FORBIDDEN))
        .route("/chunks", any(chunks))
        .route("/close", any(|| ([("connection", "close")], "closed\n")))
        .route("/head", any(head));
    ramie::run(|| {
        let server = Server::bind(&address)?;
        println!("listening on {}", server.local_addr()?);
        server.limits(Limits { body_bytes: 64 << 20, ..Limits::default() }).serve(router)
    })
}
