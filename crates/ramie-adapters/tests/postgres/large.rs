//! Calls that move many bytes, both ways at the same time.

use ramie::{fiber, net::TcpListener};
use ramie_adapters::postgres::PostgresConnection;
use tokio_postgres::{NoTls, config::SslMode};

use super::{
    records::{MakeRecords, Records},
    server::{Folder, Server, config, connect, on_fibers},
};

const BYTES: usize = 8_000_000;
const ROWS: usize = BYTES / 1000;

/// Answers before the query has arrived wholly.
fn answer_early<S: std::io::Read + std::io::Write>(mut server: Server<S>) -> usize {
    let (_, length) = server.head();
    server.rows(ROWS);
    let query = server.rest(length);
    server.complete();
    query.iter().filter(|byte| **byte == b'y').count()
}

fn exchange(connection: &mut PostgresConnection) {
    connection.batch_execute(&"y".repeat(BYTES)).unwrap();
    assert!(connection.is_open());
}

#[test]
fn an_answer_is_taken_while_the_query_is_sent() {
    on_fibers(|| {
        let (mut connection, served) = connect(answer_early);
        exchange(&mut connection);
        assert_eq!(served.join().unwrap(), BYTES);
    });
}

#[test]
fn so_it_is_over_a_unix_socket() {
    on_fibers(|| {
        let (folder, listener) = Folder::new("large");
        let served =
            fiber::spawn_local(move || answer_early(Server::accept(listener.accept().unwrap().0)));
        let mut connection = PostgresConnection::connect(&folder.config(), NoTls).unwrap();
        exchange(&mut connection);
        assert_eq!(served.join().unwrap(), BYTES);
    });
}

#[test]
fn so_it_is_below_a_layer_of_tls() {
    on_fibers(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(listener.local_addr().unwrap().port());
        config.ssl_mode(SslMode::Require);
        let served = fiber::spawn_local(move || {
            answer_early(Server::accept(Records::accept(listener.accept().unwrap().0)))
        });
        let mut connection = PostgresConnection::connect(&config, MakeRecords).unwrap();
        exchange(&mut connection);
        assert_eq!(served.join().unwrap(), BYTES);
    });
}

#[test]
fn all_rows_of_a_large_answer_arrive() {
    on_fibers(|| {
        let (mut connection, served) = connect(|mut server| {
            server.query();
            // One column, with a name and no table.
            let mut description = vec![0, 1, b'x', 0];
            description.resize(4 + 18, 0);
            server.send(b'T', &description);
            server.rows(ROWS);
            server.complete();
            server.serve()
        });
        let rows = connection.run(async |client| client.simple_query("rows").await).unwrap();
        // The description of the columns, the rows, and their end.
        assert_eq!(rows.len(), ROWS + 2);
        connection.batch_execute("x").unwrap();
        drop(connection);
        assert_eq!(served.join().unwrap(), 1);
    });
}
