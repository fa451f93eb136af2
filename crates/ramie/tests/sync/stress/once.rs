//! Once, OnceLock, LazyLock.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::Arc,
};

use ramie::{
    fiber,
    sync::{LazyLock, Once, OnceLock},
};

use super::{
    kinds::{Actor, Role, against_model},
    model::Model,
};

/// A panic that prints nothing.
struct OnPurpose;

fn silence() {
    static SILENT: std::sync::Once = std::sync::Once::new();
    SILENT.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_poisoned = info.payload_as_str().is_some_and(|text| text.contains("poisoned"));
            if !info.payload().is::<OnPurpose>() && !is_poisoned {
                usual(info);
            }
        }));
    });
}

#[derive(Debug)]
pub(crate) enum Cell {
    Set(u64, bool),
    Got(Option<u64>),
    GotOrMade(u64),
    /// The maker panicked, or was not called.
    FailedToMake(Option<u64>),
    Waited(u64),
}

/// The value of the cell, and the value that this call would put in.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Held(Option<u64>);

impl Model for Held {
    type Call = Cell;

    fn after(&self, strand: usize, call: &Cell) -> Option<Self> {
        let own = strand as u64;
        match (call, self.0) {
            (Cell::Set(value, true), None) => Some(Held(Some(*value))),
            (Cell::Set(_, false), Some(_)) => Some(self.clone()),
            (Cell::Got(seen), held) => (*seen == held).then(|| self.clone()),
            (Cell::GotOrMade(value), None) => (*value == own).then_some(Held(Some(own))),
            (Cell::GotOrMade(value) | Cell::Waited(value), Some(held)) => {
                (*value == held).then(|| self.clone())
            }
            (Cell::FailedToMake(seen), held) => (*seen == held).then(|| self.clone()),
            _ => None,
        }
    }
}

fn use_cell(cell: &OnceLock<u64>, actor: &mut Actor<Cell>) {
    let choice = actor.random.below(8);
    let own = actor.number as u64;
    let made = |fails: bool| {
        fiber::yield_now();
        if fails { panic_any(OnPurpose) } else { own }
    };
    actor.call(|| match choice {
        0 => Cell::Set(own, cell.set(own).is_ok()),
        1..4 => Cell::Got(cell.get().copied()),
        4 => Cell::GotOrMade(*cell.get_or_init(|| made(false))),
        _ => {
            let seen = catch_unwind(AssertUnwindSafe(|| *cell.get_or_init(|| made(true))));
            Cell::FailedToMake(seen.ok())
        }
    });
    actor.pause();
}

#[test]
fn a_once_lock() {
    silence();
    against_model("OnceLock", 60, |_| {
        let cell = Arc::new(OnceLock::new());
        let role = |number: u64| -> Role<Cell> {
            let cell = Arc::clone(&cell);
            Box::new(move |actor| {
                if number == 0 {
                    return actor.call(|| Cell::Waited(*cell.wait()));
                }
                (0..5).for_each(|_| use_cell(&cell, actor));
                actor.call(|| Cell::GotOrMade(*cell.get_or_init(|| number)));
            })
        };
        (Held::default(), (0..4).map(role).collect())
    });
}

#[derive(Debug)]
pub(crate) enum Call {
    /// Whether the closure was called.
    Once(Result<bool, ()>),
    OncePanicking(Result<bool, ()>),
    /// Whether the closure was called, and whether it saw poison.
    Forced(bool, bool),
    IsCompleted(bool),
    Waited,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Progress {
    New,
    Poisoned,
    Done,
}

impl Model for Progress {
    type Call = Call;

    fn after(&self, _: usize, call: &Call) -> Option<Self> {
        use Progress::{Done, New, Poisoned};
        Some(match (call, self) {
            (Call::Once(Ok(true)), New) => Done,
            (Call::OncePanicking(Ok(true)), New) => Poisoned,
            (Call::Once(Err(())) | Call::OncePanicking(Err(())), Poisoned) => Poisoned,
            (Call::Once(Ok(false)) | Call::OncePanicking(Ok(false)), Done) => Done,
            (Call::Forced(true, is_poisoned), New | Poisoned) => {
                (*is_poisoned == (*self == Poisoned)).then_some(Done)?
            }
            (Call::Forced(false, _) | Call::Waited, Done) => Done,
            (Call::IsCompleted(is_done), state) => {
                (*is_done == (*state == Done)).then(|| state.clone())?
            }
            _ => return None,
        })
    }
}

/// Whether the closure was called; an error if the Once is poisoned.
fn call_once(once: &Once, fails: bool) -> Result<bool, ()> {
    let mut is_called = false;
    let called = catch_unwind(AssertUnwindSafe(|| {
        once.call_once(|| {
            is_called = true;
            fiber::yield_now();
            if fails {
                panic_any(OnPurpose);
            }
        });
    }));
    if called.is_err() && !is_called { Err(()) } else { Ok(is_called) }
}

fn force(once: &Once) -> Call {
    let (mut is_called, mut is_poisoned) = (false, false);
    once.call_once_force(|state| {
        (is_called, is_poisoned) = (true, state.is_poisoned());
        fiber::yield_now();
    });
    Call::Forced(is_called, is_poisoned)
}

#[test]
fn a_once() {
    silence();
    against_model("Once", 60, |_| {
        let once = Arc::new(Once::new());
        let role = |number: u64| -> Role<Call> {
            let once = Arc::clone(&once);
            Box::new(move |actor| {
                for _ in 0..4 {
                    let choice = actor.random.below(8);
                    actor.call(|| match choice {
                        0 => Call::Once(call_once(&once, false)),
                        1..4 => Call::OncePanicking(call_once(&once, true)),
                        4 => force(&once),
                        _ => Call::IsCompleted(once.is_completed()),
                    });
                    actor.pause();
                }
                if number == 0 {
                    actor.call(|| force(&once));
                }
                actor.call(|| {
                    once.wait_force();
                    Call::Waited
                });
            })
        };
        (Progress::New, (0..4).map(role).collect())
    });
}

#[test]
fn a_lazy_lock() {
    against_model("LazyLock", 30, |_| {
        let make = || {
            fiber::yield_now();
            7
        };
        let lazy = Arc::new(LazyLock::<u64, fn() -> u64>::new(make));
        let role = |_| -> Role<Cell> {
            let lazy = Arc::clone(&lazy);
            Box::new(move |actor| {
                for _ in 0..3 {
                    let choice = actor.random.below(2);
                    actor.call(|| match choice {
                        0 => Cell::Got(LazyLock::get(&lazy).copied()),
                        _ => Cell::Waited(**lazy),
                    });
                    actor.pause();
                }
            })
        };
        (Forced(false), (0..4).map(role).collect())
    });
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Forced(bool);

impl Model for Forced {
    type Call = Cell;

    fn after(&self, _: usize, call: &Cell) -> Option<Self> {
        match call {
            Cell::Waited(7) => Some(Forced(true)),
            Cell::Got(seen) => (*seen == self.0.then_some(7)).then(|| self.clone()),
            _ => None,
        }
    }
}
