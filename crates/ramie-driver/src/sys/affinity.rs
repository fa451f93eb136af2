//! The CPUs on which a thread may run.

use std::fmt;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of CPUs, by their numbers.
#[derive(Clone)]
pub struct CpuMask(CpuSet);

impl CpuMask {
    /// The number of CPUs that a mask has room for; numbers are below it.
    pub const MAX: usize = CpuSet::MAX_CPU;

    /// Makes the mask of some CPUs; `None` if there is none, or a number is too large.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> Option<CpuMask> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            if cpu >= Self::MAX {
                return None;
            }
            set.set(cpu);
        }
        (set.count() > 0).then_some(CpuMask(set))
    }

    /// Reads the mask of the calling thread.
    ///
    /// # Errors
    /// The machine has more CPUs than a mask has room for, or a filter refuses the call.
    pub fn of_this_thread() -> io::Result<CpuMask> {
        Ok(CpuMask(sched_getaffinity(None)?))
    }

    /// Lets the calling thread, and the threads that it starts from now on, run on these CPUs only.
    ///
    /// # Errors
    /// `EINVAL`: the process may use none of them.
    pub fn apply(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }

    /// Returns whether the CPU of that number is in the mask.
    pub fn has(&self, cpu: usize) -> bool {
        cpu < Self::MAX && self.0.is_set(cpu)
    }

    /// Returns the numbers of the CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        (0..Self::MAX).filter(|cpu| self.0.is_set(*cpu))
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.cpus()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_moved_and_moved_back() {
        let before = CpuMask::of_this_thread().unwrap();
        let last = before.cpus().last().unwrap();
        CpuMask::of([last]).unwrap().apply().unwrap();
        assert!(CpuMask::of_this_thread().unwrap().cpus().eq([last]));
        before.apply().unwrap();
        assert!(CpuMask::of_this_thread().unwrap().cpus().eq(before.cpus()));
    }

    #[test]
    fn a_mask_of_no_cpu_is_none() {
        assert!(CpuMask::of([]).is_none() && CpuMask::of([CpuMask::MAX]).is_none());
    }
}
