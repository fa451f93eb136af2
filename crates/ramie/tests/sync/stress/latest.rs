//! Broadcast and watch.

use ramie::sync::{
    broadcast::{self, RecvError, RecvTimeoutError, TryRecvError},
    watch,
};

use super::{
    kinds::{Actor, Role, against_model, cancellable},
    model::Model,
};

const STEPS: u64 = 6;

#[derive(Debug)]
pub(crate) enum Cast {
    /// To so many; `None`: the value came back.
    Sent(u64, Option<usize>),
    Received(Result<u64, RecvError>),
    Tried(Result<u64, TryRecvError>),
    WaitedInTime(Result<u64, RecvTimeoutError>),
    Subscribed,
    SenderGone,
    ReceiverGone,
    Unseen(usize),
}

/// All that was sent, where each strand's receiver is, and how many senders there are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ring {
    sent: Vec<u64>,
    next: [Option<usize>; 5],
    capacity: usize,
    senders: usize,
}

impl Ring {
    fn receivers(&self) -> usize {
        self.next.iter().flatten().count()
    }

    fn unseen(&self) -> usize {
        let unseen = self.next.iter().flatten().map(|next| self.sent.len() - next);
        unseen.max().unwrap_or(0).min(self.capacity)
    }

    /// The value that a receiver gets, and its place afterwards.
    fn receive(&self, next: usize) -> (Result<u64, TryRecvError>, usize) {
        let oldest = self.sent.len().saturating_sub(self.capacity);
        match self.sent.get(next) {
            Some(_) if next < oldest => (Err(TryRecvError::Lagged((oldest - next) as u64)), oldest),
            Some(value) => (Ok(*value), next + 1),
            None if self.senders == 0 => (Err(TryRecvError::Closed), next),
            None => (Err(TryRecvError::Empty), next),
        }
    }

    fn received(&self, strand: usize, seen: Result<u64, TryRecvError>) -> Option<Self> {
        let (expected, next) = self.receive(self.next[strand]?);
        let mut after = self.clone();
        after.next[strand] = Some(next);
        (seen == expected).then_some(after)
    }
}

impl Model for Ring {
    type Call = Cast;

    fn after(&self, strand: usize, call: &Cast) -> Option<Self> {
        let mut after = self.clone();
        let is_possible = match call {
            Cast::Sent(value, Some(count)) => {
                after.sent.push(*value);
                *count == self.receivers() && *count > 0
            }
            Cast::Sent(_, None) => self.receivers() == 0,
            Cast::Received(seen) => {
                let seen = seen.map_err(|error| match error {
                    RecvError::Closed => TryRecvError::Closed,
                    RecvError::Lagged(count) => TryRecvError::Lagged(count),
                    RecvError::Cancelled => unreachable!("nobody cancels it"),
                });
                return self.received(strand, seen);
            }
            Cast::Tried(seen) => return self.received(strand, *seen),
            Cast::WaitedInTime(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Cancelled)) => {
                true
            }
            Cast::WaitedInTime(seen) => {
                let seen = seen.map_err(|error| match error {
                    RecvTimeoutError::Lagged(count) => TryRecvError::Lagged(count),
                    _ => TryRecvError::Closed,
                });
                return self.received(strand, seen);
            }
            Cast::Subscribed => after.next[strand].replace(self.sent.len()).is_none(),
            Cast::SenderGone => {
                after.senders = self.senders.checked_sub(1)?;
                true
            }
            Cast::ReceiverGone => after.next[strand].take().is_some(),
            Cast::Unseen(count) => *count == self.unseen(),
        };
        is_possible.then_some(after)
    }
}

fn send(sender: broadcast::Sender<u64>, actor: &mut Actor<Cast>) {
    for step in 0..STEPS {
        let value = actor.number as u64 * 100 + step;
        actor.call(|| Cast::Sent(value, sender.send(value).ok()));
        actor.pause();
        if actor.random.below(4) == 0 {
            actor.call(|| Cast::Unseen(sender.len()));
        }
    }
    actor.call(|| {
        drop(sender);
        Cast::SenderGone
    });
}

fn receive(mut receiver: broadcast::Receiver<u64>, actor: &mut Actor<Cast>) {
    for _ in 0..actor.random.below(3 * STEPS) {
        let (choice, moment) = (actor.random.below(12), actor.moment());
        actor.call(|| match choice {
            0..5 => Cast::Received(receiver.recv()),
            5..8 => Cast::Tried(receiver.try_recv()),
            _ => Cast::WaitedInTime(cancellable(|| receiver.recv_timeout(moment))),
        });
        actor.pause();
    }
    actor.call(|| {
        drop(receiver);
        Cast::ReceiverGone
    });
}

fn come_late(sender: broadcast::Sender<u64>, actor: &mut Actor<Cast>) {
    actor.pause();
    let mut receiver = None;
    actor.call(|| {
        receiver = Some(sender.subscribe());
        Cast::Subscribed
    });
    actor.call(|| {
        drop(sender);
        Cast::SenderGone
    });
    receiver.into_iter().for_each(|receiver| receive(receiver, actor));
}

#[test]
fn a_broadcast() {
    against_model("broadcast", 60, |random| {
        let capacity = 1 + random.below(4) as usize;
        let (sender, first) = broadcast::channel(capacity);
        let (second, another, late) = (sender.subscribe(), sender.clone(), sender.clone());
        let roles: Vec<Role<Cast>> = vec![
            Box::new(|actor| receive(first, actor)),
            Box::new(|actor| receive(second, actor)),
            Box::new(|actor| send(another, actor)),
            Box::new(|actor| send(sender, actor)),
            Box::new(|actor| come_late(late, actor)),
        ];
        let next = [Some(0), Some(0), None, None, None];
        (Ring { sent: Vec::new(), next, capacity, senders: 3 }, roles)
    });
}

#[derive(Debug)]
pub(crate) enum Watch {
    Sent(u64, bool),
    Replaced(u64, u64),
    /// Sent the next number; there was one already.
    AddedOneTo(u64),
    HasChanged(Result<bool, watch::RecvError>),
    Changed(Result<(), watch::RecvError>),
    ChangedInTime(Result<(), watch::RecvTimeoutError>),
    /// The value, and whether it was new.
    Borrowed(u64, bool),
    BorrowedAndUpdated(u64, bool),
    /// Waited for a value of at least this much and saw that one.
    WaitedFor(u64, Option<u64>),
    Closed,
    SenderGone,
    ReceiverGone,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Watched {
    value: u64,
    version: u64,
    /// The version each strand's receiver has seen.
    seen: [Option<u64>; 5],
    senders: usize,
}

impl Watched {
    fn changed_to(&self, value: u64) -> Option<Self> {
        Some(Watched { value, version: self.version + 1, ..self.clone() })
    }

    fn seen_by(&self, strand: usize) -> Option<Self> {
        let mut after = self.clone();
        after.seen[strand] = Some(self.version);
        Some(after)
    }

    fn stay(&self, is_possible: bool) -> Option<Self> {
        is_possible.then(|| self.clone())
    }

    fn has_receivers(&self) -> bool {
        self.seen.iter().flatten().count() > 0
    }
}

impl Model for Watched {
    type Call = Watch;

    fn after(&self, strand: usize, call: &Watch) -> Option<Self> {
        let is_new = self.seen[strand] != Some(self.version);
        let is_over = self.senders == 0;
        match call {
            Watch::Sent(value, true) => self.has_receivers().then(|| self.changed_to(*value))?,
            Watch::Sent(_, false) => self.stay(!self.has_receivers()),
            Watch::Replaced(new, old) => (self.value == *old).then(|| self.changed_to(*new))?,
            Watch::AddedOneTo(old) => (self.value == *old).then(|| self.changed_to(old + 1))?,
            Watch::HasChanged(Ok(seen)) => self.stay(!is_over && *seen == is_new),
            Watch::HasChanged(Err(_)) => self.stay(is_over),
            Watch::Changed(Ok(())) | Watch::ChangedInTime(Ok(())) => {
                is_new.then(|| self.seen_by(strand))?
            }
            Watch::Changed(Err(_)) | Watch::ChangedInTime(Err(watch::RecvTimeoutError::Closed)) => {
                self.stay(is_over && !is_new)
            }
            Watch::ChangedInTime(Err(
                watch::RecvTimeoutError::Timeout | watch::RecvTimeoutError::Cancelled,
            )) => self.stay(true),
            Watch::Borrowed(value, seen) => self.stay((*value, *seen) == (self.value, is_new)),
            Watch::BorrowedAndUpdated(value, seen) => {
                ((*value, *seen) == (self.value, is_new)).then(|| self.seen_by(strand))?
            }
            Watch::WaitedFor(least, Some(value)) => {
                (value == &self.value && value >= least).then(|| self.seen_by(strand))?
            }
            Watch::WaitedFor(least, None) => {
                (is_over && self.value < *least).then(|| self.seen_by(strand))?
            }
            Watch::Closed => self.stay(!self.has_receivers()),
            Watch::SenderGone => {
                let senders = self.senders.checked_sub(1)?;
                Some(Watched { senders, ..self.clone() })
            }
            Watch::ReceiverGone => {
                let mut after = self.clone();
                after.seen[strand].take().map(|_| after)
            }
        }
    }
}

fn change(sender: watch::Sender<u64>, waits_for_end: bool, actor: &mut Actor<Watch>) {
    for step in 0..STEPS {
        let value = actor.number as u64 * 100 + step * 10;
        let choice = actor.random.below(3);
        actor.call(|| match choice {
            0 => Watch::Sent(value, sender.send(value).is_ok()),
            1 => Watch::Replaced(value, sender.send_replace(value)),
            _ => {
                let mut old = 0;
                sender.send_modify(|value| {
                    old = *value;
                    *value += 1;
                });
                Watch::AddedOneTo(old)
            }
        });
        actor.pause();
    }
    if waits_for_end {
        actor.call(|| {
            sender.closed().unwrap();
            Watch::Closed
        });
    }
    actor.call(|| {
        drop(sender);
        Watch::SenderGone
    });
}

/// Waits for changes; if senders wait for its end, not forever.
fn watch_it(mut receiver: watch::Receiver<u64>, may_wait: bool, actor: &mut Actor<Watch>) {
    for _ in 0..actor.random.below(3 * STEPS) {
        let (choice, moment) = (actor.random.below(6), actor.moment());
        let least = actor.random.below(500);
        actor.call(|| match choice {
            0 => Watch::HasChanged(receiver.has_changed()),
            1 => {
                let value = receiver.borrow();
                Watch::Borrowed(*value, value.has_changed())
            }
            2 => {
                let value = receiver.borrow_and_update();
                Watch::BorrowedAndUpdated(*value, value.has_changed())
            }
            3 if may_wait => Watch::Changed(receiver.changed()),
            4 if may_wait => {
                let value = receiver.wait_for(|value| *value >= least);
                Watch::WaitedFor(least, value.ok().map(|value| *value))
            }
            _ => Watch::ChangedInTime(cancellable(|| receiver.changed_timeout(moment))),
        });
        actor.pause();
    }
    actor.call(|| {
        drop(receiver);
        Watch::ReceiverGone
    });
}

#[test]
fn a_watch() {
    against_model("watch", 60, |random| {
        let waits_for_end = random.below(2) == 0;
        let (sender, first) = watch::channel(0);
        let (second, third, another) = (sender.subscribe(), sender.subscribe(), sender.clone());
        let roles: Vec<Role<Watch>> = vec![
            Box::new(move |actor| watch_it(first, !waits_for_end, actor)),
            Box::new(move |actor| watch_it(second, !waits_for_end, actor)),
            Box::new(move |actor| watch_it(third, !waits_for_end, actor)),
            Box::new(move |actor| change(sender, waits_for_end, actor)),
            Box::new(|actor| change(another, false, actor)),
        ];
        let seen = [Some(0), Some(0), Some(0), None, None];
        (Watched { value: 0, version: 0, seen, senders: 2 }, roles)
    });
}
