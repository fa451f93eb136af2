//! More leaves: values that many see, and futures at the ends of channels.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ramie::{
    cancel::{check_cancelled, shield},
    channel, fiber,
    future::{block_on, block_on_or_cancelled},
    structured::{BackOff, Strategy, Supervisor},
    sync::{
        broadcast::{self, RecvError},
        watch,
    },
};

use crate::{
    common::Random,
    ledger::{Ledger, Token},
    tree,
};

/// Each receiver sees a rising row of values, and the last one unless it is cancelled.
pub(crate) fn watches(ledger: &Ledger, random: &mut Random) {
    let count = 1 + random.below(10);
    let (sender, receiver) = watch::channel((0, ledger.token("first value to watch")));
    fiber::scope(|s| {
        for _ in 0..2 {
            let mut receiver = receiver.clone();
            s.spawn(move || {
                let _token = ledger.token("watcher");
                let mut seen = 0;
                while receiver.changed().is_ok() {
                    let now = receiver.borrow_and_update().0;
                    assert!(now > seen, "{now} after {seen}");
                    seen = now;
                }
                assert!(seen == count || check_cancelled().is_err(), "{seen} of {count}");
                shield(|| {
                    while receiver.changed().is_ok() {
                        receiver.mark_unchanged();
                    }
                });
                assert_eq!(receiver.borrow().0, count, "the last one stays");
            });
        }
        drop(receiver);
        for number in 1..=count {
            sender.send_replace((number, ledger.token("value to watch")));
            fiber::yield_now();
        }
        // All receivers stay until the sender is gone.
        assert!(!sender.is_closed());
        drop(sender);
    });
}

/// Each receiver gets all values that were not overwritten, in order, and the number of the others.
pub(crate) fn broadcasts(ledger: &Ledger, random: &mut Random) {
    let (capacity, count) = (1 + random.below(4) as usize, random.below(12));
    let (sender, receiver) = broadcast::channel::<(u64, Arc<Token<'_>>)>(capacity);
    fiber::scope(|s| {
        for _ in 0..2 {
            let mut receiver = receiver.resubscribe();
            s.spawn(move || {
                let _token = ledger.token("receiver of a broadcast");
                let mut next = 0;
                loop {
                    match receiver.recv() {
                        Ok((number, _)) if number == next => next += 1,
                        Ok((number, _)) => panic!("{number} instead of {next}"),
                        Err(RecvError::Lagged(lost)) => next += lost,
                        Err(RecvError::Closed) => break,
                        // Level-triggered: the rest is received out of its reach.
                        Err(RecvError::Cancelled) => match shield(|| receiver.recv()) {
                            Ok((number, _)) => {
                                assert_eq!(number, next);
                                next += 1;
                            }
                            Err(RecvError::Lagged(lost)) => next += lost,
                            Err(_) => break,
                        },
                    }
                }
                assert_eq!(next, count);
            });
        }
        drop(receiver);
        for number in 0..count {
            let _ = sender.send((number, Arc::new(ledger.token("value for all"))));
            if number.is_multiple_of(3) {
                fiber::yield_now();
            }
        }
        drop(sender);
    });
}

/// A future sends and a future receives: all sent values are received.
pub(crate) fn awaits_values(ledger: &Ledger, random: &mut Random) {
    let (sender, receiver) = channel::bounded::<Token<'_>>(random.below(3) as usize);
    let count = random.below(12);
    let mut received = Vec::new();
    let sent = fiber::scope(|s| {
        let sender = s.spawn(move || {
            let mut sent = Vec::new();
            for _ in 0..count {
                let token = ledger.token("value of a future");
                let number = token.number;
                let mut send = sender.send_async(token);
                match block_on_or_cancelled(&mut send) {
                    Ok(outcome) => outcome.expect("the receiver stays"),
                    // Either it is taken later, or it goes with the future.
                    Err(_) if number.is_multiple_of(2) => shield(|| block_on(&mut send)).unwrap(),
                    Err(_) => break,
                }
                sent.push(number);
            }
            sent
        });
        let _token = ledger.token("awaiter of values");
        loop {
            match block_on_or_cancelled(&receiver) {
                Ok(Ok(token)) => received.push(token.number),
                Ok(Err(_)) => break,
                Err(_) => match block_on(&receiver) {
                    Ok(token) => received.push(token.number),
                    Err(_) => break,
                },
            }
        }
        block_on(sender).unwrap()
    });
    // One whose future was dropped may have been taken just before, or not.
    let is_prefix = received.starts_with(&sent) && received.len() <= sent.len() + 1;
    assert!(is_prefix, "{received:?} of {sent:?}");
}

/// Children that fail and are started again, while the whole may be cancelled.
pub(crate) fn supervised(ledger: &Ledger, mut random: Random, leaves: u64) {
    let (flaky, steady) = (random.below(u64::MAX), random.below(u64::MAX));
    let strategy = if random.below(2) == 0 { Strategy::OneForOne } else { Strategy::OneForAll };
    let fails = random.below(3) as usize;
    let back_off =
        BackOff { first: Duration::from_micros(50), longest: Duration::from_micros(100) };
    let supervisor = Supervisor::new().strategy(strategy).back_off(back_off);
    let tries = AtomicUsize::new(0);
    let ended = supervisor.limit(fails, Duration::from_secs(3600)).run(|children| {
        children.add("flaky", || {
            tree::node(ledger, Random::from_seed(flaky), leaves);
            match tries.fetch_add(1, SeqCst) < fails {
                true => Err(io::Error::other("once more")),
                false => Ok(()),
            }
        });
        children.add("steady", || {
            tree::node(ledger, Random::from_seed(steady), leaves);
            Ok(check_cancelled()?)
        });
    });
    ended.expect("it does not fail too often");
    assert!(tries.into_inner() == fails + 1 || check_cancelled().is_err());
}
