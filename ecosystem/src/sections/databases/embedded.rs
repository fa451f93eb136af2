//! SQLite, on the blocking pool, because it reads and writes files itself.

use std::time::Duration;

use diesel::{Connection, QueryableByName, RunQueryDsl, sql_query};
use ramie::{cancel, fiber};
use ramie_adapters::{Blocking, BlockingManager};
use ramie_pool::Pool;

use crate::harness::{Kind, Section, Tried, Way};

const FILE: &str = "databases/embedded.rs";
const NOTE: &str = "Keep its connection in a `ramie_adapters::Blocking`, whose calls run on the \
                    pool, or several in a pool, by `BlockingManager`.";

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Database,
        way: Way::Pool,
        against: "SQLite, a file",
        note: NOTE,
        ..Section::new("rusqlite", FILE, rusqlite)
    },
    Section {
        kind: Kind::Database,
        way: Way::Pool,
        against: "SQLite, a file",
        note: NOTE,
        ..Section::new("diesel", FILE, diesel)
    },
];

/// A file that is removed at the end.
struct Database(std::path::PathBuf);

impl Database {
    fn new(name: &str) -> Self {
        Database(
            std::env::temp_dir().join(format!("ramie-ecosystem-{name}-{}", std::process::id())),
        )
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn sum(connection: &mut rusqlite::Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT SUM(number) FROM numbers", [], |row| row.get(0))
}

fn rusqlite() -> Tried {
    let file = Database::new("rusqlite");
    let mut connection = Blocking::open(|| rusqlite::Connection::open(&file.0))?;
    connection.run(|c| c.execute_batch("CREATE TABLE numbers (number INTEGER)"))?;
    connection.run(|connection| -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        for number in 0..1000 {
            transaction.execute("INSERT INTO numbers VALUES (?1)", [number])?;
        }
        transaction.commit()
    })?;
    assert_eq!(connection.run(sum)?, 999 * 1000 / 2);
    let path = file.0.clone();
    let manager = BlockingManager::new(move || rusqlite::Connection::open(&path));
    let pool = Pool::builder().max_size(2).build(manager);
    fiber::scope(|fibers| {
        for _ in 0..8 {
            fibers.spawn_local(|| {
                let found = pool.get().expect("a connection").run_or_cancelled(sum);
                assert_eq!(found.expect("no cancellation").expect("a sum"), 999 * 1000 / 2);
            });
        }
    });
    assert_eq!(pool.stats().connects, 2);
    // A query that is left behind keeps its connection, and the pool opens another one.
    let slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) \
                SELECT COUNT(*) FROM n";
    let count = |c: &mut rusqlite::Connection| c.query_row(slow, [], |row| row.get::<_, i64>(0));
    let mut connection = pool.get()?;
    let limit = Duration::from_millis(5);
    let late = cancel::try_with_timeout(limit, || connection.run_or_cancelled(count));
    assert!(cancel::is_cancelled(&late.unwrap_err()) && connection.is_lost());
    drop(connection);
    assert_eq!(pool.get()?.run(sum)?, 999 * 1000 / 2);
    Ok(())
}

#[derive(QueryableByName)]
struct Sum {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    sum: i64,
}

fn diesel() -> Tried {
    let file = Database::new("diesel");
    let path = file.0.to_str().expect("a path of UTF-8").to_owned();
    let mut connection = Blocking::open(|| diesel::SqliteConnection::establish(&path))?;
    connection.run(|connection| {
        connection.transaction(|connection| {
            sql_query("CREATE TABLE numbers (number INTEGER)").execute(connection)?;
            for number in 0..100 {
                let insert = sql_query("INSERT INTO numbers VALUES (?)");
                insert.bind::<diesel::sql_types::Integer, _>(number).execute(connection)?;
            }
            diesel::QueryResult::Ok(())
        })
    })?;
    let sum: Sum = connection.run(|connection| {
        sql_query("SELECT SUM(number) AS sum FROM numbers").get_result(connection)
    })?;
    assert_eq!(sum.sum, 99 * 100 / 2);
    Ok(())
}
