//! Five philosophers at a table with a fork between each two. Each philosopher is a fiber, and eats
//! as often as the argument demands. The last one takes the forks in the other order, because
//! otherwise all could wait for each other.

use std::{env, time::Duration};

use ramie::{sync::Mutex, thread};

const NAMES: [&str; 5] = ["Aspasia", "Diotima", "Hipparchia", "Hypatia", "Themistoclea"];

/// A fork counts how often it was used.
type Fork = Mutex<u32>;

fn dine(left: &Fork, right: &Fork, meals: u32) -> u32 {
    for _ in 0..meals {
        let mut left = left.lock().unwrap();
        // Eating takes time, so the neighbours find the forks taken.
        thread::yield_now();
        let mut right = right.lock().unwrap();
        *left += 1;
        *right += 1;
        thread::sleep(Duration::from_micros(100));
    }
    meals
}

fn main() {
    let Ok(meals) = env::args().nth(1).map_or(Ok(3), |text| text.parse()) else {
        eprintln!("usage: philosophers [<meals>]");
        std::process::exit(2);
    };
    ramie::run(|| {
        let forks: [Fork; 5] = Default::default();
        thread::scope(|scope| {
            let philosophers: Vec<_> = (0..5)
                .map(|seat| {
                    let (left, right) = (seat, (seat + 1) % 5);
                    let (first, second) = (&forks[left.min(right)], &forks[left.max(right)]);
                    let builder = thread::Builder::new().name(NAMES[seat].to_owned());
                    builder.spawn_scoped(scope, move || dine(first, second, meals)).unwrap()
                })
                .collect();
            for philosopher in philosophers {
                let name = philosopher.thread().name().unwrap_or("nobody").to_owned();
                println!("{name} ate {} times", philosopher.join().unwrap());
            }
        });
        let used: u32 = forks.into_iter().map(|fork| fork.into_inner().unwrap()).sum();
        println!("forks were used {used} times");
    });
}
