//! What several sections need.

use std::{
    error::Error,
    io::{self, Read, Write},
    net::SocketAddr,
    time::Duration,
};

use ramie::{
    cancel, fiber,
    net::{TcpListener, TcpStream},
    process::{ChildStdin, Command, Stdio},
};

use ramie_http::{Router, Server};

use crate::harness::{Tried, stack};

/// Serves connections on a port of this machine while `body` runs, each by a fiber that calls
/// `serve`. The server's fibers are cancelled when the body has ended.
pub(super) fn beside_server<T>(
    serve: impl Fn(TcpStream) -> io::Result<()> + Sync,
    body: impl FnOnce(SocketAddr) -> T,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    cancel::scope(|scope| {
        fiber::scope(|fibers| {
            fibers.spawn_local(|| {
                fiber::scope(|connections| {
                    while let Ok((stream, _)) = listener.accept() {
                        // Small answers must not wait for an acknowledgement.
                        let _ = stream.set_nodelay(true);
                        connections.spawn_local(|| {
                            // The client notices what went wrong.
                            let _ = serve(stream);
                            stack::note();
                        });
                    }
                });
            });
            let _end = AtEnd(|| _ = scope.cancel());
            cancel::shield(|| body(address))
        })
    })
}

/// Calls a function at the end of a block, also if it panics.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Serves HTTP while `body` runs.
pub(super) fn beside_http_server<T>(router: Router, body: impl FnOnce(SocketAddr) -> T) -> T {
    let server = Server::bind("127.0.0.1:0").expect("a free port").grace(Duration::ZERO);
    let address = server.local_addr().expect("an address");
    let handle = server.handle();
    fiber::scope(|fibers| {
        fibers.spawn_local(|| server.serve(router).expect("it stops in order"));
        let _end = AtEnd(|| handle.stop());
        body(address)
    })
}

/// Sends back what arrives.
pub(super) fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
        stream.flush()?;
    }
}

/// Connects two fibers by a socket. `write` gets one end, on a fiber of its own, `read` the other.
pub(super) fn over_socket<T>(
    write: impl FnOnce(TcpStream) -> Tried,
    read: impl FnOnce(TcpStream) -> Result<T, Box<dyn Error + Send + Sync>>,
) -> Result<T, Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    fiber::scope(|fibers| {
        let writer = fibers.spawn_local(|| {
            let written = write(TcpStream::connect(address)?);
            stack::note();
            written
        });
        let (stream, _) = listener.accept()?;
        let read = read(stream)?;
        writer.join().expect("no panic")?;
        Ok(read)
    })
}

/// Gives a program of the system an input that a fiber writes, and returns its output.
pub(super) fn filter(
    command: &mut Command,
    write: impl FnOnce(ChildStdin) -> Tried,
) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    fiber::scope(|fibers| {
        let writer = fibers.spawn_local(|| {
            let written = write(input.expect("piped"));
            stack::note();
            written
        });
        let mut bytes = Vec::new();
        output.expect("piped").read_to_end(&mut bytes)?;
        writer.join().expect("no panic")?;
        let status = child.wait()?;
        if status.success() { Ok(bytes) } else { Err(status.to_string().into()) }
    })
}
