//! The workers of a runtime: a shared closure is stolen although all others sleep, and all workers
//! notice the end.

use std::sync::Arc;

use loom::thread;

use super::{
    Pool, current,
    stealing::{Membership, Search},
    workers::Workers,
};
use crate::{
    core::strand::{StrandHeader, slab},
    models::check_within,
};

/// The memberships of workers whose threads have not started.
fn members(count: usize) -> Vec<Membership> {
    Workers::new(count, None, Arc::new(Pool)).1
}

/// Enters this thread's worker into the list.
fn enter(member: Membership) -> Membership {
    member.register(current().shared());
    member
}

/// Looks once at the queues of the others, after a note for the last look before a sleep.
fn search(member: &Membership) -> Search {
    member.note_end();
    member.search(current().shared().live(), true)
}

fn sleep(member: &Membership) {
    let worker = current();
    worker.shared.fall_asleep(|| member.announce_sleep(), || worker.kernel.event.wait());
    member.announce_running();
}

/// Runs a worker without strands of its own until it has stolen a closure.
fn steal(member: &Membership) -> &'static StrandHeader {
    loop {
        if let Search::Found(stolen) = search(member) {
            return stolen;
        }
        sleep(member);
    }
}

/// The race to fear: a closure is queued while the thief falls asleep. The spawner never runs the
/// closure itself.
pub(crate) fn what_is_shared_is_stolen() {
    check_within(3, || {
        let mut members = members(2);
        let thief = members.remove(1);
        let thief = thread::spawn(move || {
            steal(&enter(thief));
        });
        enter(members.remove(0)).share(slab::take());
        thief.join().unwrap();
    });
}

/// The race to fear: a closure is queued from outside while the worker that could start it falls
/// asleep.
pub(crate) fn what_comes_from_outside_is_taken() {
    check_within(3, || {
        let mut members = members(2);
        let (taker, other) = (members.remove(1), members.remove(0));
        let taker = thread::spawn(move || {
            let member = enter(taker);
            while member.take_from_outside().is_none() {
                sleep(&member);
            }
        });
        other.workers.note_spawned_outside();
        other.workers.push_outside(slab::take());
        taker.join().unwrap();
    });
}

/// A worker that takes one of two closures from outside wakes another for the rest.
pub(crate) fn one_that_takes_from_outside_wakes_the_next() {
    check_within(2, || {
        let mut members = members(2);
        let takers = [members.remove(1), members.remove(0)].map(|member| {
            let workers = Arc::clone(&member.workers);
            let taker = thread::spawn(move || {
                let member = enter(member);
                while member.take_from_outside().is_none() {
                    sleep(&member);
                    // The closure that keeps it awake may not be in the queue yet.
                    thread::yield_now();
                }
            });
            (workers, taker)
        });
        let workers = Arc::clone(&takers[0].0);
        (0..2).for_each(|_| workers.push_outside(slab::take()));
        takers.into_iter().for_each(|(_, taker)| taker.join().unwrap());
    });
}

/// A thief that finds something wakes the next one while there is more.
pub(crate) fn a_thief_wakes_the_next() {
    check_within(2, || {
        let mut members = members(3);
        let thieves = [members.remove(1), members.remove(1)].map(|member| {
            thread::spawn(move || {
                steal(&enter(member));
            })
        });
        let spawner = enter(members.remove(0));
        [slab::take(), slab::take()].into_iter().for_each(|header| spawner.share(header));
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
    });
}

/// A worker with many fibers leaves a closure to a sleeping worker that has none.
pub(crate) fn one_that_has_enough_wakes_another() {
    check_within(2, || {
        let mut members = members(3);
        let (busy, thief) = (members.remove(1), members.remove(1));
        let spawner = enter(members.remove(0));
        spawner.workers.main_done();
        current().shared().note_spawned();
        let busy = thread::spawn(move || {
            let member = enter(busy);
            current().shared().set_live(100);
            while !matches!(search(&member), Search::Left(_)) && !member.workers.check_finished() {
                sleep(&member);
            }
        });
        let thief = thread::spawn(move || {
            let member = enter(thief);
            steal(&member);
            current().shared().note_finished();
            assert!(member.workers.check_finished());
        });
        spawner.share(slab::take());
        busy.join().unwrap();
        thief.join().unwrap();
    });
}

/// Runs a worker whose last strand ends now, until the runtime has ended.
fn end(member: &Membership) {
    current().shared().note_finished();
    while matches!(search(member), Search::Nothing) && !member.workers.check_finished() {
        sleep(member);
    }
}

/// The race to fear: each worker counts its last strand, and neither sees the count of the other.
pub(crate) fn the_end_is_noticed() {
    check_within(3, || {
        let mut members = members(2);
        let second = members.remove(1);
        let first = enter(members.remove(0));
        let shared = current().shared();
        shared.note_spawned();
        shared.note_spawned();
        let second = thread::spawn(move || end(&enter(second)));
        first.workers.main_done();
        end(&first);
        second.join().unwrap();
    });
}

/// A thread that is no worker lets the runtime end, while its worker falls asleep.
pub(crate) fn the_end_that_begins_outside_is_noticed() {
    check_within(3, || {
        let member = enter(members(1).remove(0));
        let workers = Arc::clone(&member.workers);
        let outside = thread::spawn(move || workers.main_done());
        while matches!(search(&member), Search::Nothing) && !member.workers.check_finished() {
            sleep(&member);
        }
        outside.join().unwrap();
    });
}

/// The other race to fear: a worker sees that a strand has ended, but not that it had spawned
/// another strand, which is still alive.
pub(crate) fn the_end_does_not_come_early() {
    check_within(3, || {
        let mut members = members(2);
        let second = members.remove(1);
        let first = enter(members.remove(0));
        current().shared().note_spawned();
        first.workers.main_done();
        let second = thread::spawn(move || {
            let _member = enter(second);
            current().shared().note_spawned();
            current().shared().note_finished();
        });
        assert!(!first.workers.check_finished(), "the end has come while a strand lives");
        second.join().unwrap();
        assert!(!first.workers.check_finished(), "the end has come while a strand lives");
    });
}
