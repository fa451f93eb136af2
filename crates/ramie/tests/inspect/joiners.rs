//! What the joiners spawn and wait for is shown at the line of the program that called them.

use std::convert::Infallible;

use ramie::{
    fiber::{self, Builder},
    inspect,
    structured::{self, Strategy, Supervisor, try_scope},
    sync::Event,
};

use crate::{common, named, unique};

type Outcome = Result<(), Infallible>;

/// Lets a named fiber call a joiner whose strands wait for the event, and checks the lines.
fn check(joiner: &str, call: impl FnOnce(&Event) + Send) {
    let (name, event) = (unique(joiner), Event::new());
    fiber::scope(|s| {
        Builder::new().name(name.clone()).spawn_scoped(s, || call(&event)).expect("a fiber");
        let mut places = (None, Vec::new());
        common::wait_until(|| {
            let dump = inspect::dump();
            let Some(strand) = named(&dump, &name) else { return false };
            // A strand that has not started does not know its parent.
            let children = dump.strands.iter().filter(|child| child.parent == Some(strand.id));
            let wait = strand.wait.as_ref().map(|wait| wait.location);
            places = (wait, children.map(|child| child.spawned_at.expect("spawned")).collect());
            wait.is_some() && !places.1.is_empty()
        });
        event.set();
        let wait = places.0.expect("it waits");
        assert_eq!(wait.file, file!(), "{joiner} waits at {wait}");
        for place in places.1 {
            assert_eq!(place.file, file!(), "{joiner} spawned at {place}");
        }
    });
}

#[test]
fn joiners_name_the_lines_of_their_callers() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            check("on_each_worker", |event| {
                fiber::on_each_worker(|_| event.wait().unwrap());
            });
            check("join", |event| {
                ramie::join!(event.wait().unwrap(), ());
            });
            check("try_join", |event| {
                let both = ramie::try_join!(event.wait(), event.wait());
                both.unwrap();
            });
            check("par_map", |event| {
                structured::par_map(0..4, 2, |_| event.wait().unwrap());
            });
            check("try_par_map", |event| {
                structured::try_par_map(0..4, 2, |_| event.wait()).unwrap();
            });
            check("race", |event| {
                structured::race(|racers| racers.spawn(|| event.wait().unwrap()));
            });
            check("any", |event| {
                let won = structured::any(|racers| racers.spawn_try(|| event.wait()));
                won.unwrap();
            });
            check("set", |event| structured::set(|set| set.spawn(|| event.wait().unwrap())));
            check("try_scope", |event| {
                let ended = try_scope(|scope| {
                    scope.spawn(|| event.wait());
                    scope.spawn_local(|| event.wait());
                    Ok(())
                });
                ended.unwrap();
            });
            for strategy in [Strategy::OneForOne, Strategy::OneForAll] {
                check("supervisor", |event| {
                    let child = || -> Outcome {
                        event.wait().unwrap();
                        Ok(())
                    };
                    let supervisor = Supervisor::new().strategy(strategy);
                    supervisor.run(|children| children.add("child", child)).unwrap();
                });
            }
        });
    });
}
