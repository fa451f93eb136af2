//! The counters of the kernel and of the CPU that perf_event_open(2) opens.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::io::Errno;

use super::{Counted, sys};

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// The name, the type and the number of each event.
const EVENTS: [(&str, u32, u64); 6] = [
    ("migrations", SOFTWARE, 4),
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("branches", HARDWARE, 4),
    ("branch_misses", HARDWARE, 5),
    ("cache_misses", HARDWARE, 3),
];

/// The events that are open, and the reasons why others are not.
pub(super) struct Events {
    open: Vec<(&'static str, Result<OwnedFd, String>)>,
    /// Whether events of the CPU are counted in user space only.
    is_user_only: bool,
}

/// One reading of an event.
#[derive(Clone, Copy, Default)]
pub(super) struct EventReading {
    count: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Events {
    /// Opens the events for the calling thread and those that it starts.
    pub(super) fn open() -> Self {
        let mut is_user_only = false;
        let open = EVENTS.map(|(name, kind, config)| {
            let mut event = sys::open_event(kind, config, true);
            // With kernel.perf_event_paranoid 2, a user without privileges may count user space
            // only. Software events happen in the kernel, so without it they would always be 0.
            if kind == HARDWARE && event.as_ref().is_err_and(is_forbidden) {
                event = sys::open_event(kind, config, false);
                is_user_only |= event.is_ok();
            }
            (name, event.map_err(|error| reason(&error)))
        });
        Events { open: open.into(), is_user_only }
    }

    /// Where the events of the CPU are counted; `None` if none is open.
    pub(super) fn scope(&self) -> Option<&'static str> {
        let is_open = self.open.iter().any(|(_, event)| event.is_ok());
        is_open.then_some(if self.is_user_only { "user" } else { "user and kernel" })
    }

    pub(super) fn read(&self) -> Vec<Option<EventReading>> {
        self.open.iter().map(|(_, event)| read(event.as_ref().ok()?).ok()).collect()
    }

    /// The counts of all events between two readings.
    pub(super) fn between(
        &self,
        before: &[Option<EventReading>],
        after: &[Option<EventReading>],
    ) -> Vec<(&'static str, Counted)> {
        let of_event =
            |(index, (name, event)): (usize, &(&'static str, Result<OwnedFd, String>))| {
                let ends =
                    before.get(index).copied().flatten().zip(after.get(index).copied().flatten());
                let reading = match (event, ends) {
                    (Err(reason), _) => Counted::Missing(reason.clone()),
                    (Ok(_), None) => Counted::Missing("the counter could not be read".to_owned()),
                    (Ok(_), Some((before, after))) => after.since(before),
                };
                (*name, reading)
            };
        self.open.iter().enumerate().map(of_event).collect()
    }
}

fn read(event: impl AsFd) -> rustix::io::Result<EventReading> {
    let mut bytes = [0; 24];
    let read = rustix::io::read(event, &mut bytes)?;
    let mut numbers =
        bytes.chunks_exact(8).map(|number| u64::from_ne_bytes(number.try_into().unwrap_or([0; 8])));
    let mut next = || numbers.next().unwrap_or(0);
    if read < 24 {
        return Err(Errno::IO);
    }
    Ok(EventReading { count: next(), enabled_ns: next(), running_ns: next() })
}

impl EventReading {
    /// The events since `before`. If the CPU had too few counters for all events, they took turns,
    /// and the count is extrapolated.
    fn since(self, before: EventReading) -> Counted {
        let count = self.count.saturating_sub(before.count);
        let enabled = self.enabled_ns.saturating_sub(before.enabled_ns);
        let running = self.running_ns.saturating_sub(before.running_ns);
        if running == 0 && enabled > 0 {
            return Counted::Missing("the CPU had no free counter for it".to_owned());
        }
        if running >= enabled {
            return Counted::Count(count);
        }
        Counted::Count((count as f64 * enabled as f64 / running as f64).round() as u64)
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::ACCESS))
}

/// Why perf_event_open(2) refuses an event.
fn reason(error: &io::Error) -> String {
    let cause = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "not permitted: seccomp, or a sysctl kernel.perf_event_paranoid that is too high"
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => {
            "this CPU or virtual machine does not count these events"
        }
        Some(Errno::NOSYS) => "this kernel has no performance events",
        Some(Errno::INVAL) => "this kernel is older than Linux 5.13",
        _ => "refused",
    };
    format!("perf_event_open: {cause} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(count: u64, enabled_ns: u64, running_ns: u64) -> EventReading {
        EventReading { count, enabled_ns, running_ns }
    }

    #[test]
    fn counters_that_took_turns_are_extrapolated() {
        assert_eq!(at(30, 200, 200).since(at(10, 100, 100)), Counted::Count(20));
        assert_eq!(at(30, 200, 125).since(at(10, 100, 100)), Counted::Count(80));
        assert!(matches!(at(10, 200, 100).since(at(10, 100, 100)), Counted::Missing(_)));
    }
}
