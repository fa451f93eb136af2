//! A generator made of an effect: an iterator returns the items that the body yields.

use ramie_coro::effect::{Continuation, Effect, Step, perform, start};

struct Yield<T>(T);
impl<T: 'static> Effect for Yield<T> {
    type Output = ();
}

enum Generator<T: 'static> {
    Fresh(Box<dyn FnOnce()>),
    Suspended(Continuation<Yield<T>, ()>),
    Done,
}

fn generate<T>(body: impl FnOnce() + 'static) -> Generator<T> {
    Generator::Fresh(Box::new(body))
}

impl<T> Iterator for Generator<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let step = match std::mem::replace(self, Generator::Done) {
            Generator::Fresh(body) => start(body),
            Generator::Suspended(continuation) => continuation.resume(()),
            Generator::Done => return None,
        };
        match step {
            Step::Performed(Yield(item), continuation) => {
                *self = Generator::Suspended(continuation);
                Some(item)
            }
            Step::Returned(()) => None,
        }
    }
}

/// Yields the moves that solve the towers of Hanoi.
fn hanoi(discs: u32, from: char, to: char, by: char) {
    if discs > 0 {
        hanoi(discs - 1, from, by, to);
        perform(Yield((from, to)));
        hanoi(discs - 1, by, to, from);
    }
}

pub(crate) fn main() {
    let moves = || generate(|| hanoi(3, 'a', 'c', 'b'));
    assert_eq!(moves().count(), 7);
    assert_eq!(moves().next(), Some(('a', 'c')));
    assert_eq!(moves().zip(moves().skip(1)).filter(|(one, next)| one == next).count(), 0);
    moves().for_each(|(from, to)| print!("{from}{to} "));
    println!();
}
