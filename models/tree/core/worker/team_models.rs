//! The team: a shared closure is taken although all others sleep, and all notice the end.

use std::sync::Arc;

use loom::thread;

use super::{
    current,
    team::{FreshQueue, Search, Seat, Team},
};
use crate::{
    core::{
        strand::{StrandHeader, slab},
        worker::Pool,
    },
    models::check_within,
};

/// A place in a team, before the thread that takes it has started.
struct Place {
    team: Arc<Team>,
    index: usize,
    queue: FreshQueue,
}

fn places(count: usize) -> Vec<Place> {
    let (team, queues) = Team::new(count, None, Arc::new(Pool));
    let place = |(index, queue)| Place { team: Arc::clone(&team), index, queue };
    queues.into_iter().enumerate().map(place).collect()
}

impl Place {
    fn take(self) -> Seat {
        self.team.join_member(self.index, current().shared());
        Seat::new(self.team, self.index, self.queue)
    }
}

/// Looks once at the queues of the others.
fn search(seat: &Seat) -> Search {
    seat.steal(current().shared().live(), true)
}

fn sleep(seat: &Seat) {
    let worker = current();
    worker.shared.fall_asleep(|| seat.announce_sleep(), || worker.kernel.event.wait());
    seat.announce_running();
}

/// Runs a worker without strands of its own until it has stolen a closure.
fn steal(seat: &Seat) -> &'static StrandHeader {
    loop {
        if let Search::Found(stolen) = search(seat) {
            return stolen;
        }
        sleep(seat);
    }
}

/// The race to fear: a closure is queued while the thief falls asleep. The spawner never runs the
/// closure itself.
pub(crate) fn what_is_shared_is_stolen() {
    check_within(3, || {
        let mut places = places(2);
        let thief = places.remove(1);
        let thief = thread::spawn(move || {
            steal(&thief.take());
        });
        places.remove(0).take().share(slab::take());
        thief.join().unwrap();
    });
}

/// A thief that finds something wakes the next one while there is more.
pub(crate) fn a_thief_wakes_the_next() {
    check_within(2, || {
        let mut places = places(3);
        let thieves = [places.remove(1), places.remove(1)].map(|place| {
            thread::spawn(move || {
                steal(&place.take());
            })
        });
        let spawner = places.remove(0).take();
        [slab::take(), slab::take()].into_iter().for_each(|header| spawner.share(header));
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
    });
}

/// A worker with many fibers leaves a closure to a sleeping worker that has none.
pub(crate) fn one_that_has_enough_wakes_another() {
    check_within(2, || {
        let mut places = places(3);
        let (busy, thief) = (places.remove(1), places.remove(1));
        let spawner = places.remove(0).take();
        spawner.team.main_done();
        current().shared().note_spawned();
        let busy = thread::spawn(move || {
            let seat = busy.take();
            current().shared().set_live(100);
            while !matches!(search(&seat), Search::Left(_)) && !seat.team.check_finished() {
                sleep(&seat);
            }
        });
        let thief = thread::spawn(move || {
            let seat = thief.take();
            steal(&seat);
            current().shared().note_finished();
            assert!(seat.team.check_finished());
        });
        spawner.share(slab::take());
        busy.join().unwrap();
        thief.join().unwrap();
    });
}

/// Runs a worker whose last strand ends now, until the runtime has ended.
fn end(seat: &Seat) {
    current().shared().note_finished();
    while matches!(search(seat), Search::Nothing) && !seat.team.check_finished() {
        sleep(seat);
    }
}

/// The race to fear: each worker counts its last strand, and neither sees the count of the other.
pub(crate) fn the_end_is_noticed() {
    check_within(3, || {
        let mut places = places(2);
        let second = places.remove(1);
        let first = places.remove(0).take();
        let shared = current().shared();
        shared.note_spawned();
        shared.note_spawned();
        let second = thread::spawn(move || end(&second.take()));
        first.team.main_done();
        end(&first);
        second.join().unwrap();
    });
}

/// The other race to fear: a worker sees that a strand has ended, but not that it had spawned
/// another strand, which is still alive.
pub(crate) fn the_end_does_not_come_early() {
    check_within(3, || {
        let mut places = places(2);
        let second = places.remove(1);
        let first = places.remove(0).take();
        current().shared().note_spawned();
        first.team.main_done();
        let second = thread::spawn(move || {
            let _seat = second.take();
            current().shared().note_spawned();
            current().shared().note_finished();
        });
        assert!(!first.team.check_finished(), "the end has come while a strand lives");
        second.join().unwrap();
        assert!(!first.team.check_finished(), "the end has come while a strand lives");
    });
}
