//! A hand-over between two fibers, each on a worker of its own, by channels.

use ramie::{
    Runtime, Strands, channel,
    fiber::{self, Builder, Place},
};

use super::{RoundTrips, ping};
use crate::process;

pub fn run(plan: RoundTrips, cpus: [usize; 2]) -> Vec<f64> {
    let builder = Runtime::builder().strands(Strands::Fibers).workers(2);
    builder.build().expect("a runtime").run(|| {
        let (there, asked) = channel::bounded(1);
        let (answer, back) = channel::bounded(1);
        fiber::scope(|s| {
            let place = |worker| Builder::new().on(Place::Worker(worker));
            let other = place(1).spawn_scoped(s, move || {
                process::pin_to(cpus[1]);
                while let Ok(value) = asked.recv() {
                    answer.send(value).expect("it is awaited");
                }
            });
            other.expect("a fiber");
            let one = place(0).spawn_scoped(s, move || {
                process::pin_to(cpus[0]);
                let mut value = 0_u64;
                ping(plan, || {
                    there.send(value).expect("it is awaited");
                    assert_eq!(back.recv(), Ok(value));
                    value += 1;
                })
            });
            one.expect("a fiber").join().expect("no panic")
        })
    })
}
