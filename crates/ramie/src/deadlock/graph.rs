//! Strands that need one another, and the cycles among them.

use std::collections::HashMap;

use crate::core::strand::FiberId;

/// What has to happen before a strand can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Nobody in particular is known.
    Unknown,
    /// This strand unlocks, or ends.
    Strand(FiberId),
    /// All strands of the scope with this address end.
    Scope(usize),
}

/// A strand that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WaitNode {
    pub(super) id: FiberId,
    /// The number of its wait.
    pub(super) waits: u32,
    pub(super) need: Need,
    /// The address of the scope in which it was spawned; 0: none.
    pub(super) scope: usize,
}

/// The strands that wait, and for each the strands that have to act first.
pub(super) struct Graph {
    needs: Vec<Vec<usize>>,
    /// A strand needs a strand that is not among these.
    pub(super) needs_others: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    No,
    OnPath,
    Done,
}

impl Graph {
    /// The places of the strands are those in `nodes`.
    pub(super) fn new(nodes: &[WaitNode]) -> Graph {
        let places: HashMap<_, _> =
            nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
        for (at, node) in nodes.iter().enumerate().filter(|(_, node)| node.scope != 0) {
            members.entry(node.scope).or_default().push(at);
        }
        let mut needs_others = false;
        let needs = nodes.iter().map(|node| match node.need {
            Need::Unknown => Vec::new(),
            Need::Scope(scope) => members.remove(&scope).unwrap_or_default(),
            Need::Strand(id) => {
                let place = places.get(&id);
                needs_others |= place.is_none();
                place.into_iter().copied().collect()
            }
        });
        Graph { needs: needs.collect(), needs_others }
    }

    /// Cycles that have no strand in common. Each begins with its first strand in the order of
    /// places, and each strand needs the next one. Not recursive, because chains may be long.
    pub(super) fn cycles(&self) -> Vec<Vec<usize>> {
        let mut cycles: Vec<Vec<usize>> = Vec::new();
        let mut visits = vec![Visit::No; self.needs.len()];
        let mut is_in_cycle = vec![false; self.needs.len()];
        for start in 0..self.needs.len() {
            if visits[start] != Visit::No {
                continue;
            }
            visits[start] = Visit::OnPath;
            // Each strand with the number of its needs that were followed.
            let mut path = vec![(start, 0)];
            while let Some((at, followed)) = path.last_mut() {
                let Some(&next) = self.needs[*at].get(*followed) else {
                    visits[*at] = Visit::Done;
                    path.pop();
                    continue;
                };
                *followed += 1;
                match visits[next] {
                    Visit::No => {
                        visits[next] = Visit::OnPath;
                        path.push((next, 0));
                    }
                    Visit::OnPath => {
                        let from = path.iter().position(|(at, _)| *at == next).unwrap_or(0);
                        let cycle: Vec<_> = path[from..].iter().map(|(at, _)| *at).collect();
                        if !cycle.iter().any(|at| is_in_cycle[*at]) {
                            cycle.iter().for_each(|at| is_in_cycle[*at] = true);
                            cycles.push(from_first(cycle));
                        }
                    }
                    Visit::Done => {}
                }
            }
        }
        cycles
    }
}

/// The same cycle, from its first strand on.
fn from_first(mut cycle: Vec<usize>) -> Vec<usize> {
    let first = cycle.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(index, _)| index);
    cycle.rotate_left(first);
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> FiberId {
        FiberId::from_u64(1 << 32 | number).unwrap()
    }

    fn node(number: u64, need: Need) -> WaitNode {
        WaitNode { id: id(number), waits: 1, need, scope: 0 }
    }

    fn needs(pairs: &[(u64, u64)]) -> Graph {
        let nodes: Vec<_> =
            pairs.iter().map(|(from, to)| node(*from, Need::Strand(id(*to)))).collect();
        Graph::new(&nodes)
    }

    #[test]
    fn cycles_begin_with_their_first_strand() {
        assert_eq!(needs(&[(1, 2), (2, 1)]).cycles(), [vec![0, 1]]);
        // 1 waits behind the cycle of 2, 4 and 3.
        assert_eq!(needs(&[(1, 4), (2, 4), (3, 2), (4, 3)]).cycles(), [vec![1, 3, 2]]);
        assert_eq!(needs(&[(1, 2), (2, 1), (3, 4), (4, 3)]).cycles(), [vec![0, 1], vec![2, 3]]);
        assert_eq!(needs(&[(1, 1)]).cycles(), [vec![0]]);
    }

    /// `core` knows the bits of a Mutex's word, too.
    #[test]
    fn the_owner_of_a_mutex_is_read_in_one_way() {
        use crate::{core::wait::record::mutex_owner, sync::raw_mutex::owner_of};
        assert_eq!(mutex_owner(u64::MAX), owner_of(u64::MAX));
    }

    #[test]
    fn chains_are_no_cycles() {
        let graph = needs(&[(1, 2), (2, 3), (3, 9)]);
        assert!(graph.cycles().is_empty());
        assert!(graph.needs_others);
        // Two strands wait for a third one.
        assert!(needs(&[(1, 3), (2, 3), (3, 9)]).cycles().is_empty());
        let graph = Graph::new(&[node(1, Need::Strand(id(2))), node(2, Need::Unknown)]);
        assert!(graph.cycles().is_empty());
        assert!(!graph.needs_others);
    }

    #[test]
    fn a_scope_needs_each_of_its_strands() {
        let in_scope = |number, need| WaitNode { scope: 0x40, ..node(number, need) };
        let opener = node(1, Need::Scope(0x40));
        let waiter = in_scope(3, Need::Strand(id(1)));
        let graph = Graph::new(&[opener, in_scope(2, Need::Unknown), waiter]);
        assert_eq!(graph.cycles(), [vec![0, 2]]);
        // Two strands of the scope wait for its opener; one cycle is enough.
        let graph = Graph::new(&[opener, in_scope(2, Need::Strand(id(1))), waiter]);
        assert_eq!(graph.cycles(), [vec![0, 1]]);
        // The strand belongs to another scope.
        let graph = Graph::new(&[opener, WaitNode { scope: 0x80, ..waiter }]);
        assert!(graph.cycles().is_empty());
    }

    #[test]
    fn a_long_chain_takes_no_stack() {
        let pairs: Vec<_> = (1..=100_000).map(|from| (from, from % 100_000 + 1)).collect();
        let cycles = needs(&pairs).cycles();
        assert_eq!(cycles.len(), 1);
        assert_eq!(cycles[0].len(), 100_000);
    }
}
