//! A panic where memory of the call that it leaves is lent out: see `docs/panics.md`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
    thread,
    time::Duration,
};

use crate::common;
use crate::common::{
    assert_aborted, assert_success, child, child_with, is_child, one_worker, panic_text,
};
use ramie::{Runtime, Strands, fiber, net::UdpSocket, no_switch, structured};

/// How many children have begun, in the scopes below.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

fn begin() -> usize {
    BEGUN.fetch_add(1, SeqCst)
}

fn opens_a_scope() {
    fiber::scope(|scope| drop(scope.spawn(begin)));
}

/// Each call opens a scope with one child, and nothing else that could refuse.
const OPENERS: [(&str, fn()); 9] = [
    ("scope", opens_a_scope),
    ("local", || fiber::scope(|scope| drop(scope.spawn_local(begin)))),
    ("try_scope", || {
        let opened = structured::try_scope(|scope| {
            drop(scope.spawn(|| Ok::<_, std::io::Error>(begin())));
            Ok(())
        });
        assert!(opened.is_ok());
    }),
    ("set", || structured::set(|set| set.spawn(begin))),
    ("race", || assert!(structured::race(|racers| racers.spawn(begin)).is_some())),
    ("any", || {
        drop(structured::any(|racers| racers.spawn_try(|| Ok::<_, std::io::Error>(begin()))));
    }),
    ("par_map", || drop(structured::par_map([1], 1, |_| begin()))),
    ("thread::scope", || ramie::thread::scope(|scope| drop(scope.spawn(begin)))),
    ("in a scope", || {
        fiber::scope(|outer| {
            outer.spawn(opens_a_scope);
            opens_a_scope();
        });
    }),
];

fn check_refused(opener: &str, open: fn()) {
    let before = BEGUN.load(SeqCst);
    let sentence = panic_text(|| no_switch(open));
    assert!(sentence.contains("inside no_switch would suspend"), "{opener}: {sentence}");
    for _ in 0..3 {
        fiber::yield_now();
    }
    fiber::sleep(Duration::from_millis(5));
    assert_eq!(BEGUN.load(SeqCst), before, "{opener}: a child outlived its scope");
}

/// One test for all, because they share the counter.
#[test]
fn a_scope_that_could_not_wait_is_refused_before_its_first_child() {
    for workers in [1, 2] {
        common::with_workers(workers).run(|| {
            OPENERS.iter().for_each(|(name, open)| check_refused(name, *open));
            check_initializer();
            check_waker();
        });
    }
    OPENERS.iter().for_each(|(name, open)| check_refused(name, *open));
    let threads = Runtime::builder().strands(Strands::Threads).build().unwrap();
    threads.run(|| OPENERS.iter().for_each(|(name, open)| check_refused(name, *open)));
}

/// The same inside the initializer of a fiber-local.
fn check_initializer() {
    ramie::fiber_local! {
        static LOCAL: () = opens_a_scope();
    }
    let before = BEGUN.load(SeqCst);
    let sentence = panic_text(|| LOCAL.with(|()| ()));
    assert!(sentence.contains("inside no_switch"), "{sentence}");
    fiber::yield_now();
    assert_eq!(BEGUN.load(SeqCst), before, "an initializer's child outlived its scope");
}

/// The same inside a waker that the end of a fiber calls.
fn check_waker() {
    struct Opens(AtomicBool);
    impl Wake for Opens {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
            opens_a_scope();
        }
    }
    let before = BEGUN.load(SeqCst);
    let opens = Arc::new(Opens(AtomicBool::new(false)));
    // It ends when the waker is in place: another worker may run it at once.
    let (may_end, is_allowed) = ramie::sync::oneshot::channel();
    let child = fiber::spawn(move || is_allowed.recv().unwrap());
    let mut joined = Box::pin(std::future::IntoFuture::into_future(child));
    let waker = Waker::from(Arc::clone(&opens));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(joined.as_mut().poll(&mut context).is_pending());
    may_end.send(()).unwrap();
    common::wait_until(|| opens.0.load(SeqCst));
    fiber::yield_now();
    assert_eq!(BEGUN.load(SeqCst), before, "a waker's child outlived its scope");
}

#[test]
fn scopes_without_a_reason_to_wait_are_left_alone_elsewhere() {
    one_worker().run(|| {
        fiber::scope(|scope| no_switch(|| drop(scope.spawn(|| ()))));
    });
}

/// The environment of a child with little memory: the names in a backtrace take megabytes, and a
/// heap of its own for each thread 64.
const WITHOUT_MEMORY: [(&str, &str); 3] =
    [("RAMIE_DRIVER", "poll"), ("RUST_BACKTRACE", "0"), ("MALLOC_ARENA_MAX", "1")];

/// The op would be in flight, with a buffer of a call that has been left.
#[test]
fn a_thread_without_memory_to_wait_submits_no_op() {
    let test = "a_thread_without_memory_to_wait_submits_no_op";
    if !is_child() {
        return assert_success(&child_with("true", test, &WITHOUT_MEMORY));
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let first: &'static mut [u8; 64] = Box::leak(Box::new([0; 64]));
    let address = first.as_ptr();
    // Less than the 2 MiB of the first headers.
    common::limit_memory(512 << 10);
    let sentence = panic_text(|| socket.recv(first));
    assert!(sentence.contains("this thread cannot wait"), "{sentence}");
    common::lift_memory_limit();
    peer.send_to(b"datagram", socket.local_addr().unwrap()).unwrap();
    let mut second = [0; 64];
    assert_eq!(socket.recv(&mut second).unwrap(), 8);
    // SAFETY: leaked above, and nobody writes to it.
    assert_eq!(unsafe { address.read_volatile() }, 0, "the first call is still receiving");
}

/// As above, of a scope whose child another thread has spawned.
#[test]
fn a_thread_without_memory_to_wait_opens_no_scope() {
    // Where no header can be had any more, the second thread must still start.
    if common::memory_is_the_sanitizers() {
        return;
    }
    let test = "a_thread_without_memory_to_wait_opens_no_scope";
    if !is_child() {
        return assert_success(&child_with("true", test, &WITHOUT_MEMORY));
    }
    // Takes some headers, and leaves some to itself.
    fiber::spawn_local(|| ()).join().unwrap();
    common::limit_memory(1 << 20);
    std::thread::scope(|threads| {
        let builder = || std::thread::Builder::new().stack_size(64 << 10);
        let (exhausted, is_exhausted) = std::sync::mpsc::channel();
        let exhaust = move || {
            while fiber::Builder::new().spawn_local(|| ()).is_ok() {}
            exhausted.send(()).unwrap();
            std::thread::park();
        };
        let keeper = builder().spawn_scoped(threads, exhaust).unwrap();
        is_exhausted.recv().unwrap();
        // For the allocations of the panic itself; less than more headers take.
        common::limit_memory(1 << 20);
        let open = || {
            let sentence = panic_text(opens_a_scope);
            assert!(sentence.contains("this thread cannot wait"), "{sentence}");
        };
        let opened = builder().spawn_scoped(threads, open).unwrap().join();
        // Giving all those fibers up takes memory.
        common::lift_memory_limit();
        keeper.thread().unpark();
        opened.unwrap();
    });
    assert_eq!(BEGUN.load(SeqCst), 0);
}

#[test]
fn a_policy_whose_destructor_panics_ends_the_process() {
    use ramie::policy::{Policy, Runnable};
    #[derive(Default)]
    struct PanicsAtTheEnd(Vec<Runnable>);
    impl Policy for PanicsAtTheEnd {
        fn push(&mut self, runnable: Runnable) {
            self.0.push(runnable);
        }
        fn pop(&mut self) -> Option<Runnable> {
            self.0.pop()
        }
    }
    impl Drop for PanicsAtTheEnd {
        fn drop(&mut self) {
            panic!("the policy's destructor");
        }
    }
    if is_child() {
        let builder = Runtime::builder().workers(1).grace(Duration::ZERO);
        let runtime = builder.policy(PanicsAtTheEnd::default).build().unwrap();
        return runtime.run(|| drop(fiber::spawn(fiber::park)));
    }
    let output = child("a_policy_whose_destructor_panics_ends_the_process");
    assert_aborted(&output, "the run-queue policy panicked");
}

#[test]
fn a_policy_that_cannot_be_made_fails_the_run() {
    // Not "the second", because the workers start at the same time.
    let first = thread::current().id();
    let make = move || {
        assert_eq!(thread::current().id(), first, "the other worker's cannot be made");
        ramie::policy::Lifo::new()
    };
    let runtime = Runtime::builder().workers(2).policy(make).build().unwrap();
    let sentence = panic_text(|| runtime.run(|| ()));
    assert!(sentence.contains("a worker could not be started"), "{sentence}");
}

/// Leaves the strand in a `no_switch` region, which a coroutine entered and suspended in.
fn leave_a_coroutine_in_no_switch() {
    let coroutine = ramie::coro::Coroutine::new(|yielder, ()| no_switch(|| yielder.suspend(())));
    let _ = coroutine.resume(());
    std::mem::forget(coroutine);
}

#[test]
fn the_end_of_a_thread_waits_for_its_fibers_whatever_its_closure_left() {
    let runtime = Runtime::builder().strands(Strands::Threads).build().unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let strand = |ended: &Arc<AtomicUsize>| {
        let ended = Arc::clone(ended);
        fiber::spawn_local(move || {
            fiber::sleep(Duration::from_millis(5));
            ended.fetch_add(1, SeqCst);
        });
        leave_a_coroutine_in_no_switch();
    };
    runtime.run(|| {
        let theirs = Arc::clone(&ended);
        fiber::spawn(move || strand(&theirs)).join().unwrap();
        strand(&ended);
    });
    assert_eq!(ended.load(SeqCst), 2);
}

#[test]
fn a_scope_that_cannot_wait_any_more_ends_the_process() {
    if is_child() {
        return one_worker().run(|| {
            fiber::scope(|scope| {
                scope.spawn(|| ());
                leave_a_coroutine_in_no_switch();
            });
        });
    }
    let output = child("a_scope_that_cannot_wait_any_more_ends_the_process");
    assert_aborted(&output, "strands of a scope borrowed from it");
}
