//! The time of one request of HTTP/1.1, instead of `Limits::request_timeout`.
//!
//! # Protocol
//! The word of a connection's phase has room for a number of ticks that counts instead of the
//! server's limit, from the begin of the phase.
//!
//! | the number of ticks is | changed by | to |
//! |---|---|---|
//! | 0: the server's limit counts | [`set`], in the phase `Handler` | another |
//! | another | [`set`], in the phase `Handler` | another |
//! | | the connection, which enters any phase | 0 |
//!
//! So a connection does nothing for a request that has no time of its own, and nothing more than
//! usual to return to the server's limit. A request knows the key of its connection only, and
//! [`set`] looks the connection up, in the tables of all servers that run.
//!
//! *The race to fear*: a strand that has kept a request sets its time when its handler has
//! returned. It changes the word by compare-and-exchange, so it never brings an earlier phase back.
//! If the connection is in the handler of its next request already, this request gets the time; no
//! other one does. The overseer may have found the request overdue just before; then it is late.

use std::{
    sync::{Arc, Mutex, Weak, atomic::Ordering},
    time::Duration,
};

use super::{Connections, Member, PhaseWord, lock};
use crate::{connection::Phase, server::overseer::count_ticks};

/// The connections of the servers that run. Held for some instructions and never across a wait.
static SERVERS: Mutex<Vec<Weak<Connections>>> = Mutex::new(Vec::new());

/// The connections of a server that begins to run, whose ticks are of this length.
pub(in crate::server) fn register(connections: &Arc<Connections>, tick: Duration) {
    let _ = connections.tick.set(tick);
    let mut servers = lock(&SERVERS);
    servers.retain(|server| server.strong_count() > 0);
    servers.push(Arc::downgrade(connections));
}

/// Sets the time of the request whose handler a connection runs.
pub(crate) fn set(connection: u64, limit: Duration) {
    let servers = lock(&SERVERS).clone();
    let member = servers.iter().filter_map(Weak::upgrade).find_map(|server| {
        let member = server.table().present.get(&connection).cloned();
        member.map(|member| (member, server))
    });
    if let Some((member, server)) = member
        && let Some(tick) = server.tick.get()
    {
        member.set_request_ticks(count_ticks(limit, *tick));
    }
}

impl Member {
    fn set_request_ticks(&self, ticks: u32) {
        let set = |bits| {
            let word = PhaseWord::from_bits(bits);
            (word.phase() == Phase::Handler).then(|| word.with_limit(ticks).to_bits())
        };
        // Relaxed, as all accesses: the word is all that they exchange.
        let _ = self.phase.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::connection, *};
    use crate::connection::Presence;

    const TICK: Duration = Duration::from_millis(10);

    #[test]
    fn the_time_of_a_request_ends_with_its_handler() {
        ramie::run(|| {
            let (connections, open, _client) = connection();
            register(&connections, TICK);
            let word = || open.member.phase_word();
            open.presence().enter(Phase::Idle);
            let idle = word();
            set(open.key(), TICK);
            assert_eq!(word(), idle, "no handler runs");
            open.presence().enter(Phase::Handler);
            let usual = word();
            set(open.key() + 1, TICK);
            assert_eq!(word(), usual, "another connection");
            for limit in [TICK, 5 * TICK, Duration::MAX] {
                set(open.key(), limit);
                assert_eq!(word(), usual.with_limit(count_ticks(limit, TICK)));
            }
            open.presence().enter(Phase::Handler);
            assert_eq!(word(), usual);
        });
    }
}
