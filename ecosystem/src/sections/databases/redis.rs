//! Redis: the connection of `ramie-adapters`, and the crate's own on the blocking pool.

use std::{net::SocketAddr, time::Duration};

use ramie::{cancel, fiber};
use ramie_adapters::redis::{RedisConnection, RedisManager};
use ramie_pool::Pool;
use redis::{Commands, ConnectionLike, ProtocolVersion, RedisResult};

use crate::harness::{Kind, Section, Tried, Way, server};

pub(super) const SECTION: Section = Section {
    kind: Kind::Database,
    way: Way::Adapter("redis"),
    against: "Redis",
    needs: &["ECOSYSTEM_REDIS"],
    note: "`RedisConnection` has all commands of the crate, `RedisPubSub` receives messages, and \
           `RedisManager` is for `ramie-pool`. The crate's own `Connection` opens a socket of std, \
           so it works only on the blocking pool.",
    ..Section::new("redis", "databases/redis.rs", redis)
};

/// With a database, which is to be selected.
fn url(address: SocketAddr) -> String {
    format!("redis://{address}/3")
}

fn redis() -> Tried {
    let address = server("ECOSYSTEM_REDIS");
    exchange(&mut RedisConnection::connect(url(address))?, "fiber")?;
    with_resp3(address)?;
    interrupted(address)?;
    pub_sub(address)?;
    pooled(address)?;
    ramie::blocking(|| {
        let client = redis::Client::open(url(address))?;
        exchange(&mut client.get_connection()?, "pool")
    })
}

fn exchange(connection: &mut impl ConnectionLike, key: &str) -> Tried {
    assert_eq!(connection.get_db(), 3);
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
    let wrong: RedisResult<i64> = redis::cmd("LLEN").arg(key).query(connection);
    assert!(wrong.unwrap_err().to_string().contains("WRONGTYPE"));
    assert!(connection.check_connection() && connection.is_open());
    Ok(())
}

fn with_resp3(address: SocketAddr) -> Tried {
    use redis::IntoConnectionInfo;
    let info = url(address).into_connection_info()?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let mut connection = RedisConnection::connect(info.set_redis_settings(settings))?;
    // RESP3 has maps; RESP2 would return a list.
    let _: () = connection.hset("map", "field", 1)?;
    let map: redis::Value = connection.hgetall("map")?;
    assert!(matches!(map, redis::Value::Map(_)), "{map:?}");
    exchange(&mut connection, "resp3")
}

/// A command that is cut off breaks the connection, so its late answer reaches nobody.
fn interrupted(address: SocketAddr) -> Tried {
    let mut connection = RedisConnection::connect(url(address))?;
    let wait = || redis::cmd("BLPOP").arg("nothing").arg(30).exec(&mut connection);
    let late = cancel::try_with_timeout(Duration::from_millis(20), wait);
    assert!(late.unwrap_err().is_timeout());
    assert!(!connection.is_open());
    let refused: RedisResult<()> = connection.set("key", 1);
    assert!(refused.unwrap_err().is_io_error());
    Ok(())
}

fn pub_sub(address: SocketAddr) -> Tried {
    let mut sender = RedisConnection::connect(url(address))?;
    let mut messages = RedisConnection::connect(url(address))?.into_pub_sub();
    messages.subscribe(&["first", "second"])?;
    messages.psubscribe("all.*")?;
    // A wait that is cut off loses nothing.
    let limit = Duration::from_millis(20);
    let late = cancel::try_with_timeout(limit, || messages.get_message());
    assert!(late.unwrap_err().is_timeout());
    fiber::scope(|fibers| {
        fibers.spawn_local(|| {
            for number in 0..100 {
                let channel = ["first", "second", "all.third", "other"][number % 4];
                sender.publish::<_, _, ()>(channel, number).expect("it is sent");
            }
        });
        for number in (0..100).filter(|number| number % 4 != 3) {
            let message = messages.get_message()?;
            assert_eq!(message.get_payload::<usize>()?, number);
            assert_eq!(message.from_pattern(), number % 4 == 2);
        }
        messages.punsubscribe("all.*")?;
        messages.unsubscribe(&["first", "second"])?;
        Ok(())
    })
}

fn pooled(address: SocketAddr) -> Tried {
    let pool = Pool::builder().max_size(2).build(RedisManager::new(url(address))?);
    fiber::scope(|fibers| {
        for number in 0..20_u32 {
            let pool = &pool;
            fibers.spawn_local(move || {
                let mut connection = pool.get().expect("a connection");
                let echo = redis::cmd("ECHO").arg(number).query::<u32>(&mut *connection);
                assert_eq!(echo.expect("an answer"), number);
            });
        }
    });
    assert_eq!(pool.stats().connects, 2);
    Ok(())
}
