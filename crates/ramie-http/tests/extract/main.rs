//! The arguments of handlers: each one, and each rejection by its status and its text.

#[path = "../common/client_fiber.rs"]
mod client_fiber;
mod cookies;
mod forms;
mod heads;
mod json;
mod multipart;
mod paths;
mod routes;
mod sockets;
mod whole;

use ramie_http::{Body, Handler, Request, Response, Router, any};

/// The status and the text of a response.
fn read(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().into_bytes(1 << 20).expect("a body");
    (status, String::from_utf8(body.into()).expect("text"))
}

/// Calls a handler, whose route is `route`.
fn call<Args: 'static>(
    route: &str,
    handler: impl Handler<Args, ()>,
    request: Request,
) -> (u16, String) {
    read(Router::new().route(route, any(handler)).call(request))
}

/// A POST whose body has a type.
fn post(content_type: &str, body: impl Into<Body>) -> Request {
    Request::post("/", body).with_header("content-type", content_type)
}

/// The line that a rejection is as a response.
fn line(status: u16, reason: &str) -> (u16, String) {
    (status, format!("{reason}\n"))
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}
