//! Redis: an adapter for Ramie's stream, and the crate's own connection on the blocking pool.

use ramie::net::TcpStream;
use redis::{Commands, ConnectionLike};

use super::redis_adapter::RamieConnection;
use crate::harness::{Kind, Section, Tried, Way, server};

pub(super) const SECTION: Section = Section {
    kind: Kind::Database,
    way: Way::Adapter(include_str!("redis_adapter.rs")),
    against: "Redis",
    needs: &["ECOSYSTEM_REDIS"],
    note: "`databases/redis_adapter.rs` implements `ConnectionLike`. The crate's own `Connection` \
           opens a socket of std, so it works only on the blocking pool.",
    ..Section::new("redis", "databases/redis.rs", redis)
};

fn redis() -> Tried {
    let address = server("ECOSYSTEM_REDIS");
    exchange(&mut RamieConnection::new(TcpStream::connect(address)?), "fiber")?;
    ramie::blocking(|| {
        let client = redis::Client::open(format!("redis://{address}/"))?;
        exchange(&mut client.get_connection()?, "pool")
    })
}

fn exchange(connection: &mut impl ConnectionLike, key: &str) -> Tried {
    let _: () = connection.set(key, vec![7_u8; 100_000])?;
    assert!(connection.get::<_, Vec<u8>>(key)? == vec![7; 100_000]);
    let _: () = connection.del((key, "list"))?;
    let (first, list): (i64, Vec<String>) = redis::pipe()
        .incr(key, 41)
        .rpush("list", &["a", "b"])
        .ignore()
        .lrange("list", 0, -1)
        .query(connection)?;
    assert_eq!((first, list), (41, vec!["a".to_owned(), "b".to_owned()]));
    let (next,): (i64,) = redis::pipe().atomic().incr(key, 1).query(connection)?;
    assert_eq!(next, 42);
    let wrong: redis::RedisResult<i64> = redis::cmd("LLEN").arg(key).query(connection);
    assert!(wrong.unwrap_err().to_string().contains("WRONGTYPE"));
    assert!(connection.check_connection() && connection.is_open());
    Ok(())
}
