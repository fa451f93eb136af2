//! The fiber that ends what takes too long, or what nobody waits for any more.
//!
//! It wakes at each tick, which is an eighth of the shortest limit, between 10 and 250 ms, and
//! looks at the phases of all connections. So a phase may last a tick or two longer than its limit,
//! and a connection needs neither a timer nor a clock.
//!
//! Once the server stops, it also closes the idle connections that the stop has missed
//! ([`connections`](super::connections)).

use std::{net::Shutdown, sync::Arc, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::AsFd,
};

use super::connections::{Connections, Member};
use crate::{
    connection::{Phase, TIME_IS_UP, Verdict},
    limits::Limits,
};

const SHORTEST_TICK: Duration = Duration::from_millis(10);
const LONGEST_TICK: Duration = Duration::from_millis(250);

/// How long a tick is, and how many ticks each phase may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    length: Duration,
    handshake: u32,
    idle: u32,
    head: u32,
    handler: u32,
    write: u32,
}

impl Ticks {
    pub(super) fn of_limits(limits: &Limits) -> Self {
        let all = [
            limits.handshake_timeout,
            limits.idle_timeout,
            limits.head_timeout,
            limits.request_timeout,
            limits.write_timeout,
        ];
        let shortest = all.into_iter().min().unwrap_or(LONGEST_TICK);
        let length = (shortest / 8).clamp(SHORTEST_TICK, LONGEST_TICK);
        let [handshake, idle, head, handler, write] = all.map(|limit| count_ticks(limit, length));
        Ticks { length, handshake, idle, head, handler, write }
    }

    pub(super) fn length(&self) -> Duration {
        self.length
    }

    fn of(&self, phase: Phase) -> Option<u32> {
        match phase {
            Phase::Handshake => Some(self.handshake),
            Phase::Idle => Some(self.idle),
            Phase::Head => Some(self.head),
            Phase::Handler => Some(self.handler),
            Phase::Write => Some(self.write),
            Phase::Stream | Phase::Other => None,
        }
    }
}

/// How many ticks a phase may take at most.
pub(super) fn count_ticks(limit: Duration, length: Duration) -> u32 {
    // One more, because the tick that runs has passed in part. At most a quarter of all ticks,
    // because they wrap around.
    let ticks = limit.as_nanos().div_ceil(length.as_nanos()) + 1;
    u32::try_from(ticks).unwrap_or(u32::MAX).min(u32::MAX / 4)
}

/// The phase of a connection, and the tick at which it began, in one word: the tick in the low
/// half, the phase in the four bits above it. The bits above these are the number of ticks that
/// this phase may take if it has a limit of its own (`connections/request_time.rs`), otherwise 0.
/// The overseer knows the other limits, because each request has several phases, and most of them
/// end long before the next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhaseWord(u64);

impl PhaseWord {
    const LIMIT_SHIFT: u32 = 36;

    #[inline]
    pub(super) fn new(phase: Phase, since: u32) -> Self {
        PhaseWord((phase as u64) << 32 | u64::from(since))
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        PhaseWord(bits)
    }

    #[inline]
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) fn phase(self) -> Phase {
        Phase::from_u8(((self.0 >> 32) & 0xF) as u8)
    }

    /// The word of the same phase with a limit of its own.
    pub(super) fn with_limit(self, ticks: u32) -> Self {
        let bits = self.0 & ((1 << Self::LIMIT_SHIFT) - 1);
        let most = u32::MAX >> (Self::LIMIT_SHIFT - 32);
        PhaseWord(bits | u64::from(ticks.min(most)) << Self::LIMIT_SHIFT)
    }

    fn limit(self, ticks: &Ticks) -> Option<u32> {
        match (self.0 >> Self::LIMIT_SHIFT) as u32 {
            0 => ticks.of(self.phase()),
            own => Some(own),
        }
    }

    fn is_overdue(self, ticks: &Ticks, now: u32) -> bool {
        // The difference is right, though ticks wrap around.
        let lasted = now.wrapping_sub(self.0 as u32);
        self.limit(ticks).is_some_and(|limit| lasted >= limit)
    }
}

/// Ends what takes too long, until the scope of the caller is cancelled.
pub(super) fn oversee(connections: &Connections, ticks: Ticks, tolerates_half_close: bool) {
    let mut has_dismissed = false;
    while ramie::cancel::check_cancelled().is_ok() {
        let was_stopping = connections.is_stopping();
        ramie::fiber::sleep(ticks.length);
        tick(connections, &ticks, tolerates_half_close);
        if was_stopping && !has_dismissed {
            connections.dismiss_idle();
            has_dismissed = true;
        }
    }
}

fn tick(connections: &Connections, ticks: &Ticks, tolerates_half_close: bool) {
    let now = connections.advance();
    let mut working = Vec::new();
    let mut overdue = Vec::new();
    connections.for_each(|member| {
        let word = member.phase_word();
        match word.phase() {
            _ if word.is_overdue(ticks, now) => overdue.push((Arc::clone(member), word)),
            Phase::Handler | Phase::Stream => working.push(Arc::clone(member)),
            _ => {}
        }
    });
    for (member, word) in overdue {
        // It may have gone on meanwhile.
        if member.phase_word() == word {
            end_overdue(&member, word.phase());
        }
    }
    for gone in gone_clients(&working, tolerates_half_close) {
        gone.cancel(Verdict::Gone, "the client has closed the connection");
    }
}

fn end_overdue(member: &Member, phase: Phase) {
    match phase {
        Phase::Handshake | Phase::Idle => member.end_reading(),
        Phase::Head => {
            member.judge(Verdict::Late);
            member.end_reading();
        }
        Phase::Handler => member.cancel(Verdict::Late, TIME_IS_UP),
        Phase::Write => {
            member.cancel(Verdict::Gone, "the client takes no bytes");
            let _ = member.stream().shutdown(Shutdown::Both);
        }
        Phase::Stream | Phase::Other => {}
    }
}

/// The connections whose clients have closed them, by one poll(2) that does not wait. The kernel
/// reports a read side that the server has shut down as one that the client has, so this is ignored
/// where the server has: a request that arrived just before is still answered.
fn gone_clients(members: &[Arc<Member>], tolerates_half_close: bool) -> Vec<&Arc<Member>> {
    let events = match tolerates_half_close {
        true => PollFlags::empty(),
        false => PollFlags::RDHUP,
    };
    let descriptors = members.iter().map(|member| member.stream().socket().as_fd());
    let mut polled: Vec<_> =
        descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, events)).collect();
    // If this fails, the next tick tries again.
    let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    let pairs = members.iter().zip(&polled);
    let is_gone = |member: &Member, polled: &PollFd<'_>| {
        let both_sides = PollFlags::HUP | PollFlags::ERR;
        polled.revents().intersects(both_sides)
            || polled.revents().intersects(events) && !member.is_reading_ended()
    };
    pairs.filter(|(member, polled)| is_gone(member, polled)).map(|(member, _)| member).collect()
}

#[cfg(test)]
mod tests {
    use ramie::fiber;

    use super::*;
    use crate::{connection::Presence, server::connections::tests::connection};

    #[test]
    fn a_connection_that_a_stop_has_missed_is_closed() {
        let limits = Limits { head_timeout: Duration::from_millis(80), ..Limits::default() };
        let end = ramie::cancel::scope(|overseeing| overseeing.handle());
        ramie::run(|| {
            let (connections, open, _client) = connection();
            open.presence().enter(Phase::Head);
            connections.stop();
            open.presence().enter(Phase::Idle);
            let (connections, end) = (&connections, &end);
            fiber::scope(|fibers| {
                let ticks = Ticks::of_limits(&limits);
                fibers.spawn(move || end.run(|| oversee(connections, ticks, false)));
                assert_eq!(open.stream().read(&mut [0; 1]).unwrap(), 0);
                end.cancel();
            });
        });
    }

    /// A request that arrived just before the stop is still read, and its client still waits.
    #[test]
    fn a_client_is_not_gone_because_a_stop_has_ended_the_reading() {
        let ticks = Ticks::of_limits(&Limits::default());
        ramie::run(|| {
            let (connections, open, _client) = connection();
            open.presence().enter(Phase::Head);
            open.presence().enter(Phase::Idle);
            connections.stop();
            open.presence().enter(Phase::Handler);
            tick(&connections, &ticks, false);
            assert_eq!(open.presence().verdict(), Verdict::None);
        });
    }

    #[test]
    fn a_limit_is_rounded_up_to_ticks() {
        let limits = Limits { head_timeout: Duration::from_millis(400), ..Limits::default() };
        let ticks = Ticks::of_limits(&limits);
        assert_eq!(ticks.length, Duration::from_millis(50));
        assert_eq!((ticks.of(Phase::Head), ticks.of(Phase::Idle)), (Some(9), Some(1201)));
        let forever = Limits { idle_timeout: Duration::MAX, ..Limits::default() };
        assert_eq!(Ticks::of_limits(&forever).of(Phase::Idle), Some(u32::MAX / 4));
    }

    #[test]
    fn a_phase_is_overdue_at_its_tick_also_where_ticks_wrap() {
        let ticks = Ticks::of_limits(&Limits::default());
        for since in [0, 5, u32::MAX] {
            let word = PhaseWord::new(Phase::Write, since);
            assert_eq!(word.phase(), Phase::Write);
            let is_overdue = |lasted| word.is_overdue(&ticks, since.wrapping_add(lasted));
            assert!(!is_overdue(0) && !is_overdue(ticks.write - 1));
            assert!(is_overdue(ticks.write) && is_overdue(ticks.write + 9));
        }
        assert!(!PhaseWord::new(Phase::Stream, 0).is_overdue(&ticks, u32::MAX));
    }

    #[test]
    fn a_limit_of_a_phase_itself_counts_instead_of_the_servers() {
        let ticks = Ticks::of_limits(&Limits::default());
        for (since, limit) in [(0, 1), (u32::MAX, 1000), (5, (1 << 28) - 1), (9, u32::MAX)] {
            let word = PhaseWord::new(Phase::Handler, since).with_limit(7).with_limit(limit);
            assert_eq!((word.phase(), word.0 as u32), (Phase::Handler, since));
            let most = limit.min((1 << 28) - 1);
            let is_overdue = |lasted| word.is_overdue(&ticks, since.wrapping_add(lasted));
            assert!(!is_overdue(most - 1) && is_overdue(most));
        }
    }
}
