//! The answers of std's `thread` and `sync` in small and odd cases: a program with
//! `use ramie as std` gets the same, on fibers, on threads and outside `run`.

use ramie::{Runtime, Strands};

/// The program, with whichever library goes by the name of `std`.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                cell::Cell,
                collections::BTreeMap,
                fmt::Debug,
                io,
                panic::{catch_unwind, resume_unwind},
                string::String,
                sync::{
                    Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock,
                    atomic::{AtomicU32, Ordering::Relaxed},
                    mpsc,
                },
                thread,
                time::Duration,
                vec::Vec,
            };
            use $library as std;

            /// The observations of the program, by the name of the case.
            #[derive(Default)]
            struct Seen(BTreeMap<&'static str, Vec<String>>);

            impl Seen {
                fn see(&mut self, case: &'static str, value: impl Debug) {
                    self.0.entry(case).or_default().push(std::format!("{value:?}"));
                }
            }

            fn fail<T>() -> T {
                resume_unwind(std::boxed::Box::new("as planned"))
            }

            fn threads(seen: &mut Seen) {
                let name = || thread::current().name().map(str::to_owned);
                seen.see("no name", thread::spawn(name).join().unwrap());
                let named = thread::Builder::new().name("named".into()).stack_size(0);
                seen.see("a name", named.spawn(name).unwrap().join().unwrap());
                let outcome = thread::spawn(fail::<()>).join();
                seen.see("a panic", outcome.unwrap_err().downcast_ref::<&str>());
                let scope = || thread::scope(|scope| drop(scope.spawn(fail::<()>)));
                seen.see("a panic in a scope", catch_unwind(scope).is_err());
                let joined = thread::scope(|scope| scope.spawn(fail::<u8>).join().is_err());
                seen.see("a panic in a scope, joined", joined);
                thread::current().unpark();
                thread::current().unpark();
                thread::park();
                seen.see("two tokens are one", thread::park_timeout(Duration::from_millis(1)));
                let handle = thread::spawn(|| ());
                let id = handle.thread().id();
                while !handle.is_finished() {
                    thread::yield_now();
                }
                seen.see("its id", (id == handle.thread().id(), id == thread::current().id()));
                std::thread_local! { static LOCAL: Cell<u8> = const { Cell::new(1) } }
                LOCAL.set(2);
                seen.see("locals", (thread::spawn(|| LOCAL.get()).join().unwrap(), LOCAL.take()));
            }

            fn locks(seen: &mut Seen) {
                let mutex = Arc::new(Mutex::new(1));
                let held = mutex.lock().unwrap();
                seen.see("held", (&mutex, mutex.try_lock().map_err(|e| e.to_string()).is_err()));
                drop(held);
                let theirs = mutex.clone();
                let poison = move || {
                    let _held = theirs.lock();
                    fail()
                };
                assert!(thread::spawn::<_, ()>(poison).join().is_err());
                seen.see("poisoned", (mutex.is_poisoned(), &mutex, mutex.lock().is_err()));
                seen.see("poisoned", mutex.try_lock().map(drop).map_err(|e| e.to_string()));
                mutex.clear_poison();
                seen.see("cleared", (&mutex, mutex.lock().is_ok()));
                let lock = RwLock::new(3);
                let read = [lock.read().unwrap(), lock.read().unwrap()];
                seen.see("read", (&lock, &read, lock.try_write().is_err()));
                drop(read);
                let written = lock.write().unwrap();
                seen.see("written", (&lock, lock.try_read().is_err()));
                drop(written);
                seen.see("into_inner", (lock.into_inner(), Mutex::new(4).into_inner()));
                let (mutex, condvar) = (Mutex::new(false), Condvar::new());
                let wait = condvar.wait_timeout(mutex.lock().unwrap(), Duration::from_millis(1));
                seen.see("a wait in vain", wait.unwrap().1.timed_out());
                seen.see("a condvar", condvar);
                let barrier = Barrier::new(1);
                seen.see("a barrier", (&barrier, barrier.wait(), barrier.wait().is_leader()));
            }

            fn cells(seen: &mut Seen) {
                let once = Once::new();
                seen.see("once", (&once, catch_unwind(|| once.call_once(fail)).is_err()));
                let again = catch_unwind(|| once.call_once(|| ())).is_err();
                once.call_once_force(|state| seen.see("once, poisoned", (again, state)));
                seen.see("once", (&once, once.is_completed()));
                let cell = OnceLock::new();
                seen.see("a cell", (&cell, cell.get(), cell.set(1), cell.set(2), &cell));
                seen.see("a cell", (cell.get_or_init(|| 3), cell.clone().into_inner()));
                let calls = AtomicU32::new(0);
                let lazy = LazyLock::new(|| calls.fetch_add(1, Relaxed));
                seen.see("lazy", (&lazy, *lazy, &lazy, *lazy, &calls));
                let lazy = LazyLock::<u8>::new(fail);
                let force = || catch_unwind(std::panic::AssertUnwindSafe(|| *lazy)).is_err();
                seen.see("lazy, poisoned", (force(), force(), &lazy));
            }

            fn channels(seen: &mut Seen) {
                let (sender, receiver) = mpsc::sync_channel(0);
                seen.see("rendezvous", (sender.try_send(1), receiver.try_recv()));
                seen.see("rendezvous", receiver.recv_timeout(Duration::from_millis(1)));
                seen.see("ends", (&sender, &receiver));
                drop(receiver);
                seen.see("no receiver", (sender.send(2), sender.try_send(3)));
                let (sender, receiver) = mpsc::channel();
                sender.clone().send(4).unwrap();
                sender.send(5).unwrap();
                seen.see("some", receiver.try_iter().collect::<Vec<_>>());
                drop(sender);
                seen.see(
                    "no sender",
                    (receiver.recv(), receiver.try_recv(), receiver.iter().next()),
                );
                seen.see("no sender", receiver.recv().map_err(|error| error.to_string()));
                let (stdout, lock) = (io::stdout(), io::stderr().lock());
                seen.see("streams", (io::stdin(), stdout, lock));
            }

            pub(super) fn run() -> BTreeMap<&'static str, Vec<String>> {
                let mut seen = Seen::default();
                threads(&mut seen);
                locks(&mut seen);
                cells(&mut seen);
                channels(&mut seen);
                seen.0
            }
        }
    };
}

program!(std as with_std);
program!(ramie as with_ours);

#[test]
fn it_hears_the_same() {
    let theirs = with_std::run();
    assert_eq!(with_ours::run(), theirs, "outside run");
    for strands in [Strands::Fibers, Strands::Threads] {
        let runtime = Runtime::builder().workers(2).strands(strands).build().unwrap();
        assert_eq!(runtime.run(with_ours::run), theirs, "{strands:?}");
    }
}
