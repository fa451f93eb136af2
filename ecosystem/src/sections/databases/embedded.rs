//! SQLite, on the blocking pool, because it reads and writes files itself.

use diesel::{Connection, QueryableByName, RunQueryDsl, sql_query};

use crate::harness::{Kind, Section, Tried, Way};

const FILE: &str = "databases/embedded.rs";
const NOTE: &str = "Its connection is `Send` and not `Sync`, so a fiber keeps it and lends it to \
                    each closure of `ramie::blocking` as `&mut`; the linked source has a helper, \
                    `on_pool`.";

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

/// Lends a connection to a closure on the pool.
fn on_pool<C: Send, T: Send>(connection: &mut C, f: impl FnOnce(&mut C) -> T + Send) -> T {
    ramie::blocking(move || f(connection))
}

fn rusqlite() -> Tried {
    let file = Database::new("rusqlite");
    let mut connection = ramie::blocking(|| rusqlite::Connection::open(&file.0))?;
    on_pool(&mut connection, |c| c.execute_batch("CREATE TABLE numbers (number INTEGER)"))?;
    on_pool(&mut connection, |connection| -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        for number in 0..1000 {
            transaction.execute("INSERT INTO numbers VALUES (?1)", [number])?;
        }
        transaction.commit()
    })?;
    let sum: i64 = on_pool(&mut connection, |connection| {
        connection.query_row("SELECT SUM(number) FROM numbers", [], |row| row.get(0))
    })?;
    assert_eq!(sum, 999 * 1000 / 2);
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
    let mut connection = ramie::blocking(|| diesel::SqliteConnection::establish(&path))?;
    on_pool(&mut connection, |connection| {
        connection.transaction(|connection| {
            sql_query("CREATE TABLE numbers (number INTEGER)").execute(connection)?;
            for number in 0..100 {
                let insert = sql_query("INSERT INTO numbers VALUES (?)");
                insert.bind::<diesel::sql_types::Integer, _>(number).execute(connection)?;
            }
            diesel::QueryResult::Ok(())
        })
    })?;
    let sum: Sum = on_pool(&mut connection, |connection| {
        sql_query("SELECT SUM(number) AS sum FROM numbers").get_result(connection)
    })?;
    assert_eq!(sum.sum, 99 * 100 / 2);
    Ok(())
}
