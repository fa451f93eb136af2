//! A program on tokio uses a runtime of fibers: it spawns, awaits and shuts down, while all of its
//! tasks go on.

use std::{pin::pin, sync::Arc, time::Duration};

use ramie::{BackgroundRuntime, Driver, Handle, Runtime, RuntimeEnded, Strands, channel, fiber};
use tokio::{io::AsyncWriteExt, net::TcpStream, task, time};

const TASKS: usize = 8;

fn start(workers: usize, driver: Driver) -> BackgroundRuntime {
    let builder = Runtime::builder().strands(Strands::Fibers).workers(workers).driver(driver);
    builder.build().unwrap().start().unwrap()
}

/// Spawns and awaits until the runtime refuses.
async fn use_until_refused(handle: Handle) -> usize {
    for n in 0.. {
        let spawned = handle.spawn(move || {
            fiber::yield_now();
            n
        });
        match spawned {
            Ok(fiber) if n % 4 == 1 => drop(fiber.into_future()),
            Ok(fiber) => assert_eq!(fiber.await.unwrap(), n),
            Err(error) => {
                assert!(RuntimeEnded::of(&error).is_some(), "{error}");
                return n;
            }
        }
    }
    unreachable!("the runtime refuses some time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_spawn_await_and_shut_down_a_thousand_times() {
    for round in 0..1000 {
        let driver = if round % 4 < 2 { Driver::Auto } else { Driver::Poll };
        let runtime = start(1 + round % 2, driver);
        let tasks: Vec<_> =
            (0..TASKS).map(|_| tokio::spawn(use_until_refused(runtime.handle()))).collect();
        task::yield_now().await;
        if round % 3 == 0 {
            let ends = task::spawn_blocking(move || runtime.shutdown(Duration::MAX).count());
            assert_eq!(ends.await.unwrap(), 0);
        } else {
            assert_eq!(runtime.shutdown_async(Duration::MAX).await.count(), 0);
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_task_and_a_fiber_talk_by_channels_and_sockets() {
    let runtime = start(2, Driver::Auto);
    let (requests, received) = channel::bounded::<u32>(1);
    let (answers, answered) = channel::bounded::<u32>(1);
    let (addresses, address) = ramie::sync::oneshot::channel();
    let server = runtime.handle().spawn(move || {
        use std::io::Read;
        let listener = ramie::net::TcpListener::bind("127.0.0.1:0").unwrap();
        addresses.send(listener.local_addr().unwrap()).unwrap();
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        received.iter().for_each(|n| answers.send(2 * n).unwrap());
        text
    });
    let server = server.unwrap();
    let mut stream = TcpStream::connect(address.await.unwrap()).await.unwrap();
    stream.write_all(b"from tokio").await.unwrap();
    drop(stream);
    for n in 0..100 {
        requests.send_async(n).await.unwrap();
        assert_eq!((&answered).await.unwrap(), 2 * n);
    }
    drop(requests);
    assert_eq!(server.await.unwrap(), "from tokio");
}

#[tokio::test]
async fn an_await_is_given_up_without_harm_to_the_fiber() {
    let runtime = Arc::new(start(1, Driver::Auto));
    let (sender, receiver) = channel::bounded::<()>(1);
    let mut waits = runtime.handle().spawn(move || receiver.recv().is_err()).unwrap().into_future();
    assert!(time::timeout(Duration::from_millis(5), &mut waits).await.is_err());
    drop(sender);
    assert!(waits.await.unwrap());
}

/// A fiber may itself wait for what needs tokio, if tokio polls that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_fiber_waits_for_a_task() {
    let runtime = start(1, Driver::Auto);
    let tokio = tokio::runtime::Handle::current();
    let fiber = runtime.handle().spawn(move || {
        let task = tokio.spawn(async {
            time::sleep(Duration::from_millis(2)).await;
            5
        });
        ramie::future::block_on(task).unwrap()
    });
    assert_eq!(fiber.unwrap().await.unwrap(), 5);
}

#[tokio::test]
async fn a_panic_and_an_abandoned_fiber_are_errors_of_the_await() {
    let runtime = start(1, Driver::Auto);
    let panics = runtime.handle().spawn(|| std::panic::resume_unwind(Box::new("thrown")));
    assert!(panics.unwrap().await.is_err());
    let stuck = runtime.handle().spawn(fiber::park).unwrap();
    let handle = runtime.handle();
    assert_eq!(runtime.shutdown_async(Duration::ZERO).await.count(), 1);
    assert!(stuck.await.is_err());
    assert!(handle.spawn(|| ()).is_err());
}

/// This executor has one thread, and a shutdown that blocked it would never end.
#[tokio::test(flavor = "current_thread")]
async fn a_task_awaits_the_end_while_other_tasks_go_on() {
    for driver in [Driver::Auto, Driver::Poll] {
        let runtime = start(2, driver);
        let handle = runtime.handle();
        let (sender, receiver) = channel::bounded::<u32>(1);
        let sums = handle.spawn(move || receiver.iter().sum::<u32>()).unwrap();
        let observes = tokio::spawn(handle.ended());
        let mut ends = pin!(runtime.shutdown_async(Duration::MAX));
        assert!(time::timeout(Duration::from_millis(2), &mut ends).await.is_err());
        for n in 1..=4 {
            sender.send_async(n).await.unwrap();
        }
        assert!(!observes.is_finished());
        drop(sender);
        assert_eq!(ends.await.count(), 0);
        assert_eq!(observes.await.unwrap().count(), 0);
        assert_eq!(sums.await.unwrap(), 10);
    }
}
