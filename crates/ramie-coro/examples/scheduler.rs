//! A cooperative scheduler: a task is a continuation, and the scheduler a handler with a queue.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use ramie_coro::effect::{Continuation, Effect, Step, perform, start};

/// The requests of a task to the scheduler.
enum Ask {
    Yield,
    Spawn(Box<dyn FnOnce()>),
}

impl Effect for Ask {
    type Output = ();
}

fn yield_now() {
    perform(Ask::Yield);
}

fn spawn(task: impl FnOnce() + 'static) {
    perform(Ask::Spawn(Box::new(task)));
}

enum Task {
    Fresh(Box<dyn FnOnce()>),
    Suspended(Continuation<Ask, ()>),
}

/// Runs `first`, and all tasks that it starts, in turns, until none is left.
fn run(first: impl FnOnce() + 'static) {
    let mut queue = VecDeque::from([Task::Fresh(Box::new(first))]);
    while let Some(task) = queue.pop_front() {
        let step = match task {
            Task::Fresh(task) => start(task),
            Task::Suspended(continuation) => continuation.resume(()),
        };
        match step {
            Step::Returned(()) => (),
            Step::Performed(Ask::Yield, task) => queue.push_back(Task::Suspended(task)),
            Step::Performed(Ask::Spawn(spawned), spawner) => {
                queue.push_front(Task::Suspended(spawner));
                queue.push_back(Task::Fresh(spawned));
            }
        }
    }
}

pub(crate) fn main() {
    let log = Rc::new(RefCell::new(String::new()));
    let seen = Rc::clone(&log);
    run(move || {
        for name in ["a", "b"] {
            let log = Rc::clone(&log);
            spawn(move || {
                for turn in 1..=3 {
                    log.borrow_mut().push_str(&format!("{name}{turn} "));
                    yield_now();
                }
            });
        }
    });
    assert_eq!(*seen.borrow(), "a1 b1 a2 b2 a3 b3 ");
    println!("{}", seen.borrow());
}
