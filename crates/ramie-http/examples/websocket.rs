//! A chat over WebSocket, whose messages go to all:
//! `cargo run --release -p ramie-http --example websocket -- 127.0.0.1:8080`,
//! then open that address in two windows. `/echo` sends back what it gets.

use std::{env, io};

use ramie::{
    structured::race,
    sync::broadcast::{self, Sender},
};
use ramie_http::{
    Html, Response, Router, Server,
    extract::State,
    get,
    websocket::{Message, WebSocket, WebSocketUpgrade},
};

const PAGE: &str = r#"<!doctype html>
<title>Chat</title>
<form><input autofocus><button>Send</button></form>
<pre></pre>
<script>
  const socket = new WebSocket(location.href.replace("http", "ws") + "chat");
  const [form, input, log] = ["form", "input", "pre"].map(name => document.querySelector(name));
  socket.onmessage = ({ data }) => log.textContent += data + "\n";
  socket.onclose = () => log.textContent += "(closed)\n";
  form.onsubmit = event => {
    event.preventDefault();
    socket.send(input.value);
    input.value = "";
  };
</script>
"#;

/// What clients say, for all of them.
type Talk = Sender<String>;

fn chat(socket: WebSocket, talk: &Talk) -> io::Result<()> {
    let mut heard = talk.subscribe();
    let sender = socket.sender();
    // A client that is gone ends the wait for messages; one that is too slow for them is dropped.
    let ended = race(|racers| {
        racers.spawn(|| listen(socket, talk));
        racers.spawn(|| {
            while let Ok(text) = heard.recv() {
                sender.send(text)?;
            }
            Ok(())
        });
    });
    ended.expect("two strands")
}

fn listen(mut socket: WebSocket, talk: &Talk) -> io::Result<()> {
    while let Some(message) = socket.read()? {
        if let Message::Text(text) = message {
            let _ = talk.send(text.as_str().to_owned());
        }
    }
    Ok(())
}

fn echo(mut socket: WebSocket) -> io::Result<()> {
    while let Some(message) = socket.read()? {
        socket.send(message)?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    ramie::run(|| {
        let join = |State(talk): State<Talk>, upgrade: WebSocketUpgrade| -> Response {
            upgrade.on_upgrade(move |socket| chat(socket, &talk))
        };
        let echo = |upgrade: WebSocketUpgrade| -> Response {
            upgrade.message_bytes(16 << 20).frame_bytes(16 << 20).on_upgrade(echo)
        };
        let router = Router::new()
            .route("/", get(|| Html(PAGE)))
            .route("/chat", get(join))
            .route("/echo", get(echo))
            .with_state(broadcast::channel(100).0);
        let server = Server::bind(&address)?;
        println!("listening on http://{}", server.local_addr()?);
        server.serve(router)
    })
}
