//! PostgreSQL and MariaDB.

use mysql::prelude::Queryable;
use ramie::{fiber, future::block_on, net::TcpStream};
use ramie_futures::Io;
use sqlx::{Connection, Row};
use tokio_postgres::NoTls;

use crate::harness::{Kind, Section, Tried, Way, server};

const FILE: &str = "databases/sql.rs";

pub(super) const SECTIONS: [Section; 4] = [
    Section {
        kind: Kind::Database,
        way: Way::Futures,
        against: "PostgreSQL",
        needs: &["ECOSYSTEM_POSTGRES"],
        note: "`Config::connect_raw` takes an `Io`; a fiber of its own waits for the connection's \
               future.",
        ..Section::new("tokio-postgres", FILE, tokio_postgres)
    },
    Section {
        kind: Kind::Database,
        way: Way::Pool,
        against: "PostgreSQL",
        needs: &["ECOSYSTEM_POSTGRES"],
        note: "It wraps tokio-postgres and opens a socket of tokio; on fibers, use tokio-postgres \
               itself.",
        ..Section::new("postgres", FILE, postgres)
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
        note: "It opens a socket of std.",
        ..Section::new("mysql", FILE, mysql)
    },
];

fn tokio_postgres() -> Tried {
    let stream = Io::new(TcpStream::connect(server("ECOSYSTEM_POSTGRES"))?);
    let mut config = tokio_postgres::Config::new();
    config.user("ecosystem").dbname("postgres");
    let (client, connection) = block_on(config.connect_raw(stream, NoTls))?;
    let connection = fiber::spawn_local(|| block_on(connection));
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
    drop(client);
    Ok(connection.join().expect("no panic")?)
}

fn postgres() -> Tried {
    let address = server("ECOSYSTEM_POSTGRES");
    ramie::blocking(|| {
        let mut config = postgres::Config::new();
        config.host(&address.ip().to_string()).port(address.port());
        config.user("ecosystem").dbname("postgres");
        let mut client = config.connect(postgres::NoTls)?;
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
    ramie::blocking(|| {
        let options = mysql::OptsBuilder::new()
            .ip_or_hostname(Some(address.ip().to_string()))
            .tcp_port(address.port())
            .prefer_socket(false)
            .user(Some("root"))
            .db_name(Some("ecosystem"));
        let mut connection = mysql::Conn::new(options)?;
        connection.query_drop("CREATE TEMPORARY TABLE numbers (number INT)")?;
        let rows = (0..50).map(|number| (number,));
        connection.exec_batch("INSERT INTO numbers VALUES (?)", rows)?;
        let sum: Option<u64> = connection.query_first("SELECT SUM(number) FROM numbers")?;
        assert_eq!(sum, Some(49 * 50 / 2));
        Ok(())
    })
}
