//! Plain calls whose first bytes were collected, and the ends that these bytes can have.

use std::{future::poll_fn, task::Poll, time::Duration};

use ramie::{cancel::try_with_timeout, fiber, sync::oneshot};
use ramie_adapters::postgres::{PostgresConnection, PostgresError};
use tokio_postgres::NoTls;

use super::server::{Folder, Server, connect, on_fibers};

/// Ends a test that waits in vain.
const LIMIT: Duration = Duration::from_secs(20);

/// Sends a failure with a text of this length.
fn fail<S: std::io::Read + std::io::Write>(server: &mut Server<S>, length: usize) {
    server.send(b'E', format!("SFATAL\0C57P01\0M{}\0\0", "b".repeat(length)).as_bytes());
}

#[test]
fn the_reason_of_a_server_that_has_gone_is_read_to_its_end() {
    for length in [10, 10_000] {
        on_fibers(|| {
            let (folder, listener) = Folder::new(&format!("reason-{length}"));
            let (end, may_end) = oneshot::channel();
            let served = fiber::spawn_local(move || {
                let mut server = Server::accept(listener.accept().unwrap().0);
                server.query();
                server.complete();
                may_end.recv().unwrap();
                fail(&mut server, length);
            });
            let mut connection = PostgresConnection::connect(&folder.config(), NoTls).unwrap();
            connection.batch_execute("answered").unwrap();
            end.send(()).unwrap();
            served.join().unwrap();
            let error = connection.batch_execute("x").unwrap_err();
            let PostgresError::Postgres(error) = error else { panic!("{error:?}") };
            assert_eq!(error.code().map(|code| code.code()), Some("57P01"), "{error:?}");
        });
    }
}

/// With some number of earlier queries, these fill the socket, and at least a part of the request
/// stays here. Then rows arrive, for which their stream has no room until the request was sent.
#[test]
fn a_request_is_sent_although_a_stream_of_rows_holds_the_connection_back() {
    for earlier in 1..=40 {
        on_fibers(|| {
            let (folder, listener) = Folder::new(&format!("earlier-{earlier}"));
            let (go, may_go) = oneshot::channel();
            let (received, was_received) = oneshot::channel();
            let served = fiber::spawn_local(move || {
                let mut server = Server::accept(listener.accept().unwrap().0);
                may_go.recv().unwrap();
                server.send(b'T', &0_u16.to_be_bytes());
                server.rows(40);
                for _ in 0..earlier + 2 {
                    server.query();
                    server.complete();
                }
                received.send(()).unwrap();
            });
            let mut connection = PostgresConnection::connect(&folder.config(), NoTls).unwrap();
            let large = "q".repeat(7000);
            let stream = connection.run(async |client| {
                let stream = client.simple_query_raw("rows").await;
                for _ in 0..earlier {
                    let mut query = Box::pin(client.batch_execute(&large));
                    poll_fn(|context| Poll::Ready(_ = query.as_mut().poll(context))).await;
                }
                stream
            });
            let stream = Box::pin(stream.unwrap());
            fiber::spawn_local(move || {
                let _ = was_received.recv();
                drop(stream);
            });
            go.send(()).unwrap();
            try_with_timeout(LIMIT, || connection.batch_execute(&large)).unwrap();
            served.join().unwrap();
        });
    }
}

/// Answers the preparation of a statement without parameters and columns.
fn prepare<S: std::io::Read + std::io::Write>(server: &mut Server<S>) {
    expect(server, b"PDS");
    server.send(b'1', &[]);
    server.send(b't', &0_u16.to_be_bytes());
    server.send(b'n', &[]);
    server.ready();
}

fn expect<S: std::io::Read + std::io::Write>(server: &mut Server<S>, kinds: &[u8]) {
    for expected in kinds {
        let (kind, length) = server.head();
        assert_eq!(kind, *expected);
        server.rest(length);
    }
}

#[test]
fn a_call_that_fails_before_it_waits_sends_that_a_statement_was_dropped() {
    on_fibers(|| {
        let (mut connection, mut served) = connect(|mut server| {
            prepare(&mut server);
            prepare(&mut server);
            expect(&mut server, b"CS");
        });
        let dropped = connection.prepare("dropped").unwrap();
        let used = connection.prepare("used").unwrap();
        drop(dropped);
        let error = connection.execute(&used, &[&1_i32]).unwrap_err();
        assert!(matches!(error, PostgresError::Postgres(_)), "{error:?}");
        try_with_timeout(LIMIT, || served.wait()).unwrap();
        served.join().unwrap();
    });
}
