//! Room for descriptors: the limit is raised as far as it goes without the administrator.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// What a process has open besides: its standard streams, what others left open to it.
const OTHERS: u64 = 64;
/// A worker's ring or epoll set, what wakes it.
const OF_A_WORKER: u64 = 4;

/// Makes sure that `pairs` of descriptors can be open at the same time.
pub(super) fn make_room(pairs: u64, workers: usize) -> Result<(), Failure> {
    let besides = OTHERS + OF_A_WORKER * workers as u64;
    let wanted = pairs.saturating_mul(2).saturating_add(besides);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum };
    if maximum.is_none_or(|limit| limit >= wanted) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let most = maximum.or(current).unwrap_or(wanted);
    let fewer = match most.saturating_sub(besides) / 2 {
        0 => String::new(),
        pairs => format!("ask for {pairs} pairs at most, or "),
    };
    Err(Failure::other(format!(
        "{pairs} pairs need {wanted} descriptors, but this process may have {most} at most; {fewer}\
         have the hard limit raised (`ulimit -Hn {wanted}` as root, LimitNOFILE= of systemd)"
    )))
}
