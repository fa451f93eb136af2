//! The connection of the crate redis against a server in this process, whose answers come in
//! pieces. `ecosystem/` has the tests with a real one.

use std::{
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    time::Duration,
};

use ramie::{Runtime, cancel, fiber, os::unix::net::UnixStream, structured::try_scope};
use ramie_adapters::redis::{RedisConnection, RedisPubSub};
use redis::{Commands, ConnectionLike, RedisConnectionInfo, RedisResult};

/// The server's end of a connection.
struct Server(BufReader<UnixStream>);

impl Server {
    /// Reads a command, and returns its words.
    fn command(&mut self) -> Vec<String> {
        let mut line = || {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line");
            line.trim_end().to_owned()
        };
        let count: usize = line()[1..].parse().expect("the length of a command");
        (0..count)
            .map(|_| {
                let _length = line();
                line()
            })
            .collect()
    }

    fn answer(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).expect("it is sent");
    }

    /// The bytes of further commands; returns when the client has closed the connection.
    fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A client that has not read everything resets the connection.
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

fn pair() -> (RedisConnection, Server) {
    let (client, server) = UnixStream::pair().unwrap();
    let client = RedisConnection::over(client, &RedisConnectionInfo::default()).unwrap();
    (client, Server(BufReader::new(server)))
}

/// Runs on the fibers of one worker.
fn on_fibers(test: impl FnOnce()) {
    Runtime::builder().workers(1).build().unwrap().run(test);
}

/// Calls `f`, and cancels it when `until` has returned.
fn cancelled<T: Send>(f: impl FnOnce() -> T + Send, until: impl FnOnce()) -> T {
    cancel::scope(|scope| {
        fiber::scope(|fibers| {
            let call = fibers.spawn_local(f);
            cancel::shield(until);
            // The client parks again before it is cancelled.
            fiber::yield_now();
            scope.cancel();
            call.join().unwrap()
        })
    })
}

fn is_refused(result: RedisResult<()>) -> bool {
    result.is_err_and(|error| error.to_string().contains("an earlier command was interrupted"))
}

#[test]
fn the_settings_of_a_connection_are_sent_first() {
    on_fibers(|| {
        let (client, server) = UnixStream::pair().unwrap();
        let mut server = Server(BufReader::new(server));
        let served = fiber::spawn_local(move || {
            let commands = [server.command(), server.command()];
            server.answer("+OK\r\n+OK\r\n");
            commands
        });
        let settings = RedisConnectionInfo::default();
        let settings = settings.set_username("me").set_password("secret").set_db(7);
        let connection = RedisConnection::over(client, &settings).unwrap();
        let [auth, select] = served.join().unwrap();
        assert_eq!(auth, ["AUTH", "me", "secret"]);
        assert_eq!(select, ["SELECT", "7"]);
        assert_eq!(connection.get_db(), 7);
        assert!(!format!("{connection:?}").contains("secret"));
    });
}

#[test]
fn a_refused_password_is_an_error() {
    on_fibers(|| {
        let (client, server) = UnixStream::pair().unwrap();
        let mut server = Server(BufReader::new(server));
        fiber::spawn_local(move || {
            server.command();
            server.answer("-WRONGPASS invalid\r\n");
            server.rest();
        });
        let settings = RedisConnectionInfo::default().set_password("wrong");
        let error = RedisConnection::over(client, &settings).unwrap_err();
        assert!(error.to_string().contains("WRONGPASS"), "{error}");
    });
}

#[test]
fn an_error_that_the_server_answers_breaks_nothing() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        fiber::spawn_local(move || {
            server.command();
            server.answer("-WRONGTYPE no list\r\n");
            server.command();
            server.answer(":1\r\n");
        });
        assert!(client.llen::<_, i64>("key").is_err());
        assert!(client.is_open());
        assert_eq!(client.llen::<_, i64>("list").unwrap(), 1);
    });
}

#[test]
fn a_transaction_with_a_refused_command_fails_with_the_reason() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        let served = fiber::spawn_local(move || {
            let commands: Vec<_> = (0..3).map(|_| server.command()).collect();
            server.answer("+OK\r\n-REFUSED by the test\r\n-EXECABORT discarded\r\n");
            (commands, server)
        });
        let error = redis::pipe().atomic().cmd("ANY").exec(&mut client).unwrap_err();
        assert!(error.to_string().contains("REFUSED"), "{error}");
        assert!(client.is_open());
        let (commands, _server) = served.join().unwrap();
        assert_eq!(commands, [["MULTI"], ["ANY"], ["EXEC"]]);
    });
}

/// Cancels a command when the server has received it and has answered a part.
fn interrupted_after(part: &str) {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        let until = || {
            assert_eq!(server.command(), ["GET", "secret"]);
            server.answer(part);
        };
        let late: RedisResult<String> = cancelled(|| client.get("secret"), until);
        assert!(late.unwrap_err().is_io_error());
        assert!(!client.is_open());
        // The answer comes late, and reaches nobody.
        server.answer(&"$6\r\nsecret\r\n"[part.len()..]);
        assert!(is_refused(client.set("key", "value")));
        assert!(is_refused(redis::pipe().get("a").get("b").exec(&mut client)));
        assert!(!client.check_connection());
        drop(client);
        assert!(server.rest().is_empty(), "a broken connection sends nothing");
    });
}

#[test]
fn a_cancelled_command_breaks_the_connection() {
    interrupted_after("");
    interrupted_after("$6\r\nsec");
}

#[test]
fn a_command_in_a_cancelled_scope_sends_nothing_and_breaks_nothing() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        cancel::scope(|scope| {
            scope.cancel();
            let refused: RedisResult<()> = client.set("key", "value");
            assert!(refused.unwrap_err().is_io_error());
        });
        assert!(client.is_open());
        let served = fiber::spawn_local(move || {
            let command = server.command();
            server.answer("+PONG\r\n");
            command
        });
        assert!(client.check_connection());
        assert_eq!(served.join().unwrap(), ["PING"]);
    });
}

#[test]
fn a_scope_recognises_a_cancelled_command() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        let outcome = try_scope(|scope| {
            scope.spawn_local(|| Ok(client.set::<_, _, ()>("key", 1)?));
            server.command();
            Err::<(), Box<dyn Error + Send + Sync>>("the cause".into())
        });
        let texts: Vec<_> = outcome.unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["the cause"]);
    });
}

#[test]
fn a_cancelled_pipeline_breaks_the_connection() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        let until = || {
            server.command();
            server.command();
            server.answer(":1\r\n");
        };
        let pipeline = || redis::pipe().incr("a", 1).incr("b", 1).exec(&mut client);
        let late = cancelled(pipeline, until);
        assert!(late.is_err());
        assert!(is_refused(client.set("key", "value")));
    });
}

#[test]
fn a_connection_that_the_server_closes_is_broken() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        fiber::spawn_local(move || server.command());
        let closed: RedisResult<()> = client.set("key", "value");
        assert!(closed.unwrap_err().is_io_error());
        assert!(!client.is_open());
    });
}

#[test]
fn a_command_without_an_answer_waits_for_none() {
    on_fibers(|| {
        let (mut client, mut server) = pair();
        redis::cmd("FIRST").set_no_response(true).exec(&mut client).unwrap();
        assert_eq!(server.command(), ["FIRST"]);
        fiber::spawn_local(move || {
            server.command();
            server.answer("+PONG\r\n");
        });
        assert!(client.check_connection());
    });
}

fn message(text: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{text}\r\n", text.len())
}

fn payload(messages: &mut RedisPubSub) -> RedisResult<String> {
    messages.get_message()?.get_payload()
}

#[test]
fn a_cancelled_wait_for_a_message_loses_nothing() {
    on_fibers(|| {
        let (client, mut server) = pair();
        let mut messages = client.into_pub_sub();
        for text in ["first", "second"] {
            let whole = message(text);
            for cut in 0..whole.len() {
                let late = cancelled(|| payload(&mut messages), || server.answer(&whole[..cut]));
                assert!(late.is_err(), "{late:?}");
                server.answer(&whole[cut..]);
                assert_eq!(payload(&mut messages).unwrap(), text);
            }
        }
    });
}

#[test]
fn messages_before_a_confirmation_are_kept_in_order() {
    on_fibers(|| {
        let (client, mut server) = pair();
        let served = fiber::spawn_local(move || {
            assert_eq!(server.command(), ["SUBSCRIBE", "news", "weather"]);
            server.answer("*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
            server.answer(&message("first"));
            server.answer("*3\r\n$9\r\nsubscribe\r\n$7\r\nweather\r\n:2\r\n");
            server.answer(&message("second"));
            server
        });
        let mut messages = client.into_pub_sub();
        messages.subscribe(&["news", "weather"]).unwrap();
        assert_eq!(payload(&mut messages).unwrap(), "first");
        assert_eq!(payload(&mut messages).unwrap(), "second");
        drop(served.join().unwrap());
        assert!(messages.get_message().unwrap_err().is_io_error());
    });
}

#[test]
fn a_cancelled_subscription_breaks_the_connection() {
    on_fibers(|| {
        let (client, mut server) = pair();
        let mut messages = client.into_pub_sub();
        let until = || {
            server.command();
            server.answer(&message("early"));
        };
        let late = cancelled(|| messages.subscribe("news"), until);
        assert!(late.is_err());
        // The message that arrived can be taken.
        assert_eq!(payload(&mut messages).unwrap(), "early");
        assert!(is_refused(messages.get_message().map(drop)));
        assert!(is_refused(messages.subscribe("weather")));
    });
}

#[test]
fn a_url_for_tls_is_refused() {
    ramie::run(|| {
        // Without its TLS features, the crate refuses the URL itself.
        assert!(RedisConnection::connect("rediss://127.0.0.1/").is_err());
    });
}

#[test]
fn a_limit_of_the_program_ends_a_command() {
    on_fibers(|| {
        let (mut client, _server) = pair();
        let limit = Duration::from_millis(1);
        let late = cancel::try_with_timeout(limit, || client.get::<_, ()>("key"));
        assert!(late.unwrap_err().is_timeout());
    });
}
