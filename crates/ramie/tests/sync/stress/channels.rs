//! The channel of many senders and receivers, its select, and mpsc.

use std::{collections::VecDeque, sync::Arc};

use ramie::{
    channel::{self, Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, TrySendError},
    select,
    sync::mpsc,
};

use super::{
    kinds::{Actor, Role, against_model, cancellable},
    model::Model,
};

#[derive(Debug)]
pub(crate) enum Call {
    Sent(u64, bool),
    SendCancelled,
    TriedToSend(u64, Result<(), TrySendError<u64>>),
    Received(Option<u64>),
    TriedToReceive(Result<u64, TryRecvError>),
    WaitedInTime(Result<u64, RecvTimeoutError>),
    SenderGone,
    ReceiverGone,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Queue {
    values: VecDeque<u64>,
    /// With 0, the model has one place all the same: between a send and its receive.
    capacity: usize,
    senders: usize,
    receivers: usize,
}

impl Queue {
    fn put(&self, value: u64) -> Option<Self> {
        let mut after = self.clone();
        after.values.push_back(value);
        (self.receivers > 0 && self.values.len() < self.capacity.max(1)).then_some(after)
    }

    fn take(&self, value: u64) -> Option<Self> {
        let mut after = self.clone();
        (after.values.pop_front() == Some(value)).then_some(after)
    }

    fn stay(&self, is_possible: bool) -> Option<Self> {
        is_possible.then(|| self.clone())
    }

    fn is_over(&self) -> bool {
        self.values.is_empty() && self.senders == 0
    }
}

impl Model for Queue {
    type Call = Call;

    fn after(&self, _: usize, call: &Call) -> Option<Self> {
        match call {
            Call::Sent(value, true) | Call::TriedToSend(value, Ok(())) => self.put(*value),
            Call::Sent(_, false) | Call::TriedToSend(_, Err(TrySendError::Disconnected(_))) => {
                self.stay(self.receivers == 0)
            }
            Call::TriedToSend(_, Err(TrySendError::Full(_))) => {
                let is_full = self.capacity == 0 || self.values.len() == self.capacity;
                self.stay(self.receivers > 0 && is_full)
            }
            Call::Received(Some(value))
            | Call::TriedToReceive(Ok(value))
            | Call::WaitedInTime(Ok(value)) => self.take(*value),
            Call::Received(None)
            | Call::TriedToReceive(Err(TryRecvError::Disconnected))
            | Call::WaitedInTime(Err(RecvTimeoutError::Disconnected)) => self.stay(self.is_over()),
            Call::TriedToReceive(Err(TryRecvError::Empty)) => {
                self.stay(self.values.is_empty() && self.senders > 0)
            }
            Call::WaitedInTime(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Cancelled))
            | Call::SendCancelled => self.stay(true),
            Call::SenderGone => {
                let senders = self.senders.checked_sub(1)?;
                Some(Queue { senders, ..self.clone() })
            }
            Call::ReceiverGone => {
                let receivers = self.receivers.checked_sub(1)?;
                Some(Queue { receivers, ..self.clone() })
            }
        }
    }
}

const STEPS: u64 = 6;

/// A value that no other strand sends, nor this one again.
fn value(actor: &Actor<impl Sized>, step: u64) -> u64 {
    actor.number as u64 * 100 + step
}

fn send(sender: Sender<u64>, actor: &mut Actor<Call>) {
    for step in 0..STEPS {
        let (value, is_try) = (value(actor, step), actor.random.below(2) == 0);
        actor.call(|| {
            if is_try {
                return Call::TriedToSend(value, sender.try_send(value));
            }
            match cancellable(|| sender.send(value)) {
                Err(SendError::Cancelled(back)) if back == value => Call::SendCancelled,
                sent => Call::Sent(value, sent.is_ok()),
            }
        });
        actor.pause();
    }
    actor.call(|| {
        drop(sender);
        Call::SenderGone
    });
}

fn receive(receiver: Receiver<u64>, actor: &mut Actor<Call>) {
    for _ in 0..actor.random.below(3 * STEPS) {
        let (choice, moment) = (actor.random.below(3), actor.moment());
        actor.call(|| match choice {
            0 => Call::TriedToReceive(receiver.try_recv()),
            1 => Call::WaitedInTime(cancellable(|| receiver.recv_timeout(moment))),
            _ => Call::Received(receiver.recv().ok()),
        });
        actor.pause();
    }
    actor.call(|| {
        drop(receiver);
        Call::ReceiverGone
    });
}

#[test]
fn a_channel() {
    against_model("channel", 60, |random| {
        let capacity = [0, 1, 2, usize::MAX][random.below(4) as usize];
        let (sender, receiver) = match capacity {
            usize::MAX => channel::unbounded(),
            _ => channel::bounded(capacity),
        };
        let (another, other) = (sender.clone(), receiver.clone());
        let roles: Vec<Role<Call>> = vec![
            Box::new(|actor| send(sender, actor)),
            Box::new(|actor| receive(receiver, actor)),
            Box::new(|actor| send(another, actor)),
            Box::new(|actor| receive(other, actor)),
        ];
        (Queue { values: VecDeque::new(), capacity, senders: 2, receivers: 2 }, roles)
    });
}

fn send_mpsc(sender: mpsc::SyncSender<u64>, actor: &mut Actor<Call>) {
    for step in 0..STEPS {
        let (value, is_try) = (value(actor, step), actor.random.below(2) == 0);
        actor.call(|| {
            if !is_try {
                return Call::Sent(value, sender.send(value).is_ok());
            }
            Call::TriedToSend(
                value,
                sender.try_send(value).map_err(|error| match error {
                    mpsc::TrySendError::Full(value) => TrySendError::Full(value),
                    mpsc::TrySendError::Disconnected(value) => TrySendError::Disconnected(value),
                }),
            )
        });
        actor.pause();
    }
    actor.call(|| {
        drop(sender);
        Call::SenderGone
    });
}

fn receive_mpsc(receiver: mpsc::Receiver<u64>, actor: &mut Actor<Call>) {
    for _ in 0..actor.random.below(4 * STEPS) {
        let (is_timed, moment) = (actor.random.below(2) == 0, actor.moment());
        actor.call(|| {
            if !is_timed {
                return Call::Received(receiver.recv().ok());
            }
            Call::WaitedInTime(receiver.recv_timeout(moment).map_err(|error| match error {
                mpsc::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
                mpsc::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
            }))
        });
        actor.pause();
    }
    actor.call(|| {
        drop(receiver);
        Call::ReceiverGone
    });
}

#[test]
fn an_mpsc() {
    against_model("mpsc", 60, |random| {
        let capacity = random.below(3) as usize;
        let (sender, receiver) = mpsc::sync_channel(capacity);
        let mut roles: Vec<Role<Call>> = vec![Box::new(|actor| receive_mpsc(receiver, actor))];
        for _ in 0..3 {
            let sender = sender.clone();
            roles.push(Box::new(|actor| send_mpsc(sender, actor)));
        }
        (Queue { values: VecDeque::new(), capacity, senders: 3, receivers: 1 }, roles)
    });
}

/// Two channels; a call is one of them, on one of those.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Queues([Queue; 2]);

impl Model for Queues {
    type Call = (usize, Call);

    fn after(&self, strand: usize, (number, call): &(usize, Call)) -> Option<Self> {
        let mut queues = self.0.clone();
        queues[*number] = queues[*number].after(strand, call)?;
        Some(Queues(queues))
    }
}

type Two<T> = Arc<[T; 2]>;

fn select_to_send(senders: &Two<Sender<u64>>, actor: &mut Actor<(usize, Call)>) {
    for step in 0..STEPS {
        let value = value(actor, step);
        let (first, second) = (&senders[0], &senders[1]);
        actor.call(|| {
            select! {
                send(first, value) -> sent => (0, Call::Sent(value, sent.is_ok())),
                send(second, value) -> sent => (1, Call::Sent(value, sent.is_ok())),
            }
        });
        actor.pause();
    }
}

fn select_to_receive(receivers: &Two<Receiver<u64>>, actor: &mut Actor<(usize, Call)>) {
    let mut left = 2 * STEPS;
    while left > 0 {
        let (choice, moment) = (actor.random.below(3), actor.moment());
        let (first, second) = (&receivers[0], &receivers[1]);
        let nothing = || (0, Call::WaitedInTime(Err(RecvTimeoutError::Timeout)));
        let before = actor.count();
        actor.call(|| match choice {
            0 => select! {
                recv(first) -> value => (0, Call::Received(value.ok())),
                recv(second) -> value => (1, Call::Received(value.ok())),
            },
            1 => select! {
                recv(first) -> value => (0, Call::Received(value.ok())),
                recv(second) -> value => (1, Call::Received(value.ok())),
                default(moment) => nothing(),
            },
            _ => select! {
                recv(second) -> value => (1, Call::Received(value.ok())),
                recv(first) -> value => (0, Call::Received(value.ok())),
                default => nothing(),
            },
        });
        actor.forget_if(|(_, call)| matches!(call, Call::WaitedInTime(Err(_))));
        left -= (actor.count() - before) as u64;
        actor.pause();
    }
}

/// Four strands, as many values sent as received; so all come through.
#[test]
fn a_select() {
    against_model("select", 60, |random| {
        let capacities = [random.below(3) as usize, random.below(3) as usize];
        let channels = capacities.map(channel::bounded);
        let senders = Arc::new(channels.each_ref().map(|(sender, _)| sender.clone()));
        let receivers = Arc::new(channels.map(|(_, receiver)| receiver));
        let role = |number: usize| -> Role<(usize, Call)> {
            let (senders, receivers) = (Arc::clone(&senders), Arc::clone(&receivers));
            Box::new(move |actor| match number {
                0 => select_to_receive(&receivers, actor),
                _ => select_to_send(&senders, actor),
            })
        };
        let queue =
            |capacity| Queue { values: VecDeque::new(), capacity, senders: 2, receivers: 1 };
        (Queues(capacities.map(queue)), (0..3).map(role).collect())
    });
}
