//! Event, Barrier, oneshot, park and unpark.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie::{
    fiber::{self, Fiber},
    sync::{
        Barrier, Event, Mutex,
        oneshot::{self, RecvTimeoutError, TryRecvError},
    },
};

use super::{
    kinds::{Actor, Play, Role, against_model, cancellable, on_each_kind},
    model::Model,
};

#[derive(Debug)]
pub(crate) enum Flag {
    Set,
    Reset,
    IsSet(bool),
    Waited,
    WaitedInTime(bool),
}

impl Model for bool {
    type Call = Flag;

    fn after(&self, _: usize, call: &Flag) -> Option<Self> {
        match call {
            Flag::Set => Some(true),
            Flag::Reset => Some(false),
            Flag::IsSet(seen) => (seen == self).then_some(*self),
            Flag::Waited | Flag::WaitedInTime(true) => self.then_some(true),
            Flag::WaitedInTime(false) => Some(*self),
        }
    }
}

#[test]
fn an_event() {
    against_model("Event", 100, |_| {
        let event = Arc::new(Event::new());
        let role = |number: u64| -> Role<Flag> {
            let event = Arc::clone(&event);
            Box::new(move |actor| {
                if number == 0 {
                    return actor.call(|| {
                        event.wait().unwrap();
                        Flag::Waited
                    });
                }
                (0..6).for_each(|_| use_event(&event, actor));
                actor.call(|| {
                    event.set();
                    Flag::Set
                });
            })
        };
        (false, (0..5).map(role).collect())
    });
}

fn use_event(event: &Event, actor: &mut Actor<Flag>) {
    let choice = actor.random.below(6);
    let moment = actor.moment();
    actor.call(|| match choice {
        0 => {
            event.set();
            Flag::Set
        }
        1 | 2 => {
            event.reset();
            Flag::Reset
        }
        3 => Flag::IsSet(event.is_set()),
        // If the wait was cancelled or timed out, it may be set or not.
        _ => Flag::WaitedInTime(cancellable(|| event.wait_timeout(moment)).unwrap_or(false)),
    });
    actor.pause();
}

/// Nobody leaves before all have come, and each time one leads.
#[test]
fn a_barrier() {
    const STRANDS: usize = 4;
    const TIMES: usize = 10;
    on_each_kind("Barrier", 20, |_, run| {
        let shared = Arc::new((Barrier::new(STRANDS), [(); 2].map(|()| AtomicUsize::new(0))));
        let play = |number: usize| -> Play {
            let shared = Arc::clone(&shared);
            Box::new(move || {
                let (barrier, [arrived, leaders]) = &*shared;
                for time in 1..=TIMES {
                    (0..number).for_each(|_| fiber::yield_now());
                    arrived.fetch_add(1, Ordering::SeqCst);
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::SeqCst);
                    }
                    assert!(arrived.load(Ordering::SeqCst) >= time * STRANDS);
                }
            })
        };
        run((0..STRANDS).map(play).collect());
        let [arrived, leaders] = &shared.1;
        assert_eq!(arrived.load(Ordering::SeqCst), STRANDS * TIMES);
        assert_eq!(leaders.load(Ordering::SeqCst), TIMES);
    });
}

#[derive(Debug)]
pub(crate) enum Once {
    Sent(Result<(), u64>),
    SenderGone,
    ReceiverGone,
    IsClosed(bool),
    Tried(Result<u64, TryRecvError>),
    WaitedInTime(Result<u64, RecvTimeoutError>),
    Received(Option<u64>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Channel {
    Empty,
    Full(u64),
    Closed,
}

impl Model for Channel {
    type Call = Once;

    fn after(&self, _: usize, call: &Once) -> Option<Self> {
        use Channel::{Closed, Empty, Full};
        Some(match (call, self) {
            (Once::Sent(Ok(())), Empty) => Full(7),
            (Once::Sent(Err(7)), Closed) => Closed,
            (Once::SenderGone, Empty) | (Once::ReceiverGone, _) => Closed,
            (Once::SenderGone, state) => state.clone(),
            (Once::IsClosed(seen), state) => {
                (*seen == (*state == Closed)).then(|| state.clone())?
            }
            (Once::Tried(Ok(seen)), Full(value))
            | (Once::WaitedInTime(Ok(seen)), Full(value))
            | (Once::Received(Some(seen)), Full(value)) => (seen == value).then_some(Closed)?,
            (Once::Tried(Err(TryRecvError::Empty)), Empty) => Empty,
            (Once::Tried(Err(TryRecvError::Closed)), Closed)
            | (Once::WaitedInTime(Err(RecvTimeoutError::Closed)), Closed)
            | (Once::Received(None), Closed) => Closed,
            (
                Once::WaitedInTime(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Cancelled)),
                state,
            ) => state.clone(),
            _ => return None,
        })
    }
}

fn send_once(sender: oneshot::Sender<u64>, actor: &mut Actor<Once>) {
    for _ in 0..actor.random.below(4) {
        actor.pause();
        actor.call(|| Once::IsClosed(sender.is_closed()));
    }
    let is_sent = actor.random.below(4) > 0;
    actor.call(|| {
        if is_sent {
            return Once::Sent(sender.send(7));
        }
        drop(sender);
        Once::SenderGone
    });
}

fn receive_once(receiver: oneshot::Receiver<u64>, actor: &mut Actor<Once>) {
    for _ in 0..actor.random.below(5) {
        let (is_try, moment) = (actor.random.below(2) == 0, actor.moment());
        actor.call(|| {
            if is_try {
                return Once::Tried(receiver.try_recv());
            }
            Once::WaitedInTime(cancellable(|| receiver.recv_timeout(moment)))
        });
        actor.pause();
    }
    let is_received = actor.random.below(2) == 0;
    actor.call(|| {
        if is_received {
            return Once::Received(receiver.recv().ok());
        }
        drop(receiver);
        Once::ReceiverGone
    });
}

#[test]
fn a_oneshot() {
    against_model("oneshot", 200, |_| {
        let (sender, receiver) = oneshot::channel();
        let roles: Vec<Role<Once>> = vec![
            Box::new(|actor| send_once(sender, actor)),
            Box::new(|actor| receive_once(receiver, actor)),
        ];
        (Channel::Empty, roles)
    });
}

/// Two strands hand a turn to and fro, one waiting forever, the other with timeouts; others send
/// them tokens that mean nothing.
#[test]
fn park_and_unpark() {
    const TURNS: usize = 40;
    on_each_kind("park", 20, |random, run| {
        let strands: Arc<Mutex<Vec<Fiber>>> = Arc::default();
        let turn = Arc::new(AtomicUsize::new(0));
        let is_done = Arc::new(AtomicBool::new(false));
        let moment = Duration::from_micros(random.below(60));
        let player = |number: usize| -> Play {
            let (strands, turn) = (Arc::clone(&strands), Arc::clone(&turn));
            let is_done = Arc::clone(&is_done);
            Box::new(move || {
                strands.lock().unwrap().push(fiber::current());
                loop {
                    let now = turn.load(Ordering::SeqCst);
                    if now == TURNS {
                        break;
                    }
                    if now % 2 == number && strands.lock().unwrap().len() == 2 {
                        turn.fetch_add(1, Ordering::SeqCst);
                        strands.lock().unwrap().iter().for_each(Fiber::unpark);
                    } else if number == 0 && now > 0 {
                        fiber::park();
                    } else {
                        fiber::park_timeout(moment);
                    }
                }
                is_done.store(true, Ordering::SeqCst);
            })
        };
        let meddler = || -> Play {
            let (strands, is_done) = (Arc::clone(&strands), Arc::clone(&is_done));
            Box::new(move || {
                for n in 0..100 {
                    if is_done.load(Ordering::SeqCst) {
                        break;
                    }
                    if let Some(strand) = strands.lock().unwrap().get(n % 2) {
                        strand.unpark();
                    }
                    fiber::yield_now();
                }
            })
        };
        run(vec![player(0), player(1), meddler()]);
        assert_eq!(turn.load(Ordering::SeqCst), TURNS);
    });
}
