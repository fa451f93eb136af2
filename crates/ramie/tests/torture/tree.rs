//! The inner nodes: all ways to nest scopes, limits and shields.

use std::{io, panic::AssertUnwindSafe, time::Duration};

use ramie::{
    cancel::{self, check_cancelled, shield, shield_for, with_timeout},
    fiber,
    structured::{par_map, par_map_unordered, race, set, try_par_map, try_scope},
};

use crate::{common::Random, deeds, ledger::Ledger, spread};

/// A random tree with so many leaves at most.
pub(crate) fn node(ledger: &Ledger, mut random: Random, leaves: u64) {
    let _token = ledger.token("node");
    if leaves <= 1 || random.below(3 * leaves) == 0 {
        return deeds::any(ledger, random);
    }
    let mut child = || Random::from_seed(random.below(u64::MAX));
    let (left, right, mut own) = (child(), child(), child());
    let left = || node(ledger, left, leaves / 2);
    let right = || node(ledger, right, leaves / 2);
    let limit = Duration::from_micros(own.below(3000));
    match own.below(14) {
        0 => both(left, right),
        1 => both_local(left, right),
        2 => drop(ramie::join!(left(), right())),
        3 => cancelled_by_a_sibling(left, right, own.below(20)),
        4 => drop(with_timeout(limit, || both(left, right))),
        5 => shield(left),
        6 => drop(shield_for(limit, left)),
        7 => fails_fast(left, right),
        8 => drop(race(|racers| {
            racers.spawn(left);
            racers.spawn(right);
        })),
        9 => taken_one_by_one(left, right),
        10 => mapped(ledger, own, leaves / 3),
        11 => panics(left),
        12 => spread::supervised(ledger, own, leaves / 3),
        _ => {
            left();
            right();
        }
    }
}

fn both(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
    fiber::scope(|s| {
        s.spawn(left);
        s.spawn(right);
    });
}

fn both_local(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
    fiber::scope(|s| {
        s.spawn_local(left);
        right();
    });
}

fn cancelled_by_a_sibling(left: impl FnOnce() + Send, right: impl FnOnce() + Send, after: u64) {
    cancel::scope(|scope| {
        fiber::scope(|s| {
            s.spawn(left);
            s.spawn(right);
            (0..after).for_each(|_| fiber::yield_now());
            scope.cancel_because("a sibling's turn has come");
        });
        assert!(check_cancelled().is_err());
    });
}

fn fails_fast(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
    let outcome = try_scope(|scope| {
        scope.spawn(|| {
            left();
            check_cancelled().map_err(io::Error::from)
        });
        scope.spawn(|| {
            fiber::sleep(Duration::from_micros(200));
            Err::<(), _>(io::Error::other("no luck"))
        });
        right();
        Ok(())
    });
    let failures = outcome.expect_err("one has failed");
    assert_eq!(failures.cause().to_string(), "no luck");
}

fn taken_one_by_one(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
    let taken = set(|set| {
        set.spawn(left);
        set.spawn(right);
        set.outcomes().map(Result::unwrap).count()
    });
    assert_eq!(taken, 2);
}

fn mapped(ledger: &Ledger, mut random: Random, leaves: u64) {
    let seeds: Vec<_> = (0..3).map(|_| random.below(u64::MAX)).collect();
    let each = |seed: u64| {
        node(ledger, Random::from_seed(seed), leaves);
        seed
    };
    match random.below(3) {
        0 => assert_eq!(par_map(seeds.iter().copied(), 2, each), seeds),
        1 => {
            let mut sum = 0_u64;
            par_map_unordered(seeds.iter().copied(), 2, each, |seed| sum = sum.wrapping_add(seed));
            let expected = seeds.iter().fold(0_u64, |sum, seed| sum.wrapping_add(*seed));
            assert_eq!(sum, expected);
        }
        _ => {
            let all = try_par_map(seeds.iter().copied(), 2, |seed| io::Result::Ok(each(seed)));
            assert_eq!(all.unwrap(), seeds, "a call that does not fail is not left out");
        }
    }
}

fn panics(left: impl FnOnce() + Send) {
    let scope = || {
        fiber::scope(|s| {
            s.spawn(left);
            s.spawn(|| std::panic::resume_unwind(Box::new(7)));
        });
    };
    assert!(std::panic::catch_unwind(AssertUnwindSafe(scope)).is_err());
}
