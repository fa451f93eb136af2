//! Values that block, in a pool.

use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use ramie::{Runtime, cancel, fiber};
use ramie_adapters::BlockingManager;
use ramie_pool::{Pool, PoolError};

use crate::tracked::Gate;

fn numbered() -> BlockingManager<u64> {
    let next = AtomicU64::new(0);
    BlockingManager::new(move || Ok::<_, io::Error>(next.fetch_add(1, SeqCst)))
}

#[test]
fn fibers_share_a_few_values() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let pool = Pool::builder().max_size(2).build(numbered());
        fiber::scope(|fibers| {
            for _ in 0..20 {
                fibers.spawn_local(|| assert!(pool.get().unwrap().run(|number| *number) < 2));
            }
        });
        assert!(pool.stats().connects <= 2);
    });
}

#[test]
fn a_value_that_was_left_is_replaced() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let pool = Pool::builder().max_size(1).build(numbered());
        let (gate, wait) = Gate::new();
        let mut held = pool.get().unwrap();
        cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| held.run_or_cancelled(move |_| wait()));
                gate.begun();
                scope.cancel();
                assert!(call.join().unwrap().is_err());
            });
        });
        drop(held);
        assert_eq!(pool.get().unwrap().run(|number| *number), 1);
        gate.open();
    });
}

#[test]
fn a_value_whose_test_fails_is_replaced() {
    ramie::run(|| {
        let manager = numbered().test(|number| match number {
            0 => Err("too old"),
            _ => Ok(()),
        });
        let pool = Pool::builder().test_after_idle(Some(Duration::ZERO)).build(manager);
        assert_eq!(pool.get().unwrap().run(|number| *number), 0);
        assert_eq!(pool.get().unwrap().run(|number| *number), 1);
        assert_eq!(pool.stats().discarded_invalid, 1);
    });
}

#[test]
fn a_request_can_be_cancelled_while_a_value_is_opened() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let (gate, wait) = Gate::new();
        let wait = Mutex::new(Some(wait));
        let manager = BlockingManager::new(move || {
            let wait = wait.lock().unwrap().take();
            wait.into_iter().for_each(|wait| wait());
            Ok::<_, io::Error>(())
        });
        let pool = Pool::builder().build(manager);
        cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let request = fibers.spawn_local(|| pool.get().map(drop));
                gate.begun();
                scope.cancel();
                let refused = request.join().unwrap();
                assert!(matches!(refused, Err(PoolError::Cancelled(_))), "{refused:?}");
            });
        });
        gate.open();
        assert!(pool.get().is_ok());
    });
}
