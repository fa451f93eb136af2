//! A program written for `std::thread` does the same with `ramie::thread` in std's place.

/// One program, compiled twice: `use std::…` and `use ramie as std`.
macro_rules! program {
    ($name:ident, $std:ident) => {
        mod $name {
            extern crate $std as std;
            use ::std::{cell::Cell, time::Duration};
            use std::thread::{
                self, AccessError, Builder, JoinHandle, LocalKey, Scope, ScopedJoinHandle, Thread,
                ThreadId,
            };

            std::thread_local! {
                static COUNT: Cell<u32> = const { Cell::new(1) };
            }

            fn add(key: &'static LocalKey<Cell<u32>>, n: u32) -> Result<u32, AccessError> {
                key.try_with(|count| count.replace(count.get() + n))
            }

            fn in_scope<'scope>(
                scope: &'scope Scope<'scope, '_>,
                text: &'scope str,
            ) -> ScopedJoinHandle<'scope, usize> {
                scope.spawn(|| text.len())
            }

            fn ids() -> (ThreadId, Thread) {
                (thread::current().id(), thread::current())
            }

            pub(super) fn origin() -> &'static str {
                ::std::any::type_name::<Thread>()
            }

            pub(super) fn run() -> Vec<String> {
                let mut said = Vec::new();
                let other: JoinHandle<u32> = thread::spawn(|| {
                    thread::park();
                    thread::yield_now();
                    add(&COUNT, 4).unwrap();
                    COUNT.get()
                });
                assert!(!other.is_finished());
                other.thread().unpark();
                said.push(format!("{} {}", other.join().unwrap(), COUNT.get()));
                let named = Builder::new().name("reader".into()).stack_size(1 << 20);
                let named = named.spawn(|| {
                    thread::sleep(Duration::from_millis(1));
                    thread::park_timeout(Duration::from_millis(1));
                    thread::current().name().map(str::to_owned)
                });
                said.push(format!("{:?}", named.unwrap().join().unwrap()));
                let text = "borrowed".to_owned();
                let lent = thread::scope(|scope| in_scope(scope, &text).join().unwrap());
                said.push(format!("{lent}"));
                let failed: thread::Result<()> = thread::spawn(|| panic!("as planned")).join();
                said.push(format!("{:?}", failed.unwrap_err().downcast_ref::<&str>()));
                let (id, thread) = ids();
                assert!(id == thread.id() && id != thread::spawn(ids).join().unwrap().0);
                assert!(thread::available_parallelism().unwrap().get() > 0);
                said.push(format!("{}", thread::panicking()));
                said
            }
        }
    };
}

program!(with_std, std);
program!(with_ramie, ramie);

#[test]
fn the_same_program_prints_the_same() {
    assert!(with_std::origin().starts_with("std::"), "{}", with_std::origin());
    assert!(with_ramie::origin().starts_with("ramie::"), "{}", with_ramie::origin());
    let expected = with_std::run();
    assert_eq!(expected[0], "5 1");
    assert_eq!(with_ramie::run(), expected, "outside of run");
    for strands in [ramie::Strands::Fibers, ramie::Strands::Threads] {
        let runtime = ramie::Runtime::builder().strands(strands).build().unwrap();
        assert_eq!(runtime.run(with_ramie::run), expected, "{strands:?}");
    }
}

#[test]
fn local_strands_are_an_extension() {
    ramie::run(|| {
        let shared = std::rc::Rc::new(5);
        assert_eq!(ramie::thread::spawn_local(move || *shared).join().unwrap(), 5);
        ramie::thread::sleep_until(ramie::time::Instant::now());
    });
}
