//! A server on a fiber, and a client on the calling one.

use std::net::SocketAddr;

use ramie::fiber;
use ramie_http::{Limits, Router, Server, ServerHandle};

/// Stops a server also when its test has failed, because the test would otherwise hang.
struct Stop(ServerHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Serves while the client runs, which gets the address.
pub(crate) fn serve(limits: Limits, router: Router, client: impl FnOnce(SocketAddr)) {
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").expect("a port").limits(limits);
        let (address, stop) = (server.local_addr().expect("an address"), Stop(server.handle()));
        fiber::scope(|scope| {
            let serving = scope.spawn(move || server.serve(router));
            client(address);
            drop(stop);
            serving.join().expect("no panic").expect("no error of the listeners");
        });
    });
}
