//! `ramie inspect --web`: one page about a process, refreshed by server-sent events, on fibers.
//!
//! Modules: [`request`] (the checks of a request), [`token`] (the secret in the URL), [`response`]
//! (the page and other answers), [`feed`] (the views, for all streams).
//!
//! # Clients that do harm
//! A connection serves one request. Its head must come within [`HEAD_TIME`], in
//! [`MOST_BYTES`](request::MOST_BYTES), and each part of the answer must be taken within
//! [`WRITE_TIME`]. There are at most [`MOST_CONNECTIONS`], of which [`feed::MOST_STREAMS`] may be
//! streams of events; further ones are closed, or answered by 503. A stream that is not read keeps
//! no events: it gets the newest one, or is closed.

mod feed;
mod request;
mod response;
mod token;

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, ToSocketAddrs},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use ramie::{
    cancel, fiber,
    net::{TcpListener, TcpStream},
};

use self::{
    feed::Feed,
    request::{Gate, Route},
    token::Token,
};
use super::source::{self, Source};
use crate::{arguments::InspectArguments, failure::Failure, output, runtime, signals};

const HEAD_TIME: Duration = Duration::from_secs(5);
const WRITE_TIME: Duration = Duration::from_secs(5);
const MOST_CONNECTIONS: usize = 32;
/// How long the server pauses if it cannot accept, because it has no descriptor.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the streams have, once the process has ended, to take the event that says so.
const LAST_TIME: Duration = Duration::from_millis(500);

pub(super) fn serve(arguments: &InspectArguments, address: &str) -> Result<(), Failure> {
    let limit = Duration::from_secs(arguments.timeout.into());
    let mut source = Source::new(arguments.pid, limit);
    // A process that does not answer is better named now than on a page.
    source.view()?;
    let addresses = resolved(address, arguments.allow_remote)?;
    let runtime = ramie::Runtime::builder().workers(1).build();
    let runtime = runtime.map_err(|error| Failure::of_runtime(&error))?;
    runtime::run(&runtime, || {
        let listener = TcpListener::bind(&addresses[..]).map_err(|e| not_listening(address, &e))?;
        let bound = listener.local_addr().map_err(|e| not_listening(address, &e))?;
        let name = address.rsplit_once(':').map_or(address, |(name, _)| name).to_owned();
        let is_remote = arguments.allow_remote;
        let gate = Gate { bound, name, token: Token::random()?, is_remote };
        announce(&gate)?;
        let server = Server { gate, feed: Feed::new(arguments.pid), pid: arguments.pid, limit };
        server.run(&listener, source, arguments.interval)
    })?
}

/// Resolves the address, and refuses one that other machines can reach.
fn resolved(address: &str, is_remote: bool) -> Result<Vec<SocketAddr>, Failure> {
    let found = address.to_socket_addrs().map_err(|error| {
        Failure::other(format!("cannot resolve {address} ({error}); use 127.0.0.1:0"))
    })?;
    let found: Vec<_> = found.collect();
    let is_open = found.iter().any(|address| !address.ip().to_canonical().is_loopback());
    if is_open && !is_remote {
        return Err(Failure::usage(format!(
            "--web {address} can be reached from other machines, and the page has no login; use \
             127.0.0.1:0 with a tunnel such as `ssh -L`, or add --allow-remote"
        )));
    }
    Ok(found)
}

fn not_listening(address: &str, error: &io::Error) -> Failure {
    Failure::other(format!("cannot listen on {address} ({error}); choose another port, or port 0"))
}

/// Prints the URL. If stdout is closed, nobody can know the token, so the server ends.
fn announce(gate: &Gate) -> Result<(), Failure> {
    let (bound, token) = (gate.bound, gate.token.as_str());
    output::line(&format!("listening on http://{bound}/?token={token}"))
}

struct Server {
    gate: Gate,
    feed: Feed,
    pid: u32,
    limit: Duration,
}

impl Server {
    /// Serves until a signal stops the server (success), or the process ends.
    fn run(
        &self,
        listener: &TcpListener,
        source: Source,
        interval: Duration,
    ) -> Result<(), Failure> {
        cancel::scope(|all| {
            let stop = all.handle();
            signals::watch(move |_| _ = stop.cancel())?;
            fiber::scope(|fibers| {
                let feed = fibers.spawn(move || {
                    let failure = self.feed.run(source, interval);
                    let was_stopped = all.is_cancelled();
                    if !was_stopped {
                        fiber::sleep(LAST_TIME);
                        all.cancel();
                    }
                    if was_stopped { Ok(()) } else { Err(failure) }
                });
                self.accept(listener);
                feed.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
            })
        })
    }

    /// Accepts until the server stops.
    fn accept(&self, listener: &TcpListener) {
        let open = AtomicUsize::new(0);
        fiber::scope(|connections| {
            loop {
                match listener.accept() {
                    // Relaxed: a count alone.
                    Ok(_) if open.load(Ordering::Relaxed) == MOST_CONNECTIONS => {}
                    Ok((stream, _)) => {
                        open.fetch_add(1, Ordering::Relaxed);
                        let open = &open;
                        connections.spawn(move || {
                            // An error concerns only this client.
                            let _ = self.attend(&stream);
                            drop(stream);
                            open.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                    Err(_) if cancel::check_cancelled().is_err() => return,
                    Err(_) => fiber::sleep(PAUSE),
                }
            }
        });
    }

    fn attend(&self, stream: &TcpStream) -> io::Result<()> {
        let route = cancel::try_with_timeout(HEAD_TIME, || self.receive(stream))?;
        match route {
            Ok(Route::Page) => {
                let nonce =
                    Token::random().map_err(|failure| io::Error::other(failure.to_string()))?;
                send(stream, &response::page(&nonce))
            }
            Ok(Route::Events) => self.stream_events(stream),
            Ok(Route::Strand(id)) => {
                let (pid, limit) = (self.pid, self.limit);
                let answer = ramie::blocking(move || source::strand(pid, &id, limit));
                send(
                    stream,
                    &match answer {
                        Ok(text) => response::text("200 OK", &text),
                        Err(failure) => response::text("404 Not Found", &failure.to_string()),
                    },
                )
            }
            Err(refused) => send(stream, &response::refusal(refused)),
        }
    }

    /// Receives the head of the request.
    fn receive(&self, mut stream: &TcpStream) -> io::Result<Result<Route, request::Refused>> {
        let mut head = Vec::with_capacity(1024);
        let mut part = [0; 1024];
        loop {
            let room = part.len().min(request::MOST_BYTES - head.len());
            let len = stream.read(&mut part[..room])?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head.extend_from_slice(&part[..len]);
            if let Some(route) = request::route(&head, &self.gate) {
                return Ok(route);
            }
        }
    }

    fn stream_events(&self, stream: &TcpStream) -> io::Result<()> {
        let Some(mut events) = self.feed.subscribe() else {
            let busy = "too many pages are open; close one of them and load this one again";
            return send(stream, &response::text("503 Service Unavailable", busy));
        };
        send(stream, &response::head_of_events())?;
        loop {
            let event = std::sync::Arc::clone(&events.events.borrow_and_update());
            send(stream, &event)?;
            events.events.changed().map_err(io::Error::other)?;
        }
    }
}

fn send(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    cancel::try_with_timeout(WRITE_TIME, || stream.write_all(text.as_bytes()))
}
