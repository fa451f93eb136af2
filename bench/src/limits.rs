//! The cost of time limits, scopes and their cancellation, and the punctuality of many sleepers.

use std::{
    hint::black_box,
    io,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ::ramie::{cancel, fiber, sync::Event};
use io_uring::{IoUring, types};
use rustix::io::Errno;

use crate::{
    peers::Peer,
    workload::{Sample, Workload},
};

/// The number of strands per scope in the case of scopes.
const CHILDREN: usize = 8;
/// Time from the last sleeper's start to the first deadline, in which all fall asleep.
const SETTLE: Duration = Duration::from_secs(3);
/// The deadlines lie within this time.
const SPREAD: Duration = Duration::from_secs(10);

pub fn run(peer: Peer, workload: Workload) -> Option<Sample> {
    match peer {
        Peer::Ramie => {
            let runtime = ::ramie::Runtime::builder().workers(1).build().expect("a runtime");
            Some(runtime.run(|| on_ramie(workload)))
        }
        Peer::Tokio => {
            let mut builder = ::tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_time().build().expect("a runtime");
            runtime.block_on(on_tokio(workload))
        }
        Peer::Raw => match workload {
            Workload::Timers { count } => Some(bare_timers(count).expect("a ring")),
            _ => None,
        },
        _ => None,
    }
}

fn on_ramie(workload: Workload) -> Sample {
    match workload {
        Workload::Cancel { count } => cancel_all(count),
        Workload::Timeout { count } => timeouts(count),
        Workload::Scope { count } => scopes(count),
        Workload::Timers { count } => timers(count),
        _ => unreachable!("by the caller"),
    }
}

/// From the cancel to the last join.
fn cancel_all(count: u64) -> Sample {
    cancel::scope(|scope| {
        let start = fiber::scope(|strands| {
            for _ in 0..count {
                strands.spawn(fiber::park);
            }
            fiber::sleep(Duration::from_millis(1));
            let start = Instant::now();
            scope.cancel();
            start
        });
        Sample::timed(start.elapsed())
    })
}

fn timeouts(count: u64) -> Sample {
    let limit = Duration::from_secs(3600);
    let start = Instant::now();
    for number in 0..count {
        let _ = black_box(cancel::with_timeout(limit, || black_box(number)));
    }
    Sample::timed(start.elapsed())
}

/// The cost of scopes beyond the spawns in them. The strands are joined, too.
fn scopes(count: u64) -> Sample {
    let rounds = |round: fn()| {
        let start = Instant::now();
        (0..count).for_each(|_| round());
        start.elapsed()
    };
    let in_scope = || fiber::scope(|scope| (0..CHILDREN).for_each(|_| drop(scope.spawn(|| ()))));
    let alone = || {
        let fibers: [_; CHILDREN] = std::array::from_fn(|_| fiber::spawn(|| ()));
        fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    };
    // The first scope of each kind maps the stacks.
    in_scope();
    alone();
    let (spawns, scopes) = (rounds(alone), rounds(in_scope));
    Sample::timed(scopes.saturating_sub(spawns))
}

/// Deadlines within [`SPREAD`], without order.
fn delays(count: u64) -> impl Iterator<Item = Duration> {
    // A Weyl sequence, whose steps fill the range evenly.
    let fraction = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..count).map(move |number| SPREAD.mul_f64(fraction(number) as f64 / f64::from(u32::MAX)))
}

/// The largest lateness of the sleepers. They wake in order.
fn timers(count: u64) -> Sample {
    let (made, latest, last) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let first = OnceLock::<Instant>::new();
    let may_sleep = Event::new();
    fiber::scope(|scope| {
        for delay in delays(count) {
            let (made, latest, last) = (&made, &latest, &last);
            let (first, may_sleep) = (&first, &may_sleep);
            scope.spawn(move || {
                made.fetch_add(1, Relaxed);
                may_sleep.wait().expect("nobody cancels it");
                let deadline = *first.get().expect("set before") + delay;
                fiber::sleep_until(deadline.into());
                latest.fetch_max(deadline.elapsed().as_nanos() as u64, Relaxed);
                let delay = delay.as_nanos() as u64;
                assert!(last.swap(delay, Relaxed) <= delay, "out of order");
            });
        }
        // The mapping of stacks is not measured.
        while made.load(Relaxed) < count {
            fiber::yield_now();
        }
        first.set(Instant::now() + SETTLE).expect("set once");
        may_sleep.set();
    });
    Sample::timed(Duration::from_nanos(latest.into_inner()))
}

/// The limit: a ring that waits for one deadline after another, known before and sorted. Its
/// lateness is the machine's.
fn bare_timers(count: u64) -> io::Result<Sample> {
    let mut delays: Vec<Duration> = delays(count).collect();
    delays.sort_unstable();
    let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8)?;
    let first = Instant::now() + Duration::from_millis(10);
    let mut latest = Duration::ZERO;
    for deadline in delays.into_iter().map(|delay| first + delay) {
        while let left = deadline.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            wait(&ring, left)?;
        }
        latest = latest.max(deadline.elapsed());
    }
    Ok(Sample::timed(latest))
}

fn wait(ring: &IoUring, time: Duration) -> io::Result<()> {
    let time = types::Timespec::from(time);
    let waited = ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time));
    match waited {
        Err(error) if Errno::from_io_error(&error) != Some(Errno::TIME) => Err(error),
        _ => Ok(()),
    }
}

/// The same workloads on tokio, as far as it has them.
async fn on_tokio(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Cancel { count } => {
            let mut tasks = ::tokio::task::JoinSet::new();
            (0..count).for_each(|_| drop(tasks.spawn(std::future::pending::<()>())));
            ::tokio::task::yield_now().await;
            let start = Instant::now();
            tasks.shutdown().await;
            Some(Sample::timed(start.elapsed()))
        }
        Workload::Timeout { count } => {
            let limit = Duration::from_secs(3600);
            let start = Instant::now();
            for number in 0..count {
                let call = ::tokio::time::timeout(limit, async { black_box(number) });
                let _ = black_box(call.await);
            }
            Some(Sample::timed(start.elapsed()))
        }
        _ => None,
    }
}
