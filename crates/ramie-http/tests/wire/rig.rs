//! Servers for the tests.

use std::{
    io::Read,
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use ramie::Runtime;
use ramie_http::{Body, BodyError, IntoResponse, Limits, Request, Response, Router, StatusCode};
use ramie_http::{Server, ServerHandle};

use super::client::{Answer, Client};

/// A server on a thread of its own. Dropping it stops the server.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) handle: ServerHandle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Rig {
    pub(crate) fn start(router: Router, limits: Limits) -> Self {
        Rig::start_with(router, limits, |server| server)
    }

    pub(crate) fn start_with(
        router: Router,
        limits: Limits,
        set: impl FnOnce(Server) -> Server + Send + 'static,
    ) -> Self {
        Rig::start_on(Runtime::builder().workers(1), router, limits, set)
    }

    pub(crate) fn start_on(
        runtime: ramie::Builder,
        router: Router,
        limits: Limits,
        set: impl FnOnce(Server) -> Server + Send + 'static,
    ) -> Self {
        let (sender, started) = mpsc::channel();
        let serve = move || {
            runtime.build().expect("a runtime").run(move || {
                let server = Server::bind("127.0.0.1:0").expect("a listener");
                // Clients end their sides behind their requests, so that the server ends, too.
                let server = server.limits(limits).grace(Duration::from_secs(5));
                let server = set(server.tolerates_half_close());
                let address = server.local_addr().expect("an address");
                sender.send((address, server.handle())).expect("a test that waits");
                server.serve(router).expect("a server that serves");
            });
        };
        let thread = thread::spawn(serve);
        let (address, handle) = started.recv().expect("a server that starts");
        Rig { address, handle, thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends these bytes, and reads all answers until the server closes the connection.
    #[track_caller]
    pub(crate) fn exchange(&self, bytes: impl AsRef<[u8]>) -> Vec<Answer> {
        let mut client = self.connect();
        client.send(bytes);
        client.answers_until_close()
    }

    /// As [`exchange`](Self::exchange), but the client ends its side behind the bytes.
    #[track_caller]
    pub(crate) fn exchange_and_end(&self, bytes: impl AsRef<[u8]>) -> Vec<Answer> {
        let mut client = self.connect();
        client.send(bytes);
        client.end();
        client.answers_until_close()
    }

    /// Waits until the server has ended.
    pub(crate) fn join(mut self) {
        self.thread.take().expect("a thread").join().expect("a server that ends");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the server has failed");
        }
    }
}

/// Notes each request that reaches a handler, and answers with what it has seen: the method, the
/// target's path, and the body.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn router(&self) -> Router {
        let seen = self.clone();
        Router::new().fallback(move |request: Request| seen.answer(request))
    }

    fn answer(&self, mut request: Request) -> Response {
        let mut body = Vec::new();
        let read = request.body_mut().read_to_end(&mut body);
        let line =
            format!("{} {} {}", request.method(), request.path(), String::from_utf8_lossy(&body));
        let whole = if read.is_ok() { "" } else { "incomplete " };
        self.0.lock().unwrap().push(format!("{whole}{line}"));
        match read {
            Ok(_) => line.into_response(),
            Err(error) => {
                let status = BodyError::of(&error).map(BodyError::status);
                status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response()
            }
        }
    }

    /// The requests that have reached the handler since the last call. One whose body has failed
    /// begins with "incomplete".
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A server whose handler notes all requests.
pub(crate) fn seeing(limits: Limits) -> (Rig, Seen) {
    let seen = Seen::default();
    (Rig::start(seen.router(), limits), seen)
}

/// A body that is announced as chunks, because its length is not known.
pub(crate) fn chunked(text: &'static str) -> Body {
    Body::from_read(text.as_bytes())
}
