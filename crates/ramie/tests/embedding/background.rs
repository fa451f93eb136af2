//! A runtime in the background, used through handles from one other thread.

use std::{future::poll_fn, panic::resume_unwind, sync::mpsc, task::Poll, thread, time::Duration};

use ramie::{
    Driver, Handle, Runtime, RuntimeEnded, Strands, channel,
    fiber::{self, Builder, Place},
    future::block_on,
    net::{TcpListener, TcpStream},
};

use super::common::{Limit, on_each, panic_text, text};

/// Each driver with one worker and with two, and strands that are threads.
pub(crate) fn kinds(f: impl Fn(&Runtime)) {
    on_each(&[1, 2], &f);
    f(&Runtime::builder().strands(Strands::Threads).build().unwrap());
}

#[test]
fn threads_may_share_a_runtime_and_its_handles() {
    fn share<T: Send + Sync>() {}
    share::<ramie::BackgroundRuntime>();
    share::<Handle>();
}

#[test]
fn a_thread_outside_spawns_and_joins() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        let fibers: Vec<_> = (0..100).map(|n| handle.spawn(move || n * 2).unwrap()).collect();
        let sum: i32 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 9900);
    });
}

#[test]
fn the_fibers_of_a_handle_run_on_the_runtime_and_use_all_of_it() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let echoed = runtime.handle().spawn(|| {
            use std::io::{Read, Write};
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = fiber::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            });
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).unwrap();
            server.join().unwrap();
            fiber::sleep(Duration::from_millis(1));
            bytes
        });
        assert_eq!(&echoed.unwrap().join().unwrap(), b"hello");
    });
}

#[test]
fn the_handle_of_a_fiber_is_a_future_for_any_executor() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let (sender, receiver) = channel::bounded(1);
        let waits = runtime.handle().spawn(move || receiver.recv().unwrap()).unwrap();
        // This thread's executor is the crate's own, which uses nothing of the runtime.
        let value = block_on(async move {
            let mut fiber = std::pin::pin!(waits.into_future());
            let is_pending =
                poll_fn(|context| Poll::Ready(fiber.as_mut().poll(context).is_pending()));
            assert!(is_pending.await, "it waits for a value");
            sender.send_async(7).await.unwrap();
            fiber.await.unwrap()
        });
        assert_eq!(value, 7);
    });
}

#[test]
fn a_future_is_polled_on_a_fiber_of_the_runtime() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let there = runtime.handle().block_on(async {
            fiber::sleep(Duration::from_millis(1));
            Handle::try_current().is_some()
        });
        assert_eq!(there, Ok(true));
        assert!(Handle::try_current().is_none(), "this thread is outside");
    });
}

#[test]
fn a_panic_is_carried_to_the_thread_that_joins() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let fiber = runtime.handle().spawn(|| -> () { resume_unwind(Box::new("thrown")) });
        let payload = fiber.unwrap().join().unwrap_err();
        assert_eq!(text(&*payload), "thrown");
        let handle = runtime.handle();
        let raised = thread::spawn(move || {
            handle.block_on(async { resume_unwind(Box::new("by a future")) })
        });
        let payload = raised.join().map(|ended: Result<(), RuntimeEnded>| ended).unwrap_err();
        assert_eq!(text(&*payload), "by a future");
    });
}

#[test]
fn a_fiber_is_placed_named_and_given_a_stack() {
    let _limit = Limit::of_this_test();
    on_each(&[3], |runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        for index in 0..3 {
            let fiber = handle.spawn_on(Place::Worker(index), fiber::worker).unwrap();
            assert_eq!(fiber.join().unwrap(), Some(index));
        }
        let resting: Vec<_> = [0, 0, 2, 2, 2]
            .map(|index| handle.spawn_on(Place::Worker(index), fiber::park).unwrap())
            .into();
        let least = handle.spawn_on(Place::LeastLoaded, fiber::worker).unwrap();
        assert_eq!(least.join().unwrap(), Some(1));
        resting.into_iter().for_each(|fiber| {
            fiber.fiber().unpark();
            fiber.join().unwrap();
        });
        let builder = Builder::new().name("reader".into()).stack_size(1 << 20);
        let name = || fiber::current().name().map(str::to_owned);
        let named = handle.spawn_with(builder, name).unwrap();
        assert_eq!(named.fiber().name(), Some("reader"));
        assert_eq!(named.join().unwrap().as_deref(), Some("reader"));
        let error = handle.spawn_on(Place::Worker(3), || ()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with("there is no worker 3"), "{error}");
        let error = handle.spawn_with(Builder::new().stack_size(1), || ()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    });
}

/// It would wait behind that fiber, if it went to an inbox.
#[test]
fn a_fiber_from_outside_does_not_wait_behind_one_that_computes() {
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(2).stall_limit(None);
    let runtime = builder.build().unwrap().start().unwrap();
    let handle = runtime.handle();
    for _ in 0..20 {
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let busy = handle.spawn(move || {
            begins.send(()).unwrap();
            // Blocks its worker, as a computation does.
            released.recv().unwrap();
        });
        begun.recv().unwrap();
        let others: Vec<_> = (0..8).map(|n| handle.spawn(move || n).unwrap()).collect();
        let sum: usize = others.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 28);
        release.send(()).unwrap();
        busy.unwrap().join().unwrap();
    }
}

/// Neither is ever idle.
#[test]
fn workers_that_are_always_busy_take_fibers_from_outside() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        let workers = handle.metrics().unwrap().workers.len();
        let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let spinners: Vec<_> = (0..workers)
            .map(|index| {
                let is_over = is_over.clone();
                let spin = move || {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        fiber::yield_now();
                    }
                };
                handle.spawn_on(Place::Worker(index), spin).unwrap()
            })
            .collect();
        for n in 0..100 {
            assert_eq!(handle.spawn(move || n).unwrap().join().unwrap(), n);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        spinners.into_iter().for_each(|spinner| spinner.join().unwrap());
    });
}

#[test]
fn the_closure_of_run_can_give_handles_away() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let handle = runtime.run(|| {
            let handle = Handle::current();
            let theirs = handle.clone();
            let from_outside = thread::spawn(move || theirs.spawn(|| 5).unwrap().join().unwrap());
            assert_eq!(
                fiber::spawn(move || ramie::blocking(|| from_outside.join()))
                    .join()
                    .unwrap()
                    .unwrap(),
                5
            );
            handle
        });
        let error = handle.spawn(|| ()).unwrap_err();
        assert!(RuntimeEnded::of(&error).is_some_and(|ended| !ended.is_forked()), "{error}");
        assert_eq!(handle.block_on(async {}).unwrap_err().to_string(), error.to_string());
        assert!(!handle.is_open() && handle.metrics().is_err());
    });
}

#[test]
fn several_runtimes_live_side_by_side_and_use_one_another() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let (one, other) = (runtime.start().unwrap(), runtime.start().unwrap());
        let other_handle = other.handle();
        let there = one.handle().spawn(move || {
            let fiber = other_handle.spawn(|| 20).unwrap();
            fiber.join().unwrap() + other_handle.block_on(async { 1 }).unwrap()
        });
        assert_eq!(there.unwrap().join().unwrap(), 21);
        let ends = one.handle().spawn(move || other.shutdown(Duration::MAX).count());
        assert_eq!(ends.unwrap().join().unwrap(), 0);
    });
}

#[test]
fn figures_count_what_came_from_outside() {
    let _limit = Limit::of_this_test();
    on_each(&[2], |runtime| {
        let before = ramie::metrics::snapshot();
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        for n in 0..10 {
            handle.spawn_on(Place::Worker(n % 2), || ()).unwrap().join().unwrap();
        }
        let inside = handle.spawn(|| ramie::metrics::metrics().spawned).unwrap().join().unwrap();
        let metrics = handle.metrics().unwrap();
        assert_eq!((inside, metrics.spawned), (11, 11));
        // A worker counts an end a moment after it has woken the joiner.
        assert!(metrics.ended <= 11 && metrics.started <= 2);
        let indices: Vec<_> = metrics.workers.iter().map(|worker| worker.index).collect();
        assert_eq!(indices, [0, 1]);
        let names = metrics.workers.iter().map(|worker| worker.thread_name.as_deref());
        assert!(names.eq([Some("ramie-worker-0"), Some("ramie-worker-1")]));
        let after = ramie::metrics::snapshot();
        assert!(after.spawned - before.spawned >= 11);
    });
}

#[test]
fn a_start_that_fails_is_an_error() {
    let policy = || -> ramie::policy::Lifo { panic!("no policy today") };
    let runtime = Runtime::builder().strands(Strands::Fibers).driver(Driver::Poll).workers(1);
    let runtime = runtime.policy(policy).build().unwrap();
    assert_eq!(panic_text(|| drop(runtime.start())), "no policy today");
    // The other workers have begun, and have to be stopped.
    let policy = || -> ramie::policy::Lifo {
        let name = thread::current().name().map(str::to_owned);
        assert_ne!(name.as_deref(), Some("ramie-worker-0"), "none for the first");
        ramie::policy::Lifo::default()
    };
    let runtime = Runtime::builder().strands(Strands::Fibers).driver(Driver::Poll).workers(3);
    let runtime = runtime.policy(policy).build().unwrap();
    assert!(panic_text(|| drop(runtime.start())).contains("none for the first"));
    let hook = Runtime::builder().strands(Strands::Fibers).workers(2).on_worker_start(|index| {
        assert_ne!(index, 1, "not that one");
    });
    let error = hook.build().unwrap().start().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a worker could not be started: the function of on_worker_start panicked on worker 1"
    );
}
