//! How calls end, and calls of both modes in turns.

use std::{
    io::{ErrorKind, Read},
    time::Duration,
};

use ramie::{
    Runtime, cancel,
    fiber::{self, Builder, Place},
    net::TcpListener,
    sync::oneshot,
};
use ramie_adapters::postgres::{PostgresConnection, PostgresError};
use tokio_postgres::NoTls;

use super::server::{Folder, Server, config, connect, on_fibers};

#[test]
fn plain_calls_and_run_take_turns() {
    on_fibers(|| {
        let (mut connection, served) = connect(Server::serve);
        for _ in 0..3 {
            connection.batch_execute("a").unwrap();
            connection.batch_execute("b").unwrap();
            connection.run(async |client| client.batch_execute("c").await).unwrap();
            connection.run(async |client| client.batch_execute("d").await).unwrap();
        }
        drop(connection);
        assert_eq!(served.join().unwrap(), 12);
    });
}

#[test]
fn a_connection_may_move_to_another_worker() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let (mut connection, served) = connect(Server::serve);
        connection.batch_execute("first").unwrap();
        for round in 0..6 {
            let there = Builder::new().on(Place::Worker((round + 1) % 2));
            let calls = move || {
                connection.batch_execute("plain").unwrap();
                if round % 3 == 0 {
                    connection.run(async |client| client.batch_execute("run").await).unwrap();
                }
                connection
            };
            connection = there.spawn(calls).unwrap().join().unwrap();
        }
        drop(connection);
        assert_eq!(served.join().unwrap(), 9);
    });
}

#[test]
fn a_call_cancelled_in_its_receive_breaks_the_connection() {
    on_fibers(|| {
        let (asked, was_asked) = oneshot::channel();
        let (mut connection, served) = connect(|mut server| {
            asked.send(server.query()).unwrap();
            // The end of the stream, without a further byte.
            let mut rest = Vec::new();
            server.0.read_to_end(&mut rest).map(|_| rest)
        });
        let error = cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| connection.batch_execute("never answered"));
                cancel::shield(|| was_asked.recv()).unwrap();
                scope.cancel();
                call.join().unwrap().unwrap_err()
            })
        });
        assert!(matches!(error, PostgresError::Cancelled(_)), "{error:?}");
        assert!(!connection.is_open());
        assert!(matches!(connection.batch_execute("x"), Err(PostgresError::Broken)));
        drop(connection);
        assert_eq!(served.join().unwrap().unwrap(), b"");
    });
}

#[test]
fn a_call_in_a_cancelled_scope_sends_nothing_and_breaks_nothing() {
    on_fibers(|| {
        let (mut connection, served) = connect(Server::serve);
        cancel::scope(|scope| {
            scope.cancel();
            let plain = connection.batch_execute("not sent");
            assert!(matches!(plain, Err(PostgresError::Cancelled(_))), "{plain:?}");
            let run = connection.run(async |client| client.batch_execute("not sent").await);
            assert!(matches!(run, Err(PostgresError::Cancelled(_))), "{run:?}");
        });
        assert!(connection.is_open());
        connection.batch_execute("x").unwrap();
        drop(connection);
        assert_eq!(served.join().unwrap(), 1);
    });
}

#[test]
fn a_server_that_closes_during_a_call_ends_the_connection() {
    on_fibers(|| {
        let (mut connection, _served) = connect(|mut server| drop(server.query()));
        let error = connection.batch_execute("x").unwrap_err();
        let PostgresError::Postgres(error) = error else { panic!("{error:?}") };
        assert!(error.is_closed(), "{error:?}");
        assert!(!connection.is_open());
    });
}

#[test]
fn the_reason_of_a_server_that_has_closed_is_the_error() {
    on_fibers(|| {
        let (folder, listener) = Folder::new("reason");
        let served = fiber::spawn_local(move || {
            let mut server = Server::accept(listener.accept().unwrap().0);
            server.query();
            server.complete();
            server.send(b'E', b"SFATAL\0C57P01\0Mbye\0\0");
        });
        let mut connection = PostgresConnection::connect(&folder.config(), NoTls).unwrap();
        connection.batch_execute("answered").unwrap();
        served.join().unwrap();
        // The write fails, because the server has closed its end.
        let error = connection.batch_execute("x").unwrap_err();
        let PostgresError::Postgres(error) = error else { panic!("{error:?}") };
        assert_eq!(error.code().map(|code| code.code()), Some("57P01"), "{error:?}");
        assert!(!connection.is_open());
        assert!(matches!(connection.batch_execute("x"), Err(PostgresError::Broken)));
    });
}

#[test]
fn a_call_waits_until_another_fiber_leaves_an_earlier_stream() {
    on_fibers(|| {
        let (sent, was_sent) = oneshot::channel();
        let (answered, was_answered) = oneshot::channel();
        let (mut connection, served) = connect(|mut server| {
            server.query();
            server.send(b'T', &0_u16.to_be_bytes());
            server.rows(100);
            server.complete();
            sent.send(()).unwrap();
            server.query();
            server.complete();
            answered.send(()).unwrap();
            server.serve()
        });
        // The stream holds a few messages, then it holds back the connection.
        let stream = connection.run(async |client| {
            let stream = client.simple_query_raw("rows").await;
            was_sent.await.unwrap();
            stream
        });
        let stream = Box::pin(stream.unwrap());
        // When the answer is here, the socket makes no progress that the call could wait for.
        let left = fiber::spawn_local(move || {
            was_answered.recv().unwrap();
            drop(stream);
        });
        connection.batch_execute("held back").unwrap();
        assert!(left.is_finished());
        connection.batch_execute("x").unwrap();
        drop(connection);
        assert_eq!(served.join().unwrap(), 1);
    });
}

#[test]
fn a_write_fails_although_an_earlier_stream_holds_back_what_could_be_read() {
    on_fibers(|| {
        let (folder, listener) = Folder::new("held-back");
        let served = fiber::spawn_local(move || {
            let mut server = Server::accept(listener.accept().unwrap().0);
            server.query();
            server.send(b'T', &0_u16.to_be_bytes());
            server.rows(40);
        });
        let mut connection = PostgresConnection::connect(&folder.config(), NoTls).unwrap();
        let stream = connection.run(async |client| client.simple_query_raw("rows").await);
        let _stream = stream.unwrap();
        served.join().unwrap();
        // The server has closed its end, so the query cannot be sent, and nobody takes the rows.
        let error = connection.batch_execute("x").unwrap_err();
        assert!(matches!(error, PostgresError::Postgres(_)), "{error:?}");
        assert!(!connection.is_open());
    });
}

#[test]
fn an_expired_connect_timeout_is_no_cancellation() {
    on_fibers(|| {
        // The kernel accepts the connection, and nobody answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(listener.local_addr().unwrap().port());
        config.connect_timeout(Duration::from_millis(20));
        let error = PostgresConnection::connect(&config, NoTls).unwrap_err();
        let PostgresError::Io(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}
