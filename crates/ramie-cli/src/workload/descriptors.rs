//! Raises the soft limit on descriptors, up to the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Other descriptors of the process: its standard streams and inherited ones.
const RESERVED: u64 = 64;
/// A worker's ring or epoll set, and the descriptors that wake it.
const PER_WORKER: u64 = 4;

/// Ensures that `pairs` pairs of descriptors can be open at the same time.
pub(super) fn raise_limit(pairs: u64, workers: usize) -> Result<(), Failure> {
    let besides = RESERVED + PER_WORKER * workers as u64;
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
         raise the hard limit (`ulimit -Hn {wanted}` as root, LimitNOFILE= of systemd)"
    )))
}
