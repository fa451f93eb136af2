//! The limit on descriptors: raises the soft limit, up to the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{failure::Failure, lab::figure::inflected};

/// Other descriptors of the process: its standard streams and inherited ones.
const RESERVED: u64 = 64;
/// A worker's ring or epoll set, and the descriptors that wake it.
const PER_WORKER: u64 = 4;

/// Raises the soft limit to the hard limit. If that fails, strands that get no descriptor are
/// reported later.
pub(super) fn raise_to_hard_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The number of descriptors that the hard limit leaves to a workload.
pub(super) fn room(workers: usize) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a hard limit there is no limit at all.
    let most = maximum.or(current).unwrap_or(u64::MAX);
    most.saturating_sub(besides(workers))
}

/// The descriptors that a process has beside those of its workload.
fn besides(workers: usize) -> u64 {
    RESERVED + PER_WORKER * workers as u64
}

/// Ensures that `count` objects with `each` descriptors each can be open at the same time.
pub(super) fn raise_limit(
    noun: &str,
    count: u64,
    each: u64,
    workers: usize,
) -> Result<(), Failure> {
    let besides = besides(workers);
    let wanted = count.saturating_mul(each).saturating_add(besides);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum };
    if maximum.is_none_or(|limit| limit >= wanted) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let most = maximum.or(current).unwrap_or(wanted);
    let fewer = match most.saturating_sub(besides) / each {
        0 => String::new(),
        fewer => format!("ask for {fewer} {} at most, or ", inflected(fewer, noun)),
    };
    let need = if count == 1 { "needs" } else { "need" };
    Err(Failure::other(format!(
        "{count} {} {need} {wanted} descriptors, but this process may have {most} at most; \
         {fewer}raise the hard limit (`ulimit -Hn {wanted}` as root, LimitNOFILE= of systemd)",
        inflected(count, noun)
    )))
}
