//! HTTP and WebSocket: clients against a server of `ramie-http`, and servers for its clients.

mod clients;
mod servers;
mod ureq;
mod websocket;

use std::net::SocketAddr;

use ramie_http::{Body, Router, StatusCode, get, post};

use super::support::beside_http_server;
use crate::harness::Section;

pub(super) fn sections() -> impl Iterator<Item = Section> {
    [websocket::SECTION, ureq::SECTION]
        .into_iter()
        .chain(clients::SECTIONS)
        .chain(servers::SECTIONS)
}

/// Serves while `body` runs: `/` greets, `/echo` sends a body back, `/slow` never answers.
fn beside_ramie_http<T>(body: impl FnOnce(SocketAddr) -> T) -> T {
    let never = || {
        let (_sender, never) = ramie::channel::bounded::<()>(1);
        // Until the client goes away.
        let _ = never.recv();
        StatusCode::GATEWAY_TIMEOUT
    };
    let router = Router::new()
        .route("/", get(|| "hello"))
        .route("/echo", post(|body: Body| body))
        .route("/slow", get(never));
    beside_http_server(router, body)
}
