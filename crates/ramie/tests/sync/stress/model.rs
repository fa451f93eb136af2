//! Whether there is an order of calls that a sequential model explains.

use std::{
    collections::HashSet,
    fmt::{Debug, Write},
    hash::Hash,
};

/// The state of a primitive that is used by one strand after another.
pub(crate) trait Model: Clone + Eq + Hash + Send + 'static {
    /// A call with its answer.
    type Call: Debug + Send + 'static;

    /// The state after `strand` made the call and got that answer; `None` if the answer could not
    /// be so. A call that waits is made when it need not wait any more.
    fn after(&self, strand: usize, call: &Self::Call) -> Option<Self>;
}

/// A call, and when it began and ended.
#[derive(Debug)]
pub(crate) struct Noted<C> {
    pub(crate) strand: usize,
    pub(crate) call: C,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// Panics with the calls if no order of them is explained by the model.
pub(crate) fn assert_explained<M: Model>(initial: &M, calls: &mut [Noted<M::Call>]) {
    assert!(calls.len() <= 128, "more calls than there are bits");
    calls.sort_by_key(|noted| noted.began);
    let mut search = Search { calls, dead_ends: HashSet::new() };
    if !search.explain(initial, 0) {
        let mut report = "no order of these calls is possible:\n".to_owned();
        for Noted { strand, call, began, ended } in calls {
            writeln!(report, "{began:4} to {ended:4}, strand {strand}: {call:?}").unwrap();
        }
        panic!("{report}");
    }
}

struct Search<'a, M: Model> {
    calls: &'a [Noted<M::Call>],
    /// Calls that were made, as bits, and the state after them, from where no order goes on.
    dead_ends: HashSet<(u128, M)>,
}

impl<M: Model> Search<'_, M> {
    fn explain(&mut self, state: &M, made: u128) -> bool {
        let calls = self.calls;
        let left = || (0..calls.len()).filter(|n| made & (1 << n) == 0);
        let Some(first_end) = left().map(|n| calls[n].ended).min() else { return true };
        for n in left().take_while(|n| calls[*n].began < first_end) {
            let Some(next) = state.after(calls[n].strand, &calls[n].call) else { continue };
            let made = made | 1 << n;
            if !self.dead_ends.contains(&(made, next.clone())) {
                if self.explain(&next, made) {
                    return true;
                }
                self.dead_ends.insert((made, next));
            }
        }
        false
    }
}

/// A counter whose calls answer with the number before.
impl Model for u64 {
    type Call = u64;

    fn after(&self, _: usize, answer: &u64) -> Option<u64> {
        (answer == self).then_some(self + 1)
    }
}

fn noted(calls: &[(u64, u64, u64)]) -> Vec<Noted<u64>> {
    let note = |(strand, (call, began, ended)): (_, &(u64, u64, u64))| Noted {
        strand,
        call: *call,
        began: *began,
        ended: *ended,
    };
    calls.iter().enumerate().map(note).collect()
}

#[test]
fn overlapping_calls_may_have_any_order() {
    assert_explained(&0, &mut noted(&[(1, 0, 3), (0, 1, 2), (2, 4, 5)]));
}

#[test]
#[should_panic(expected = "no order of these calls is possible")]
fn a_call_that_ended_before_another_began_comes_first() {
    assert_explained(&0, &mut noted(&[(1, 0, 1), (0, 2, 3)]));
}

#[test]
#[should_panic(expected = "no order of these calls is possible")]
fn an_answer_given_twice_is_found() {
    assert_explained(&0, &mut noted(&[(0, 0, 3), (0, 1, 2)]));
}
