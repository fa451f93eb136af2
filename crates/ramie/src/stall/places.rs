//! Limits the number of reports: a closure that stalls its worker again and again is reported once
//! in a while. The same closure that was spawned at another place counts as another one.

use std::{collections::HashMap, mem, time::Duration};

use super::{report::StallCause, suspicion::Now};
use crate::core::worker::RunningFiber;

/// The time in which one place is reported once.
const QUIET: Duration = Duration::from_secs(10);
/// The most places that are remembered; there are as many as a program has spawns that stall.
const MOST: usize = 1024;

/// A closure, the place of its spawn, the way in which it stalls its worker, and whether it does so
/// in the panic hook, which has locks and calls of its own.
type StallPlace = (&'static str, usize, mem::Discriminant<StallCause>, bool);

/// The places that were reported.
#[derive(Default)]
pub(super) struct Places {
    /// The last report of each, and the number of stalls that were not reported since.
    reported: HashMap<StallPlace, (Now, u32)>,
}

impl Places {
    /// Whether a stall of that fiber is to be reported now, with the number of stalls that were
    /// not.
    pub(super) fn admit(
        &mut self,
        now: Now,
        fiber: &RunningFiber,
        cause: &StallCause,
    ) -> Option<u32> {
        let way = mem::discriminant(cause);
        let place = (fiber.closure, fiber.spawn_place, way, fiber.is_in_panic_hook);
        if let Some((last, unreported)) = self.reported.get_mut(&place) {
            if now.saturating_sub(*last) < QUIET {
                *unreported = unreported.saturating_add(1);
                return None;
            }
            *last = now;
            return Some(mem::take(unreported));
        }
        if self.reported.len() == MOST {
            self.reported.clear();
        }
        self.reported.insert(place, (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fiber(closure: &'static str, spawn_place: usize) -> RunningFiber {
        let label = format!("fiber '{closure}'");
        let (is_in_no_switch, is_in_panic_hook, stack) = (false, false, 0);
        RunningFiber { label, closure, is_in_no_switch, is_in_panic_hook, spawn_place, stack }
    }

    #[test]
    fn a_place_is_reported_once_in_ten_seconds() {
        let mut places = Places::default();
        let (call, fault) = (StallCause::SystemCall("read".to_owned()), StallCause::PageFault);
        let mut admit_from = |second, closure, spawn_place, cause: &StallCause| {
            places.admit(Duration::from_secs(second), &fiber(closure, spawn_place), cause)
        };
        let mut admit = |second, closure, cause: &_| admit_from(second, closure, 1, cause);
        assert_eq!(admit(100, "a", &call), Some(0));
        assert_eq!(admit(101, "a", &call), None);
        assert_eq!(admit(101, "a", &StallCause::SystemCall("write".to_owned())), None);
        // Another closure, and another way.
        assert_eq!(admit(101, "b", &call), Some(0));
        assert_eq!(admit(101, "a", &fault), Some(0));
        assert_eq!(admit(109, "a", &call), None);
        assert_eq!(admit(110, "a", &call), Some(3));
        assert_eq!(admit(121, "a", &call), Some(0));
        // Spawned elsewhere.
        assert_eq!(admit_from(122, "a", 2, &call), Some(0));
        assert_eq!(admit_from(123, "a", 2, &call), None);
        let in_hook = RunningFiber { is_in_panic_hook: true, ..fiber("a", 2) };
        assert_eq!(places.admit(Duration::from_secs(124), &in_hook, &call), Some(0));
        assert_eq!(places.admit(Duration::from_secs(125), &in_hook, &call), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut places = Places::default();
        for n in 0..2 * MOST {
            let closure: &'static str = n.to_string().leak();
            assert_eq!(
                places.admit(Duration::ZERO, &fiber(closure, 1), &StallCause::PageFault),
                Some(0)
            );
        }
        assert!(places.reported.len() <= MOST);
    }
}
