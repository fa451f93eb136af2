//! Accepting beside others: a waiting strand gets the connection that is there.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use crate::common::{everywhere, on_each};
use ramie::{cancel, fiber, net::TcpListener, ring};

const LIMIT: Duration = Duration::from_secs(10);

fn listener() -> (Arc<TcpListener>, SocketAddr) {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Connects without the runtime having a turn, so a strand that the kernel wakes has not looked
/// yet.
fn connect(address: SocketAddr) -> std::net::TcpStream {
    std::net::TcpStream::connect(address).unwrap()
}

/// Lets the others go on until they wait in the kernel.
fn let_wait() {
    fiber::sleep(Duration::from_millis(2));
}

/// A strand with a multishot accept stands before the one that waits, because it has taken the
/// connection that this one was woken for. Later connections must not lie with it.
#[test]
fn a_connection_is_not_left_with_a_strand_that_accepts_no_more() {
    everywhere(|| {
        let (listener, address) = listener();
        for is_dropped in [false, true] {
            let theirs = Arc::clone(&listener);
            let waits = fiber::spawn(move || cancel::with_timeout(LIMIT, || theirs.accept()));
            let_wait();
            let _first = connect(address);
            let mut incoming = listener.incoming();
            let brief = Duration::from_millis(5);
            let taken = cancel::with_timeout(brief, || incoming.next().unwrap());
            let _second = connect(address);
            match is_dropped {
                true => drop(incoming),
                false => std::mem::forget(incoming),
            }
            let got = waits.join().unwrap();
            assert!(matches!(got, Ok(Ok(_))), "{got:?}, though one came; before: {taken:?}");
            // One of them may be left.
            while cancel::with_timeout(brief, || listener.accept()).is_ok() {}
        }
    });
}

/// The kernel wakes the one that waited first, which is just being cancelled. Then the connection
/// must not be left lying while another waits.
fn a_cancelled_one_leaves_nothing<T: Send + 'static>(accept: fn(&TcpListener) -> io::Result<T>) {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (listener, address) = listener();
            let theirs = Arc::clone(&listener);
            let (tell, told) = ramie::sync::oneshot::channel();
            let first = fiber::spawn(move || {
                cancel::scope(|scope| {
                    tell.send(scope.handle()).unwrap();
                    accept(&theirs).map(drop)
                })
            });
            let first_scope = told.recv().unwrap();
            let_wait();
            let second =
                fiber::spawn(move || cancel::with_timeout(LIMIT, || accept(&listener).map(drop)));
            let_wait();
            let _client = connect(address);
            first_scope.cancel();
            let got = first.join().unwrap();
            let _another = got.is_ok().then(|| connect(address));
            let answer = second.join().unwrap();
            assert!(matches!(answer, Ok(Ok(()))), "{answer:?}, the first {got:?}");
        });
    });
}

#[test]
fn an_accept_that_is_cancelled_takes_no_wake_up_along() {
    a_cancelled_one_leaves_nothing(TcpListener::accept);
}

#[test]
fn neither_does_the_op() {
    a_cancelled_one_leaves_nothing(|listener| ring::accept(listener));
}

#[test]
fn nor_does_one_without_a_descriptor() {
    a_cancelled_one_leaves_nothing(|listener| ring::accept_direct(listener).map(|_| ()));
}
