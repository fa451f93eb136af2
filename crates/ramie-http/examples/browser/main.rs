//! A page that tries the server from within a browser, and shows what passed:
//! `cargo run -p ramie-http --example browser -- 127.0.0.1:8080`, then open that address.
//!
//! With `tls` behind the address it speaks HTTPS with a new certificate, so the browser uses
//! HTTP/2. `.ci/http-browser` opens the page in headless Chromium.

use std::{
    env,
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ramie_http::{
    Body, Html, Redirect, Response, Router, Server, Tls, TlsConfig,
    extract::{Multipart, Query, Rejection, State},
    get, post,
    sse::{LastEventId, Sse, SseEvent},
    websocket::{CloseCode, Message, WebSocket, WebSocketUpgrade},
};
use serde::Deserialize;

/// Events on one connection, after which the browser has to connect again.
const EVENTS: u32 = 3;

/// How many streams were cancelled because their client went away.
type Cancelled = Arc<AtomicU32>;

/// Sends back what it gets, and closes when it is asked to.
fn echo(mut socket: WebSocket) -> io::Result<()> {
    while let Some(message) = socket.read()? {
        match &message {
            Message::Text(text) if text.as_str() == "close" => {
                return socket.close(CloseCode::Library(4001), "as you wish");
            }
            _ => socket.send(message)?,
        }
    }
    Ok(())
}

fn upgrade(upgrade: WebSocketUpgrade) -> Response {
    upgrade.subprotocols(&["mirror"]).message_bytes(4 << 20).frame_bytes(4 << 20).on_upgrade(echo)
}

/// Counts on from the last event that the browser has seen.
fn events(last: Option<LastEventId>) -> Sse {
    let first = last.and_then(|last| last.0.parse().ok()).map_or(1, |last: u32| last + 1);
    Sse::from_events((first..first + EVENTS).map(|number| {
        let event = SseEvent::new(format!("number {number}\nsecond line: ä"));
        event.with_id(number.to_string()).with_name("count").with_retry(Duration::from_millis(50))
    }))
}

/// The fields of a form and, of a file, its name, its size and a checksum.
fn describe(form: &mut Multipart) -> Result<String, Rejection> {
    let mut description = String::new();
    while let Some(mut part) = form.next_part()? {
        let name = part.name().to_owned();
        let Some(file_name) = part.file_name().map(str::to_owned) else {
            description += &format!("{name}={};", part.into_text(1000)?);
            continue;
        };
        let (mut size, mut sum, mut buffer) = (0, 0_u32, [0; 8192]);
        loop {
            let count = part.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            size += count;
            sum = buffer[..count].iter().fold(sum, |sum, byte| sum.wrapping_add((*byte).into()));
        }
        description += &format!("{name}={file_name},{size},{sum};");
    }
    Ok(description)
}

fn upload(mut form: Multipart) -> Result<String, Rejection> {
    form.set_body_limit(16 << 20);
    describe(&mut form)
}

#[derive(Deserialize)]
struct Shown {
    text: String,
}

/// What a form of a page does without a script: a post, a redirect, and a page.
fn submit(form: Multipart) -> Result<Redirect, Rejection> {
    let description = upload(form)?;
    let text: String = description.bytes().map(|byte| format!("%{byte:02x}")).collect();
    Ok(Redirect::to(format!("/shown?text={text}")))
}

fn shown(Query(Shown { text }): Query<Shown>) -> String {
    text
}

/// Five pieces, each sent when it is made.
fn pieces() -> Body {
    Body::from_writer(|out| {
        for number in 0..5 {
            write!(out, "piece {number};")?;
            out.flush()?;
            ramie::fiber::sleep(Duration::from_millis(20));
        }
        Ok(())
    })
}

/// Goes on until the client goes away.
fn endless(State(cancelled): State<Cancelled>) -> Body {
    Body::from_writer(move |out| {
        let mut ticks = ramie::time::interval(Duration::from_millis(10));
        loop {
            let sent = out.write_all(b"more").and_then(|()| out.flush());
            if let Err(error) = sent.and_then(|()| ticks.tick().map_err(io::Error::from)) {
                cancelled.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        }
    })
}

fn count(State(cancelled): State<Cancelled>) -> String {
    cancelled.load(Ordering::Relaxed).to_string()
}

fn router() -> Router {
    Router::new()
        .route("/", get(|| Html(include_str!("page.html"))))
        .route("/socket", get(upgrade))
        .route("/events", get(events))
        .route("/upload", post(upload))
        .route("/submit", post(submit))
        .route("/shown", get(shown))
        .route("/pieces", get(pieces))
        .route("/endless", get(endless))
        .route("/cancelled", get(count))
        .with_state(Cancelled::default())
}

fn certificate() -> io::Result<Tls> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.map_err(io::Error::other)?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Tls::new(TlsConfig::from_pem(chain.as_bytes(), key.as_bytes())?)
}

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let is_secure = arguments.next().is_some_and(|word| word == "tls");
    ramie::run(|| {
        let server = Server::bind(&address)?;
        let address = server.local_addr()?;
        if is_secure {
            println!("listening on https://{address}");
            server.tls(&certificate()?).serve(router())
        } else {
            println!("listening on http://{address}");
            server.serve(router())
        }
    })
}
