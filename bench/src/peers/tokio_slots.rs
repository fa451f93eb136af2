//! tokio's ring by lighter means than its channel: `Notify`, or a waker in a cell.
//!
//! One slot each, as park and unpark have. [`monoio`](super::monoio) uses the cell, too.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
    time::Instant,
};

use ::tokio::{runtime::LocalOptions, sync::Notify, task::spawn_local};
use ramie_workloads::{Ring, Workload};

use crate::workload::Sample;

/// The slot where a task of the ring waits for the token.
pub trait Slot: Default + 'static {
    fn give(&self, token: u64);
    fn take(&self) -> impl Future<Output = u64>;
}

#[derive(Default)]
pub struct Notified {
    token: Cell<u64>,
    filled: Notify,
}

impl Slot for Notified {
    fn give(&self, token: u64) {
        self.token.set(token);
        self.filled.notify_one();
    }

    async fn take(&self) -> u64 {
        loop {
            match self.token.replace(0) {
                0 => self.filled.notified().await,
                token => return token,
            }
        }
    }
}

#[derive(Default)]
pub struct WakerCell {
    token: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Slot for WakerCell {
    fn give(&self, token: u64) {
        self.token.set(token);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    async fn take(&self) -> u64 {
        poll_fn(|context| match self.token.replace(0) {
            0 => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
            token => Poll::Ready(token),
        })
        .await
    }
}

pub fn run<P: Slot>(workload: Workload) -> Option<Sample> {
    let Workload::Ring(Ring { size, hops, .. }) = workload else { return None };
    let runtime = ::tokio::runtime::Builder::new_current_thread()
        .build_local(LocalOptions::default())
        .expect("a runtime");
    Some(runtime.block_on(ring::<P>(size as usize, hops)))
}

async fn ring<P: Slot>(size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let slots: Rc<Vec<P>> = Rc::new((0..size).map(|_| P::default()).collect());
    let pass_on = |slots: Rc<Vec<P>>, slot: usize| async move {
        let next = &slots[(slot + 1) % size];
        let mut made = 0;
        loop {
            let token = slots[slot].take().await;
            if token > hops {
                next.give(token);
                return made;
            }
            made += 1;
            next.give(token + 1);
        }
    };
    let tasks: Vec<_> =
        (0..size).map(|slot| spawn_local(pass_on(Rc::clone(&slots), slot))).collect();
    slots[0].give(1);
    let mut total = 0_u64;
    for task in tasks {
        total += task.await.expect("no panic");
    }
    assert_eq!(total, hops);
    Sample::timed(start.elapsed())
}
