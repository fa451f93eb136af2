//! PostgreSQL and MariaDB.

use std::time::Duration;

use mysql::prelude::Queryable;
use ramie::{cancel, fiber, future::block_on};
use ramie_adapters::{
    BlockingManager,
    postgres::{self, PostgresConnection, PostgresError, PostgresManager},
};
use ramie_pool::Pool;
use sqlx::{Connection, Row};
use tokio_postgres::NoTls;

use crate::harness::{Kind, Section, Tried, Way, server};

const FILE: &str = "databases/sql.rs";

pub(super) const SECTIONS: [Section; 4] = [
    Section {
        kind: Kind::Database,
        way: Way::Adapter("tokio-postgres"),
        against: "PostgreSQL",
        needs: &["ECOSYSTEM_POSTGRES"],
        note: "`PostgresConnection` has plain calls, and `PostgresManager` is for `ramie-pool`; \
               `postgres::connect` returns a `Client` that fibers share. Without the adapter: \
               `Config::connect_raw` takes a `ramie_futures::Io`.",
        ..Section::new("tokio-postgres", FILE, tokio_postgres)
    },
    Section {
        kind: Kind::Database,
        way: Way::Pool,
        against: "PostgreSQL",
        needs: &["ECOSYSTEM_POSTGRES"],
        note: "It wraps tokio-postgres and opens a socket of tokio; on fibers, use \
               `PostgresConnection`, whose calls are as plain.",
        ..Section::new("postgres", FILE, blocking_postgres)
    },
    Section {
        kind: Kind::Database,
        way: Way::BesideTokio,
        against: "PostgreSQL",
        needs: &["ECOSYSTEM_POSTGRES"],
        note: "Enable its feature `runtime-tokio`.",
        ..Section::new("sqlx", FILE, sqlx)
    },
    Section {
        kind: Kind::Database,
        way: Way::Pool,
        against: "MariaDB",
        needs: &["ECOSYSTEM_MYSQL"],
        note: "It opens a socket of std and takes no other. Pool its connections by \
               `ramie_adapters::BlockingManager`.",
        ..Section::new("mysql", FILE, mysql)
    },
];

fn configuration() -> tokio_postgres::Config {
    let address = server("ECOSYSTEM_POSTGRES");
    let mut config = tokio_postgres::Config::new();
    config.host(address.ip().to_string()).port(address.port());
    config.user("ecosystem").dbname("postgres");
    config
}

fn tokio_postgres() -> Tried {
    shared_client()?;
    connection()?;
    pooled()
}

fn shared_client() -> Tried {
    let client = postgres::connect(&configuration(), NoTls)?;
    block_on(client.batch_execute("CREATE TEMP TABLE rows (number INT, name TEXT)"))?;
    let insert = block_on(client.prepare("INSERT INTO rows VALUES ($1, $2)"))?;
    for number in 0..100_i32 {
        block_on(client.execute(&insert, &[&number, &format!("ä {number}")]))?;
    }
    // Two fibers use the client at the same time, and their queries share the connection.
    fiber::scope(|fibers| {
        let count = || {
            let rows = block_on(client.query("SELECT * FROM rows ORDER BY number", &[]))?;
            assert_eq!(rows[7].get::<_, &str>("name"), "ä 7");
            Ok::<_, tokio_postgres::Error>(rows.len())
        };
        let counts = [fibers.spawn_local(count), fibers.spawn_local(count)];
        for found in counts {
            assert_eq!(found.join().expect("no panic")?, 100);
        }
        Ok::<_, tokio_postgres::Error>(())
    })?;
    let wrong = block_on(client.query("SELECT nothing", &[])).unwrap_err();
    assert!(wrong.code().is_some_and(|code| code.code() == "42703"));
    Ok(())
}

fn connection() -> Tried {
    let mut connection = PostgresConnection::connect(&configuration(), NoTls)?;
    connection.batch_execute("CREATE TEMP TABLE rows (number INT)")?;
    let insert = connection.prepare("INSERT INTO rows VALUES ($1)")?;
    for number in 0..100_i32 {
        assert_eq!(connection.execute(&insert, &[&number])?, 1);
    }
    assert_eq!(connection.query("SELECT * FROM rows", &[])?.len(), 100);
    // A transaction that is dropped before its commit changes nothing.
    connection.run(async |client| {
        let transaction = client.transaction().await?;
        transaction.execute("DELETE FROM rows", &[]).await.map(drop)
    })?;
    let count = connection.query_one("SELECT COUNT(*) FROM rows", &[])?;
    assert_eq!(count.get::<_, i64>(0), 100);
    let wrong = connection.query("SELECT nothing", &[]).unwrap_err();
    assert!(matches!(wrong, PostgresError::Postgres(_)) && connection.is_open());
    // A query that is cut off breaks the connection, so its late answer reaches nobody.
    let limit = Duration::from_millis(20);
    let sleep = || connection.query("SELECT pg_sleep(30)", &[]);
    let late = cancel::try_with_timeout(limit, sleep).unwrap_err();
    assert!(matches!(late, PostgresError::Cancelled(_)) && !connection.is_open());
    assert!(matches!(connection.batch_execute(""), Err(PostgresError::Broken)));
    Ok(())
}

fn pooled() -> Tried {
    let pool = Pool::builder().max_size(2).build(PostgresManager::new(configuration()));
    fiber::scope(|fibers| {
        for number in 0..20_i32 {
            let pool = &pool;
            fibers.spawn_local(move || {
                let mut connection = pool.get().expect("a connection");
                let row = connection.query_one("SELECT $1::INT", &[&number]);
                assert_eq!(row.expect("an answer").get::<_, i32>(0), number);
            });
        }
    });
    assert_eq!(pool.stats().connects, 2);
    Ok(())
}

fn blocking_postgres() -> Tried {
    let address = server("ECOSYSTEM_POSTGRES");
    ramie::blocking(|| {
        let mut config = ::postgres::Config::new();
        config.host(&address.ip().to_string()).port(address.port());
        config.user("ecosystem").dbname("postgres");
        let mut client = config.connect(::postgres::NoTls)?;
        let row = client.query_one("SELECT 6 * $1", &[&7_i32])?;
        assert_eq!(row.get::<_, i32>(0), 42);
        Ok(())
    })
}

fn sqlx() -> Tried {
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let url = format!("postgres://ecosystem@{}/postgres", server("ECOSYSTEM_POSTGRES"));
    let asked = ramie_futures::block_on_with(tokio.handle(), async {
        let mut connection = sqlx::PgConnection::connect(&url).await?;
        sqlx::query("CREATE TEMP TABLE numbers (number INT)").execute(&mut connection).await?;
        for number in 0..50 {
            let insert = sqlx::query("INSERT INTO numbers VALUES ($1)").bind(number);
            insert.execute(&mut connection).await?;
        }
        let rows = sqlx::query("SELECT number FROM numbers").fetch_all(&mut connection).await?;
        let sum: i32 = rows.iter().map(|row| row.get::<i32, _>(0)).sum();
        connection.close().await?;
        Ok::<_, sqlx::Error>(sum)
    });
    // Dropping it waits for its threads.
    ramie::blocking(|| drop(tokio));
    assert_eq!(asked?, 49 * 50 / 2);
    Ok(())
}

fn mysql() -> Tried {
    let address = server("ECOSYSTEM_MYSQL");
    let options = mysql::OptsBuilder::new()
        .ip_or_hostname(Some(address.ip().to_string()))
        .tcp_port(address.port())
        .prefer_socket(false)
        .user(Some("root"))
        .db_name(Some("ecosystem"));
    let manager = BlockingManager::new(move || mysql::Conn::new(options.clone()));
    let pool = Pool::builder().max_size(1).build(manager.test(mysql::Conn::ping));
    let mut connection = pool.get()?;
    connection.run(|connection| {
        connection.query_drop("CREATE TEMPORARY TABLE numbers (number INT)")?;
        let rows = (0..50).map(|number| (number,));
        connection.exec_batch("INSERT INTO numbers VALUES (?)", rows)
    })?;
    let sum: Option<u64> = connection.run_or_cancelled(|connection| {
        connection.query_first("SELECT SUM(number) FROM numbers")
    })??;
    assert_eq!(sum, Some(49 * 50 / 2));
    let sleep = |connection: &mut mysql::Conn| connection.query_drop("SELECT SLEEP(1)");
    let limit = Duration::from_millis(20);
    let late = cancel::try_with_timeout(limit, || connection.run_or_cancelled(sleep));
    assert!(cancel::is_cancelled(&late.unwrap_err()) && connection.is_lost());
    drop(connection);
    // The pool has replaced the connection, which still waits for the answer.
    pool.get()?.run(mysql::Conn::ping)?;
    assert_eq!(pool.stats().connects, 2);
    Ok(())
}
