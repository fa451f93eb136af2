//! Servers that have no memory for the fibers that they need.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use ramie::{
    Reaction, Runtime, Strands,
    fiber::{self, Builder, JoinHandle, Place},
    sync::Event,
};
use ramie_http::{Router, Server, ServerHandle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    child::in_child,
    listeners::{bind, run_on},
};

/// Lets the address space of this process grow by no more than this many bytes.
fn limit_memory(room: u64) {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    let current = Some(pages * rustix::param::page_size() as u64 + room);
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
}

fn lift_limit() {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: maximum, maximum }).unwrap();
}

/// A runtime without a watchdog, whose thread would need memory, too.
fn unwatched() -> ramie::Builder {
    Runtime::builder().stall_limit(None).on_deadlock(Reaction::Ignore)
}

fn run<T: Send + 'static>(workers: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
    run_on(unwatched().workers(workers), f)
}

/// Serves with more listeners than there is memory for fibers that accept from them.
fn error_with_many_listeners() -> io::Error {
    run(1, || {
        let server = Server::on_each((0..400).map(|_| bind()).collect());
        // Maps a chunk of stacks, of which the server gets some.
        fiber::spawn(|| ()).join().unwrap();
        limit_memory(1 << 20);
        let served = server.serve(Router::new());
        lift_limit();
        served.unwrap_err()
    })
}

#[test]
fn a_server_without_memory_for_all_its_acceptors_ends_with_an_error() {
    in_child("memory::a_server_without_memory_for_all_its_acceptors_ends_with_an_error", || {
        let error = error_with_many_listeners();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
    });
}

/// A fiber that has a stack until it is released.
struct Occupant {
    fiber: JoinHandle<()>,
    release: Arc<Event>,
}

impl Occupant {
    /// `None` if there is no memory for a stack.
    fn on(worker: usize) -> Option<Occupant> {
        let (release, begun) = (Arc::new(Event::new()), Arc::new(AtomicBool::new(false)));
        let (released, begins) = (Arc::clone(&release), Arc::clone(&begun));
        let occupies = move || {
            begins.store(true, Ordering::SeqCst);
            released.wait().unwrap();
        };
        let fiber = Builder::new().on(Place::Worker(worker)).spawn(occupies).ok()?;
        loop {
            if begun.load(Ordering::SeqCst) {
                return Some(Occupant { fiber, release });
            }
            if fiber.is_finished() {
                return None;
            }
            fiber::yield_now();
        }
    }

    fn leave(self) {
        self.release.set();
        self.fiber.join().unwrap();
    }
}

/// Stops each server once it has answered or closed a connection, or has closed its listener.
fn stop_each(servers: &mpsc::Receiver<(SocketAddr, ServerHandle)>) {
    for (address, server) in servers {
        if let Ok(mut stream) = TcpStream::connect(address) {
            // The server may close the connection at once, for lack of a fiber that serves it.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
        server.stop();
    }
}

/// Serves with no free stack, with one, and so on, until the server has enough. Returns the errors
/// of the servers that had too few.
fn errors_with_few_stacks(workers: usize) -> Vec<io::Error> {
    run(workers, move || {
        let (sender, servers) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        std::thread::spawn(move || {
            begins.send(()).unwrap();
            stop_each(&servers);
        });
        // By then, the thread has the memory that it needs to run.
        begun.recv().unwrap();
        // Each worker maps a chunk of stacks.
        for worker in 0..workers {
            Occupant::on(worker).unwrap().leave();
        }
        limit_memory(1 << 20);
        let fill = |worker| std::iter::from_fn(move || Occupant::on(worker));
        let mut occupants: Vec<_> = (0..workers).flat_map(fill).collect();
        let mut errors = Vec::new();
        loop {
            let server = Server::on(bind());
            sender.send((server.local_addr().unwrap(), server.handle())).unwrap();
            match server.serve(Router::new()) {
                Ok(()) => break,
                Err(error) => errors.push(error),
            }
            occupants.pop().expect("the server has a stack for each fiber").leave();
        }
        lift_limit();
        occupants.into_iter().for_each(Occupant::leave);
        errors
    })
}

#[test]
fn a_server_without_memory_for_one_of_its_fibers_ends_with_an_error() {
    in_child("memory::a_server_without_memory_for_one_of_its_fibers_ends_with_an_error", || {
        for workers in [1, 2] {
            let errors = errors_with_few_stacks(workers);
            // One more, because the server watches over its time limits on a fiber of its own.
            assert!(errors.len() > workers, "{errors:?}");
            for error in errors {
                assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
            }
        }
    });
}

/// A server that places connections accepts on the fiber that calls `serve`, so it needs a stack
/// only for the fiber that watches over its time limits.
#[test]
fn a_server_without_memory_for_its_time_limits_ends_with_an_error() {
    in_child("memory::a_server_without_memory_for_its_time_limits_ends_with_an_error", || {
        let error = run(1, || {
            Occupant::on(0).unwrap().leave();
            limit_memory(1 << 20);
            let occupants: Vec<_> = std::iter::from_fn(|| Occupant::on(0)).collect();
            let served = Server::on(bind()).place(Place::Any).serve(Router::new());
            lift_limit();
            occupants.into_iter().for_each(Occupant::leave);
            served.unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
        assert!(error.to_string().contains("memory for a fiber that the server needs"), "{error}");
    });
}

#[test]
fn without_a_thread_for_its_strands_a_server_ends_with_an_error() {
    in_child("memory::without_a_thread_for_its_strands_a_server_ends_with_an_error", || {
        let error = run_on(unwatched().strands(Strands::Threads), || {
            let server = Server::on(bind());
            limit_memory(1 << 20);
            let served = server.serve(Router::new());
            lift_limit();
            served.unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
    });
}

/// The panic of one fiber that accepts, while there is no memory for others.
#[test]
fn a_panic_while_accepting_is_not_taken_for_a_lack_of_memory() {
    in_child("memory::a_panic_while_accepting_is_not_taken_for_a_lack_of_memory", || {
        let message = run(1, || {
            let listeners: Vec<_> = (0..400).map(|_| bind()).collect();
            let client = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
            let server = Server::on_each(listeners).admit_if(|_| panic!("of the test"));
            fiber::spawn(|| ()).join().unwrap();
            limit_memory(1 << 20);
            let served = catch_unwind(AssertUnwindSafe(|| server.serve(Router::new())));
            lift_limit();
            drop(client);
            served.unwrap_err().downcast_ref::<&str>().unwrap().to_string()
        });
        assert_eq!(message, "of the test");
    });
}
