//! A worker that the test's own loop drives, by an epoll set as a GUI's loop has one.

use std::{
    cell::{Cell, RefCell},
    io::{Read, Write},
    os::fd::{AsFd, AsRawFd},
    rc::Rc,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ramie::{
    GuestRuntime, Runtime, Turned, channel, fiber,
    net::{TcpListener, TcpStream},
    time::ManualClock,
};
use rustix::event::{
    PollFd, PollFlags, Timespec,
    epoll::{self, CreateFlags, EventData, EventFlags},
    poll,
};
use rustix::io::Errno;

use super::common::{Limit, on_each, panic_text};

const SOON: Duration = Duration::from_millis(5);

/// Whether the descriptor is readable within that time.
pub(crate) fn is_readable(guest: &GuestRuntime, within: Duration) -> bool {
    let within = Timespec::try_from(within).unwrap();
    let mut set = [PollFd::from_borrowed_fd(guest.as_fd(), PollFlags::IN)];
    loop {
        match poll(&mut set, Some(&within)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Gives turns, each when the descriptor is readable, until `is_over` holds.
#[track_caller]
fn drive(guest: &mut GuestRuntime, mut is_over: impl FnMut() -> bool) {
    while !is_over() {
        assert!(is_readable(guest, Duration::from_secs(20)), "the descriptor stays unreadable");
        guest.turn(SOON);
    }
}

/// Gives turns until there is nothing to run.
fn settle(guest: &mut GuestRuntime) -> Option<Duration> {
    loop {
        if let Turned::Idle(next) = guest.turn(SOON) {
            return next;
        }
    }
}

#[test]
fn fibers_run_in_turns_and_nowhere_else() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let fiber = guest.handle().spawn(|| (thread::current().id(), fiber::worker())).unwrap();
        assert!(is_readable(&guest, SOON) && !fiber.is_finished());
        settle(&mut guest);
        assert!(!is_readable(&guest, Duration::ZERO), "nothing is due");
        assert_eq!(fiber.join().unwrap(), (thread::current().id(), Some(0)));
        assert_eq!(fiber::worker(), None, "between the turns the thread is outside");
    });
}

#[test]
fn a_fiber_may_hold_what_belongs_to_the_thread() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let label = Rc::new(RefCell::new(String::new()));
        let theirs = Rc::clone(&label);
        let fiber = guest.spawn_local(move || {
            for word in ["one", "two"] {
                theirs.borrow_mut().push_str(word);
                fiber::sleep(Duration::from_millis(1));
            }
            theirs
        });
        let fiber = fiber.unwrap();
        drive(&mut guest, || fiber.is_finished());
        assert_eq!(*label.borrow(), "onetwo");
        assert!(Rc::ptr_eq(&fiber.join().unwrap(), &label));
    });
}

/// Everything that can wake a fiber must make the descriptor readable.
#[test]
fn whatever_wakes_a_fiber_makes_the_descriptor_readable() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let listener = guest
            .handle()
            .spawn_on(fiber::Place::Worker(0), || TcpListener::bind("127.0.0.1:0").unwrap());
        let listener = listener.unwrap();
        drive(&mut guest, || listener.is_finished());
        let listener = listener.join().unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, receiver) = channel::bounded::<u8>(1);
        let echo = guest.handle().spawn_on(fiber::Place::Worker(0), move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&[byte[0] + receiver.recv().unwrap()]).unwrap();
        });
        let echo = echo.unwrap();
        settle(&mut guest);
        // A connection, bytes, a value of another thread: each alone.
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        assert!(is_readable(&guest, Duration::from_secs(10)), "a connection");
        settle(&mut guest);
        stream.write_all(&[40]).unwrap();
        assert!(is_readable(&guest, Duration::from_secs(10)), "bytes");
        settle(&mut guest);
        assert!(!is_readable(&guest, Duration::ZERO));
        thread::spawn(move || sender.send(2).unwrap()).join().unwrap();
        assert!(is_readable(&guest, Duration::from_secs(10)), "a value");
        drive(&mut guest, || echo.is_finished());
        echo.join().unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [42]);
    });
}

#[test]
fn a_sleep_makes_the_descriptor_readable_in_time() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let start = Instant::now();
        let fiber = guest.spawn_local(|| fiber::sleep(Duration::from_millis(20))).unwrap();
        let next = settle(&mut guest).expect("a fiber sleeps");
        assert!(next <= Duration::from_millis(20));
        drive(&mut guest, || fiber.is_finished());
        assert!(start.elapsed() >= Duration::from_millis(20));
    });
}

/// As GLib's or winit's: sources with priorities, of which the runtime is one.
#[test]
fn a_loop_with_other_sources_drives_it() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&set, &guest, EventData::new_u64(1), EventFlags::IN).unwrap();
        epoll::add(&set, &theirs, EventData::new_u64(2), EventFlags::IN).unwrap();
        let clicks = Rc::new(Cell::new(0));
        let (wake, woken) = channel::unbounded::<()>();
        let counted = Rc::clone(&clicks);
        let fiber = guest.spawn_local(move || {
            while woken.recv().is_ok() {
                counted.set(counted.get() + 1);
                fiber::sleep(Duration::from_micros(100));
            }
        });
        let fiber = fiber.unwrap();
        let clicker = thread::spawn(move || (0..50).for_each(|_| ours.write_all(b"c").unwrap()));
        let mut wake = Some(wake);
        let mut received = 0;
        while !fiber.is_finished() {
            let mut events = [const { std::mem::MaybeUninit::uninit() }; 4];
            let ready = match epoll::wait(&set, &mut events, None) {
                Ok((ready, _)) => ready,
                // A ring that posts a completion interrupts it.
                Err(Errno::INTR) => continue,
                Err(error) => panic!("{error}"),
            };
            for event in ready.iter() {
                match event.data.u64() {
                    1 => drop(guest.turn(Duration::from_micros(200))),
                    _ => {
                        let mut bytes = [0; 16];
                        let count = (&theirs).read(&mut bytes).unwrap();
                        received += count;
                        // A send of the thread itself, which is outside the runtime here.
                        (0..count).for_each(|_| wake.as_ref().unwrap().send(()).unwrap());
                        if received == 50 {
                            wake = None;
                            epoll::delete(&set, &theirs).unwrap();
                        }
                    }
                }
            }
        }
        clicker.join().unwrap();
        fiber.join().unwrap();
        assert_eq!(clicks.get(), 50);
    });
}

#[test]
fn a_turn_ends_when_its_time_is_over_though_fibers_can_run() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let is_over = Rc::new(Cell::new(false));
        let theirs = Rc::clone(&is_over);
        let count = Rc::new(Cell::new(0u64));
        let counted = Rc::clone(&count);
        let fiber = guest.spawn_local(move || {
            while !theirs.get() {
                counted.set(counted.get() + 1);
                fiber::yield_now();
            }
        });
        let fiber = fiber.unwrap();
        let start = Instant::now();
        assert_eq!(guest.turn(Duration::from_millis(2)), Turned::Busy);
        assert!(start.elapsed() >= Duration::from_millis(2));
        assert!(is_readable(&guest, Duration::from_secs(10)), "more is to run");
        let before = count.get();
        assert_eq!(guest.turn(Duration::ZERO), Turned::Busy);
        assert_eq!(count.get(), before + 1, "the shortest turn runs one fiber once");
        is_over.set(true);
        drive(&mut guest, || fiber.is_finished());
    });
}

/// Without a switch the loop could not look whether the turn is over.
#[test]
fn the_shortest_turn_starts_one_fiber() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        settle(&mut guest);
        let count = Rc::new(Cell::new(0));
        for _ in 0..10 {
            let counted = Rc::clone(&count);
            guest.spawn_local(move || counted.set(counted.get() + 1)).unwrap();
        }
        assert!(is_readable(&guest, SOON), "they make a turn due");
        assert_eq!(guest.turn(Duration::ZERO), Turned::Busy);
        assert_eq!(count.get(), 1);
        drive(&mut guest, || count.get() == 10);
    });
}

/// Another worker cannot take them, because it is blocked; the loop takes them without a wake.
#[test]
fn a_turn_takes_what_other_workers_leave() {
    let _limit = Limit::of_this_test();
    on_each(&[2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let blocks = guest.handle().spawn_on(fiber::Place::Worker(1), move || {
            let fibers = [(); 4].map(|()| fiber::spawn(fiber::worker));
            begins.send(()).unwrap();
            released.recv().unwrap();
            fibers.map(|fiber| fiber.join().unwrap())
        });
        begun.recv().unwrap();
        let outside = guest.handle().spawn(fiber::worker).unwrap();
        while !outside.is_finished() {
            guest.turn(SOON);
        }
        assert_eq!(outside.join().unwrap(), Some(0));
        // That one, and one that was stolen.
        while guest.handle().metrics().unwrap().ended < 2 {
            guest.turn(SOON);
        }
        release.send(()).unwrap();
        let blocks = blocks.unwrap();
        drive(&mut guest, || blocks.is_finished());
        let there = blocks.join().unwrap();
        assert!(there.contains(&Some(0)), "{there:?}");
    });
}

#[test]
fn further_workers_run_on_threads_of_their_own() {
    let _limit = Limit::of_this_test();
    on_each(&[3], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        settle(&mut guest);
        // The loop gives no turn meanwhile, so the others have to run these.
        let fibers: Vec<_> =
            (0..20).map(|_| guest.handle().spawn(fiber::worker).unwrap()).collect();
        let workers: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
        assert!(workers.iter().all(|worker| matches!(worker, Some(1 | 2))), "{workers:?}");
        // A fiber of the loop's thread talks to one of another.
        let (sender, receiver) = channel::bounded(0);
        let fiber = guest.spawn_local(move || receiver.iter().sum::<i32>()).unwrap();
        let sender = guest.handle().spawn_on(fiber::Place::Worker(1), move || {
            (0..100).for_each(|n| sender.send(n).unwrap());
        });
        drive(&mut guest, || fiber.is_finished());
        assert_eq!(fiber.join().unwrap(), 4950);
        sender.unwrap().join().unwrap();
    });
}

#[test]
fn a_future_of_a_fiber_can_be_awaited_by_the_loops_own_executor() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        use std::task::{Context, Poll, Wake};
        struct Flag(std::sync::atomic::AtomicBool);
        impl Wake for Flag {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let mut guest = runtime.start_guest().unwrap();
        let fiber = guest.spawn_local(|| fiber::sleep(Duration::from_millis(1))).unwrap();
        let mut future = std::pin::pin!(fiber.into_future());
        let flag = std::sync::Arc::new(Flag(false.into()));
        let waker = std::task::Waker::from(std::sync::Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        drive(&mut guest, || flag.0.load(std::sync::atomic::Ordering::SeqCst));
        assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    });
}

#[test]
fn its_fibers_are_in_dumps_while_the_loop_waits() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let builder = fiber::Builder::new().name("resting".into());
        let fiber = guest.handle().spawn_with(builder, fiber::park).unwrap();
        settle(&mut guest);
        let (done, dump) = mpsc::channel();
        let asks = thread::spawn(move || done.send(ramie::inspect::dump().to_string()));
        let text = loop {
            // The dump needs a turn, and comes some time after it.
            let _ = is_readable(&guest, Duration::from_millis(1));
            guest.turn(SOON);
            if let Ok(text) = dump.try_recv() {
                break text;
            }
        };
        asks.join().unwrap().unwrap();
        assert!(text.contains("fiber 'resting'") && text.contains("waits for"), "{text}");
        fiber.fiber().unpark();
        drive(&mut guest, || fiber.is_finished());
    });
}

#[test]
fn a_clock_of_a_test_drives_its_timers() {
    let _limit = Limit::of_this_test();
    let clock = ManualClock::new();
    let builder = Runtime::builder().strands(ramie::Strands::Fibers).workers(1);
    let mut guest = builder.clock(clock.clone()).build().unwrap().start_guest().unwrap();
    let hour = Duration::from_secs(3600);
    let fiber = guest.spawn_local(move || fiber::sleep(hour)).unwrap();
    settle(&mut guest);
    clock.advance(hour);
    drive(&mut guest, || fiber.is_finished());
    let jumping = Runtime::builder().strands(ramie::Strands::Fibers).workers(1);
    let jumping = jumping.clock(ManualClock::jumping()).build().unwrap();
    let mut guest = jumping.start_guest().unwrap();
    let fiber = guest.spawn_local(move || fiber::sleep(hour)).unwrap();
    drive(&mut guest, || fiber.is_finished());
}

/// A clock that jumps does so when all workers rest, and in a turn the worker of the loop does not.
#[test]
fn no_clock_jumps_in_a_turn() {
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(ramie::Strands::Fibers).workers(2).stall_limit(None);
    let runtime = builder.clock(ManualClock::jumping()).build().unwrap();
    let mut guest = runtime.start_guest().unwrap();
    settle(&mut guest);
    let handle = guest.handle();
    let computes = guest.spawn_local(move || {
        let sleeps = handle.spawn_on(fiber::Place::Worker(1), || {
            fiber::sleep(Duration::from_secs(3600));
        });
        let sleeps = sleeps.unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(100) {
            assert!(!sleeps.is_finished(), "an hour has passed while a fiber computed");
        }
        sleeps.join().unwrap();
    });
    let computes = computes.unwrap();
    drive(&mut guest, || computes.is_finished());
    computes.join().unwrap();
}

#[test]
fn it_is_refused_inside_a_runtime() {
    let _limit = Limit::of_this_test();
    let runtime = super::common::one_worker();
    let said = runtime.run(|| panic_text(|| drop(super::common::one_worker().start_guest())));
    assert!(said.contains("only in the loop of its thread"), "{said}");
    let guest = RefCell::new(runtime.start_guest().unwrap());
    let said = runtime.run(|| panic_text(|| guest.borrow_mut().turn(SOON)));
    assert!(said.contains("only in the loop of its thread"), "{said}");
    assert!(guest.borrow().as_raw_fd() >= 0);
    let threads = Runtime::builder().strands(ramie::Strands::Threads).build().unwrap();
    let error = threads.start_guest().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// A worker that never sleeps gives stacks back in its turns.
#[test]
fn memory_is_given_back_while_the_loop_waits() {
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(ramie::Strands::Fibers).workers(1);
    let mut guest = builder.build().unwrap().start_guest().unwrap();
    let stacks = |guest: &mut GuestRuntime| {
        let asks = guest.handle().spawn(|| ramie::metrics::metrics().worker.stacks).unwrap();
        settle(guest);
        asks.join().unwrap()
    };
    for _ in 0..2000 {
        guest.spawn_local(fiber::yield_now).unwrap();
    }
    let next = settle(&mut guest);
    assert!(next.is_some_and(|next| next <= Duration::from_secs(1)), "{next:?}");
    let before = stacks(&mut guest);
    assert!(before > 100, "{before} stacks");
    let start = Instant::now();
    while stacks(&mut guest) >= before {
        assert!(start.elapsed() < Duration::from_secs(20), "{before} stacks stay");
        let _ = is_readable(&guest, Duration::from_millis(60));
        settle(&mut guest);
        let _ = is_readable(&guest, Duration::from_millis(60));
        settle(&mut guest);
    }
}

/// A stream of a fiber outlives its runtime, as elsewhere.
#[test]
fn a_socket_outlives_it() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let fiber = guest.spawn_local(move || TcpStream::connect(address).unwrap()).unwrap();
        drive(&mut guest, || fiber.is_finished());
        let mut stream = fiber.join().unwrap();
        drop(guest);
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"x").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    });
}
