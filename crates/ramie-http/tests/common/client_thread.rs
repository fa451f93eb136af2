//! A server on the calling runtime, and a client on a thread of its own.

use std::net::SocketAddr;

use ramie_http::{Router, Server};

/// Serves the router while `client` runs on a thread of its own.
pub(crate) fn serve<T: Send + 'static>(
    router: Router,
    client: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> T {
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let (address, handle) = (server.local_addr().unwrap(), server.handle());
        let client = std::thread::spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(address)));
            handle.stop();
            result
        });
        server.serve(router).unwrap();
        client.join().unwrap().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
