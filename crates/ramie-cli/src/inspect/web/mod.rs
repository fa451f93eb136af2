//! `ramie inspect --web`: one page about a process, refreshed by server-sent events, on fibers.
//!
//! Modules: [`gate`] (the checks of a request), [`token`] (the secret in the URL), [`pages`] (the
//! page and other answers), [`feed`] (the views, for all streams).
//!
//! # Clients that do harm
//! The server is `ramie-http`, with limits for a page of one user ([`limits`]). A stream of events
//! that is not read keeps a few events, and is closed when the client has taken nothing for
//! [`CLIENT_TIME`].

mod feed;
mod gate;
mod pages;
mod token;

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use ramie::{cancel, fiber, net::TcpListener};
use ramie_http::{Limits, Router, Server};

use self::{feed::Feed, gate::Gate, token::Token};
use super::source::Source;
use crate::{arguments::InspectArguments, failure::Failure, output, runtime, signals};

/// How long a client may take for the head of a request, for the next request, and to take a part
/// of an answer.
const CLIENT_TIME: Duration = Duration::from_secs(5);
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
        let feed = Arc::new(Feed::new(arguments.pid));
        let router = pages::router(gate, &feed, arguments.pid, limit);
        // Each trouble concerns only one client.
        let server = Server::on(listener).limits(limits(limit)).grace(LAST_TIME);
        run(server.on_trouble(|_| {}), router, &feed, source, arguments.interval)
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

/// The limits of the server, whose questions to the process may take `answer_time`.
fn limits(answer_time: Duration) -> Limits {
    Limits {
        line_bytes: 4 << 10,
        head_bytes: 8 << 10,
        fields: 64,
        body_bytes: 0,
        head_timeout: CLIENT_TIME,
        idle_timeout: CLIENT_TIME,
        write_timeout: CLIENT_TIME,
        request_timeout: answer_time + CLIENT_TIME,
        connections: 32,
        ..Limits::default()
    }
}

/// Serves until a signal stops the server (success), or the process ends.
fn run(
    server: Server,
    router: Router,
    feed: &Feed,
    source: Source,
    interval: Duration,
) -> Result<(), Failure> {
    let asking = cancel::scope(|scope| scope.handle());
    let (stop_asking, handle) = (asking.clone(), server.handle());
    signals::watch(move |_| _ = stop_asking.cancel())?;
    fiber::scope(|fibers| {
        let asked = fibers.spawn(|| {
            let failure = asking.run(|| feed.run(source, interval));
            let was_stopped = asking.is_cancelled();
            handle.stop();
            if was_stopped { Ok(()) } else { Err(failure) }
        });
        let served = server.serve(router);
        asking.cancel();
        let asked = asked.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        asked.and_then(|()| served.map_err(|error| Failure::other(error.to_string())))
    })
}
