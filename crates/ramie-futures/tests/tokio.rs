//! Fibers that await tokio, tokio tasks that await fibers, and streams under tokio's traits.

use std::{
    io::{Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use ramie::{
    channel, fiber,
    future::{block_on, block_on_or_cancelled},
    os::unix::net::UnixStream,
    sync::oneshot,
};
use ramie_futures::{Io, block_on_with, with_context};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::{Builder, Runtime},
    time,
};

fn tokio() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_fiber_awaits_tokios_timer() {
    let tokio = tokio();
    ramie::run(|| {
        let nap = || {
            let start = std::time::Instant::now();
            let nap = async { time::sleep(Duration::from_millis(5)).await };
            block_on_with(tokio.handle(), nap);
            start.elapsed()
        };
        // All sleep at the same time, and each enters and leaves the context.
        let naps = fiber::scope(|scope| {
            let naps: Vec<_> = (0..20).map(|_| scope.spawn_local(nap)).collect();
            naps.into_iter().map(|nap| nap.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(naps.iter().all(|nap| *nap >= Duration::from_millis(5)));
    });
}

#[test]
fn a_fiber_awaits_a_task_of_tokio() {
    let tokio = tokio();
    ramie::run(|| {
        let task = async { tokio::spawn(async { 6 * 7 }).await.unwrap() };
        assert_eq!(block_on_with(tokio.handle(), task), 42);
    });
}

#[test]
fn tokio_awaits_fibers() {
    let tokio = tokio();
    ramie::run(|| {
        let (sender, receiver) = channel::bounded(1);
        let (once, later) = oneshot::channel();
        let fiber = fiber::spawn(move || {
            (0..10).for_each(|n| sender.send(n).unwrap());
            once.send("sent").unwrap();
            fiber::sleep(Duration::from_millis(1));
            "ended"
        });
        let task = tokio.spawn(async move {
            let mut sum = 0;
            while let Ok(n) = (&receiver).await {
                sum += n;
            }
            (sum, later.await.unwrap(), fiber.await.unwrap())
        });
        assert_eq!(block_on(task).unwrap(), (45, "sent", "ended"));
    });
}

#[test]
fn a_timeout_of_tokio_loses_no_value() {
    let tokio = tokio();
    let (sender, receiver) = channel::unbounded();
    tokio.block_on(async {
        for _ in 0..3 {
            let late = time::timeout(Duration::from_millis(1), &receiver).await;
            assert!(late.is_err());
        }
        sender.send(1).unwrap();
        assert_eq!((&receiver).await, Ok(1));
    });
}

#[test]
fn a_wait_for_tokio_can_be_cancelled() {
    let tokio = tokio();
    ramie::run(|| {
        let wait = || {
            let nap = async { time::sleep(Duration::from_secs(60)).await };
            block_on_or_cancelled(with_context(tokio.handle(), nap))
        };
        let late = ramie::cancel::with_timeout(Duration::from_millis(2), wait);
        assert!(late.unwrap_err().into_value().is_err());
    });
}

#[test]
fn a_blocking_call_in_tokios_context_panics() {
    let tokio = tokio();
    ramie::run(|| {
        let bad = async { fiber::sleep(Duration::from_millis(1)) };
        let wait = AssertUnwindSafe(|| block_on_with(tokio.handle(), bad));
        assert!(catch_unwind(wait).is_err());
        // The context was left after the panic.
        assert!(tokio::runtime::Handle::try_current().is_err());
    });
}

#[test]
fn a_write_larger_than_the_buffer_waits_for_room() {
    let exchange = || {
        let (left, mut right) = UnixStream::pair().unwrap();
        let writer = fiber::spawn(move || {
            let mut left = Io::new(left);
            block_on(async {
                left.write_all(&vec![3; 4 << 20]).await?;
                left.shutdown().await?;
                let mut answer = Vec::new();
                left.read_to_end(&mut answer).await?;
                Ok::<_, std::io::Error>(answer)
            })
        });
        let mut all = Vec::new();
        right.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 4 << 20);
        right.write_all(b"got it").unwrap();
        drop(right);
        assert_eq!(writer.join().unwrap().unwrap(), b"got it");
    };
    ramie::run(exchange);
    // The same on threads.
    exchange();
}

#[test]
fn a_read_that_is_dropped_loses_no_byte() {
    ramie::run(|| {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut left = Io::new(left);
        let mut buffer = [0; 5];
        let wait = || block_on_or_cancelled(left.read(&mut buffer));
        let late = ramie::cancel::with_timeout(Duration::from_millis(1), wait);
        assert!(late.unwrap_err().into_value().is_err());
        right.write_all(b"hello").unwrap();
        assert_eq!(block_on(left.read_exact(&mut buffer)).unwrap(), 5);
        assert_eq!(&buffer, b"hello");
    });
}

#[test]
fn dropping_a_stream_closes_it_though_a_strand_waits() {
    let check = || {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut left = Io::new(left);
        let wait = || block_on_or_cancelled(left.read_u8());
        let late = ramie::cancel::with_timeout(Duration::from_millis(1), wait);
        assert!(late.unwrap_err().into_value().is_err());
        drop(left);
        assert_eq!(right.read(&mut [0]).unwrap(), 0);
    };
    ramie::run(check);
    check();
}
