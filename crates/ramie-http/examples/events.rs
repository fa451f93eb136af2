//! A page on which everybody sees what everybody writes, by server-sent events:
//! `cargo run --release -p ramie-http --example events -- 127.0.0.1:8080`, then open
//! <http://127.0.0.1:8080> in two windows.
//!
//! ```text
//! curl -N 127.0.0.1:8080/events
//! curl 127.0.0.1:8080/lines --data 'hello'
//! curl -N 127.0.0.1:8080/events -H 'Last-Event-ID: 1'
//! curl -N 127.0.0.1:8080/clock
//! ```

use std::{io, sync::Arc, time::Duration};

use ramie::{sync::Mutex, time::interval};
use ramie_http::{
    Html, Router, Server, StatusCode,
    extract::State,
    get,
    middleware::{AccessLog, request_id},
    post,
    sse::{LastEventId, Sse, SseEvent, SseSender},
};

/// How many lines a client that connects again can be sent.
const KEPT: usize = 1000;

const PAGE: &str = r#"<!DOCTYPE html>
<meta charset="utf-8">
<title>Lines</title>
<p>The clock of the server: <output id="clock"></output>
<form id="form"><input id="line" autofocus autocomplete="off"> <button>Send</button></form>
<ul id="lines"></ul>
<script>
  new EventSource("clock").addEventListener("tick", event => clock.value = event.data);
  new EventSource("events").onmessage = event => {
    const item = document.createElement("li");
    item.textContent = event.data;
    lines.prepend(item);
  };
  form.onsubmit = event => {
    event.preventDefault();
    fetch("lines", { method: "POST", body: line.value });
    line.value = "";
  };
</script>
"#;

/// The lines so far, and the clients that get new ones.
#[derive(Default)]
struct Board {
    /// The number of the first line that is kept.
    first: usize,
    lines: Vec<String>,
    clients: Vec<SseSender>,
}

impl Board {
    fn event(&self, number: usize) -> SseEvent {
        SseEvent::new(self.lines[number - self.first].as_str()).with_id(number.to_string())
    }

    fn add(&mut self, line: String) {
        self.lines.push(line);
        let event = self.event(self.first + self.lines.len() - 1);
        // A client that is gone or too slow is dropped; if it is slow, it connects again and gets
        // what it has missed.
        self.clients.retain(|client| client.try_send(event.clone()).is_ok());
        if self.lines.len() > KEPT {
            self.lines.remove(0);
            self.first += 1;
        }
    }
}

type Shared = State<Arc<Mutex<Board>>>;

fn events(State(board): Shared, last: Option<LastEventId>) -> Sse {
    let seen = last.and_then(|last| last.0.parse::<usize>().ok());
    Sse::new(move |client| {
        let mut next = seen.map_or(0, |last| last.saturating_add(1));
        loop {
            let mut locked = board.lock().unwrap();
            next = next.max(locked.first);
            if next >= locked.first + locked.lines.len() {
                locked.clients.push(client);
                return Ok(());
            }
            let event = locked.event(next);
            drop(locked);
            client.send(event)?;
            next += 1;
        }
    })
}

fn add(State(board): Shared, line: String) -> StatusCode {
    board.lock().unwrap().add(line);
    StatusCode::NO_CONTENT
}

fn clock() -> Sse {
    Sse::new(|client| {
        let mut ticks = interval(Duration::from_secs(1));
        for seconds in 0.. {
            ticks.tick().map_err(io::Error::from)?;
            client.send(SseEvent::new(format!("{seconds} s")).with_name("tick"))?;
        }
        Ok(())
    })
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let log = AccessLog::common(ramie::io::stdout());
    let router = Router::new()
        .route("/", get(|| Html(PAGE)))
        .route("/events", get(events))
        .route("/lines", post(add))
        .route("/clock", get(clock))
        .with_state(Arc::new(Mutex::new(Board::default())))
        .layer(request_id)
        .layer(log.layer());
    ramie::run(|| {
        let server = Server::bind(&address)?;
        println!("listening on {}", server.local_addr()?);
        server.serve(router)
    })
}
