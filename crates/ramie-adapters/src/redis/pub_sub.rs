//! Messages of channels.

use std::collections::VecDeque;

use redis::{Msg, RedisResult, ToRedisArgs, Value, cmd};

use super::RedisConnection;

/// A connection that receives the messages of channels; made by
/// [`RedisConnection::into_pub_sub`]. Its methods are those of the crate's `PubSub`.
///
/// # Cancellation
/// All methods are cancel points; [`get_message`](Self::get_message) only if no message has arrived
/// yet. A cancelled `get_message` loses nothing: the next one continues where it was cut off. Any
/// other cancelled method breaks the connection as a command does ([`RedisConnection`]): the
/// messages that have arrived can be taken, and then all methods fail with `BrokenPipe`.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
///
/// use ramie::cancel;
/// use ramie_adapters::redis::RedisConnection;
///
/// ramie::run(|| {
///     let mut messages = RedisConnection::connect("redis://127.0.0.1/")?.into_pub_sub();
///     messages.subscribe("news")?;
///     let wait = || messages.get_message();
///     let message = cancel::try_with_timeout(Duration::from_secs(10), wait)?;
///     println!("{}: {}", message.get_channel_name(), message.get_payload::<String>()?);
///     Ok::<(), redis::RedisError>(())
/// })?;
/// # Ok::<(), redis::RedisError>(())
/// ```
#[derive(Debug)]
pub struct RedisPubSub {
    connection: RedisConnection,
    /// The messages that arrived while an answer was awaited.
    waiting: VecDeque<Msg>,
}

impl RedisPubSub {
    pub(super) fn new(connection: RedisConnection) -> Self {
        RedisPubSub { connection, waiting: VecDeque::new() }
    }

    /// Subscribes to a channel, or to all of a slice.
    ///
    /// # Errors
    /// The connection is broken, or breaks.
    pub fn subscribe(&mut self, channels: impl ToRedisArgs) -> RedisResult<()> {
        self.ask("SUBSCRIBE", &channels)
    }

    /// Subscribes to all channels whose names match a pattern.
    ///
    /// # Errors
    /// The connection is broken, or breaks.
    pub fn psubscribe(&mut self, patterns: impl ToRedisArgs) -> RedisResult<()> {
        self.ask("PSUBSCRIBE", &patterns)
    }

    /// Ends the subscription of a channel. Messages that have arrived can still be taken.
    ///
    /// # Errors
    /// The connection is broken, or breaks.
    pub fn unsubscribe(&mut self, channels: impl ToRedisArgs) -> RedisResult<()> {
        self.ask("UNSUBSCRIBE", &channels)
    }

    /// Ends the subscription of a pattern. Messages that have arrived can still be taken.
    ///
    /// # Errors
    /// The connection is broken, or breaks.
    pub fn punsubscribe(&mut self, patterns: impl ToRedisArgs) -> RedisResult<()> {
        self.ask("PUNSUBSCRIBE", &patterns)
    }

    /// Waits for the next message.
    ///
    /// # Blocking
    /// Parks the fiber until a message arrives.
    ///
    /// # Cancellation
    /// A cancel point, unless a message has arrived already. A cancelled call loses no message.
    ///
    /// # Errors
    /// The server has closed the connection, the connection is broken, or the strand is cancelled.
    pub fn get_message(&mut self) -> RedisResult<Msg> {
        if let Some(message) = self.waiting.pop_front() {
            return Ok(message);
        }
        self.connection.check_open()?;
        loop {
            // Other values are late confirmations, such as those of UNSUBSCRIBE without a name.
            if let Some(message) = Msg::from_owned_value(self.connection.receive()?) {
                return Ok(message);
            }
        }
    }

    /// Sends a command and waits for its answers, one for each name.
    fn ask(&mut self, command: &str, names: &impl ToRedisArgs) -> RedisResult<()> {
        self.connection.send(&cmd(command).arg(names).get_packed_command())?;
        let mut answer = Ok(());
        for _ in 0..names.num_of_args().max(1) {
            answer = self.receive_answer()?.extract_error().map(drop);
            if answer.is_err() {
                // The only answer.
                break;
            }
        }
        self.connection.end();
        answer
    }

    fn receive_answer(&mut self) -> RedisResult<Value> {
        loop {
            let value = self.connection.receive()?;
            match Msg::from_value(&value) {
                Some(message) => self.waiting.push_back(message),
                None => return Ok(value),
            }
        }
    }
}
