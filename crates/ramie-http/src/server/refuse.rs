//! Connections for which there is no place: 503, without reading the request.
//!
//! The request is usually unread when the response is sent, so a close would reset the connection,
//! and the client could lose the response. Each such connection therefore lingers on a fiber of its
//! own. A fixed number of them linger at once; beyond it, connections are closed at once, so that
//! refusing takes bounded memory.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie::fiber::{Builder, Place};

use crate::{
    connection,
    h1::date,
    io::{Receiver, Stream},
};

/// How many refused connections linger at once.
const LINGERING_MOST: usize = 256;
/// How long one lingers.
const LINGER: Duration = Duration::from_secs(1);

/// The connections that were refused and linger.
#[derive(Clone, Default)]
pub(super) struct Refused(Arc<AtomicUsize>);

/// One of them.
struct Lingering(Arc<AtomicUsize>);

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Refused {
    /// Answers without waiting: the response fits into the buffer of a new socket.
    pub(super) fn refuse(&self, stream: Arc<Stream>, place: Place) {
        // A client that speaks TLS would not understand it, and has to connect again anyway.
        if stream.as_tls().is_some() {
            return;
        }
        let socket = stream.socket();
        let _ = socket.set_write_timeout(Some(Duration::from_millis(1)));
        let _ = socket.write_all(&overloaded());
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let lingering = Lingering(Arc::clone(&self.0));
        if before >= LINGERING_MOST {
            let _ = socket.shutdown(std::net::Shutdown::Write);
            return;
        }
        // If the spawn fails, the closure is dropped, which closes the connection.
        let spawn = || {
            Builder::new().on(place).spawn(move || {
                connection::linger(stream.socket(), &mut Receiver::new(&stream), LINGER);
                drop(lingering);
            })
        };
        let _ = catch_unwind(AssertUnwindSafe(spawn));
    }
}

fn overloaded() -> Vec<u8> {
    let mut response = b"HTTP/1.1 503 Service Unavailable\r\n".to_vec();
    date::append_field_of_now(&mut response);
    let fields = "content-length: 0\r\nretry-after: 1\r\nconnection: close";
    response.extend_from_slice(format!("{fields}\r\n\r\n").as_bytes());
    response
}
