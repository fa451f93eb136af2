//! Dumps for other processes: the socket, its requests, its clients, its end.

use std::{
    env, fs,
    io::{self, Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use ramie::{Builder, Runtime, fiber, inspect, sync::Event};

use crate::{
    common::{
        Limit, assert_success, child_with, descriptors, is_child, panic_text, skipped, stderr,
        threads, wait_until,
    },
    has_thread,
};

/// Less than the time after which a client that reads nothing is disconnected, and than that after
/// which a dump leaves out a worker.
pub(crate) const SOON: Duration = Duration::from_secs(4);

/// A directory for the sockets of one test, which removes itself.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("ramie-inspect-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a test of this file in a process of its own, which has a session directory of its own;
/// returns what the process has written to stderr.
#[track_caller]
pub(crate) fn alone(test: &str, variables: &[(&str, &str)]) -> String {
    let folder = Folder::new();
    let session = [("XDG_RUNTIME_DIR", folder.0.to_str().unwrap())];
    let output = child_with("true", test, &[variables, &session[..]].concat());
    assert_success(&output);
    stderr(&output)
}

fn session() -> PathBuf {
    PathBuf::from(env::var_os("XDG_RUNTIME_DIR").unwrap())
}

pub(crate) fn inspected() -> Builder {
    Runtime::builder().workers(1).inspect(true)
}

pub(crate) fn own_socket() -> PathBuf {
    inspect::socket_path().expect("a runtime is inspected")
}

/// Sends bytes to a socket, and returns the answer.
fn ask_at(path: &Path, request: &[u8]) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    // The process may have answered before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    // The rest of a long request resets the connection.
    if let Err(error) = stream.read_to_end(&mut answer)
        && answer.is_empty()
    {
        return Err(error);
    }
    Ok(String::from_utf8(answer).unwrap())
}

/// Asks on a thread, while the fiber waits.
pub(crate) fn ask(request: &'static [u8]) -> String {
    let path = own_socket();
    ramie::blocking(move || ask_at(&path, request).unwrap())
}

/// The body of an answer, whose length must be the one that was announced.
#[track_caller]
fn body(answer: &str) -> &str {
    let (head, body) = answer.split_once('\n').expect("a line");
    let length: usize = head.strip_prefix("ok ").expect(head).parse().unwrap();
    assert_eq!(body.len(), length);
    body
}

const THREAD: &str = "ramie-inspect";

#[test]
fn a_dump_is_answered_as_text_and_as_json() {
    if !is_child() {
        alone("a_dump_is_answered_as_text_and_as_json", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            fiber::Builder::new()
                .name("sleeper".to_owned())
                .spawn_scoped(s, || event.wait().unwrap())
                .unwrap();
            fiber::yield_now();
            let answer = ask(b"dump text\n");
            let text = body(&answer);
            let line = text.lines().find(|line| line.contains("fiber 'sleeper'")).expect(text);
            assert!(line.contains(" waits for an Event"), "{text}");
            assert!(text.contains("worker 0"), "{text}");
            let answer = ask(b"dump json\n");
            let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
            let strands = json["strands"].as_array().unwrap();
            let sleeper =
                strands.iter().find(|strand| strand["name"] == "sleeper").expect("sleeper");
            assert!(sleeper["backtrace"].is_null(), "{json}");
            if !cfg!(all(feature = "backtrace", target_arch = "x86_64")) {
                let refusal = ask(b"dump text backtraces\n");
                assert!(refusal.starts_with("error this program makes no backtraces"), "{refusal}");
                event.set();
                return;
            }
            let answer = ask(b"dump text backtraces\n");
            let text = body(&answer);
            assert!(text.contains("ramie::sync::event::Event::wait"), "{text}");
            let answer = ask(b"dump json backtraces\n");
            let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
            let strands = json["strands"].as_array().unwrap();
            let sleeper =
                strands.iter().find(|strand| strand["name"] == "sleeper").expect("sleeper");
            let frames = sleeper["backtrace"].as_array().unwrap();
            let functions: Vec<_> = frames.iter().filter_map(|f| f["function"].as_str()).collect();
            assert!(functions.contains(&"ramie::sync::event::Event::wait"), "{functions:?}");
            event.set();
        });
    });
}

#[test]
fn a_dump_by_name_is_answered_as_text_and_as_json() {
    if !is_child() {
        alone("a_dump_by_name_is_answered_as_text_and_as_json", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            for name in ["client 1 of 2", "client 2 of 2", "backtraces"] {
                let builder = fiber::Builder::new().name(name.to_owned());
                builder.spawn_scoped(s, || event.wait().unwrap()).unwrap();
            }
            fiber::yield_now();
            let answer = ask(b"dump text name client 1 of\n");
            let text = body(&answer);
            let has = |name: &str| text.contains(&format!("fiber '{name}'"));
            assert!(has("client 1 of 2") && has("main") && !has("client 2 of 2"), "{text}");
            let names_of = |answer: &str| {
                let json: serde_json::Value = serde_json::from_str(body(answer)).unwrap();
                let strands = json["strands"].as_array().unwrap();
                let names = strands.iter().filter_map(|strand| strand["name"].as_str());
                let mut names: Vec<_> = names.map(str::to_owned).collect();
                names.sort();
                names
            };
            assert_eq!(names_of(&ask(b"dump json name backtraces\n")), ["backtraces", "main"]);
            if cfg!(all(feature = "backtrace", target_arch = "x86_64")) {
                let both = ask(b"dump json backtraces name backtraces\n");
                assert_eq!(names_of(&both), ["backtraces", "main"]);
            }
            event.set();
        });
    });
}

#[test]
fn a_summary_and_one_strand_are_answered_as_text_and_as_json() {
    if !is_child() {
        alone("a_summary_and_one_strand_are_answered_as_text_and_as_json", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            let sleeper = fiber::Builder::new()
                .name("sleeper".to_owned())
                .spawn_scoped(s, || event.wait().unwrap())
                .unwrap();
            fiber::yield_now();
            let answer = ask(b"summary text\n");
            let text = body(&answer);
            assert!(text.contains("fiber 'sleeper'") && text.contains("worker 0"), "{text}");
            let answer = ask(b"summary json\n");
            let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
            let slowest = json["slowest"].as_array().unwrap();
            let found = slowest.iter().find(|strand| strand["name"] == "sleeper").expect("sleeper");
            let id = found["id"].as_str().unwrap();
            assert_eq!(id, sleeper.fiber().id().to_string());
            let request = |form: &str| format!("strand {form} {id}\n").leak().as_bytes();
            let answer = ask(request("text"));
            let text = body(&answer);
            assert!(text.contains("fiber 'sleeper'") && !text.contains("'main'"), "{text}");
            let answer = ask(request("json"));
            let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
            assert_eq!(json["strands"].as_array().unwrap().len(), 1);
            let has_calls = cfg!(all(feature = "backtrace", target_arch = "x86_64"));
            assert_eq!(json["strands"][0]["backtrace"].is_array(), has_calls, "{json}");
            event.set();
            sleeper.join().unwrap();
            // Its header may have another strand by now, which must not be taken for it.
            assert!(ask(request("json")).starts_with("error there is no such strand"));
        });
    });
}

#[test]
fn runtimes_share_a_socket_until_the_last_one_ends() {
    if !is_child() {
        alone("runtimes_share_a_socket_until_the_last_one_ends", &[]);
        return;
    }
    let (begun, has_begun) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        inspected().build().unwrap().run(|| {
            begun.send(own_socket()).unwrap();
            ramie::blocking(move || ends.recv()).unwrap();
        });
    });
    let path = has_begun.recv().unwrap();
    assert_eq!(path, session().join(format!("ramie/{}.sock", std::process::id())));
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    inspected().build().unwrap().run(|| {
        assert_eq!(own_socket(), path);
        let text = ask(b"dump text\n");
        assert_eq!(text.matches("\nworker 0").count(), 2, "{text}");
    });
    // A runtime that has not asked for it changes nothing.
    Runtime::builder().workers(1).inspect(false).build().unwrap().run(|| ());
    assert!(ask_at(&path, b"dump text\n").unwrap().starts_with("ok "));
    assert!(has_thread(THREAD));
    end.send(()).unwrap();
    other.join().unwrap();
    assert!(!path.exists() && inspect::socket_path().is_none());
    wait_until(|| !has_thread(THREAD));
    // And again.
    inspected().build().unwrap().run(|| assert_eq!(own_socket(), path));
    assert!(!path.exists());
}

#[test]
fn a_panic_of_the_closure_closes_the_socket() {
    if !is_child() {
        alone("a_panic_of_the_closure_closes_the_socket", &[]);
        return;
    }
    let runtime = inspected().build().unwrap();
    let mut path = PathBuf::new();
    let text = panic_text(|| {
        runtime.run(|| {
            path = own_socket();
            panic!("on purpose");
        })
    });
    assert_eq!(text, "on purpose");
    assert!(!path.exists() && path.parent().unwrap().exists());
    wait_until(|| !has_thread(THREAD));
}

#[test]
fn nothing_is_opened_unless_asked_for() {
    if !is_child() {
        for value in ["", "0", " 0 "] {
            alone("nothing_is_opened_unless_asked_for", &[("RAMIE_INSPECT", value)]);
        }
        return;
    }
    let measured = |inspect: Option<bool>| {
        let builder = Runtime::builder().workers(1);
        let builder = match inspect {
            Some(inspect) => builder.inspect(inspect),
            None => builder,
        };
        // A thread that has ended may stay in the table for a moment.
        wait_until(|| !has_thread("ramie-watchdog") && !has_thread(THREAD));
        builder.build().unwrap().run(|| (threads(), descriptors()))
    };
    // The first runtime may leave something that the process has once.
    measured(None);
    let usual = measured(None);
    assert_eq!(measured(Some(false)), usual);
    assert!(!session().join("ramie").exists());
    let (threads, descriptors) = measured(Some(true));
    assert_eq!(threads, usual.0 + 1);
    // The listener; the descriptor that accept(2) reserves is not in the table yet.
    assert_eq!(descriptors, usual.1 + 1);
}

#[test]
fn the_variable_opens_the_socket_unless_the_builder_decides() {
    if !is_child() {
        let name = "the_variable_opens_the_socket_unless_the_builder_decides";
        alone(name, &[("RAMIE_INSPECT", "1")]);
        return;
    }
    ramie::run(|| assert!(own_socket().exists()));
    let threads = Runtime::builder().strands(ramie::Strands::Threads).build().unwrap();
    threads.run(|| assert!(own_socket().exists()));
    let without = Runtime::builder().inspect(false).build().unwrap();
    without.run(|| assert!(inspect::socket_path().is_none()));
}

#[test]
fn another_user_is_refused() {
    if !is_child() {
        alone("another_user_is_refused", &[]);
        return;
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skipped("only root can become another user");
    }
    inspected().build().unwrap().run(|| {
        let path = own_socket();
        let as_nobody = |request: &'static [u8]| {
            let path = path.clone();
            let ask = move || {
                // The system call itself changes only this thread.
                // SAFETY: the call has no pointers.
                let done = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
                assert_eq!(done, 0);
                ask_at(&path, request)
            };
            ramie::blocking(|| thread::spawn(ask).join().unwrap())
        };
        let error = as_nobody(b"dump text\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        // Also if the permissions allow it.
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
        path.ancestors().take(3).for_each(|path| open(path).unwrap());
        for request in [&b"dump text\n"[..], b"trace 1\n"] {
            let answer = as_nobody(request).unwrap();
            assert_eq!(answer, "error this process belongs to another user\n");
        }
        assert!(ask(b"dump text\n").starts_with("ok "));
    });
}

#[test]
fn garbage_is_refused() {
    if !is_child() {
        alone("garbage_is_refused", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        let long: &'static [u8] = vec![b'x'; 1 << 20].leak();
        let requests: [&[u8]; 22] = [
            b"\n",
            b"dump\n",
            b"dump xml\n",
            b"metrics text\n",
            b"dump text \n",
            b"dump text backtrace\n",
            b"dump backtraces\n",
            b"DUMP TEXT\n",
            b"\xff\xfe\0\n",
            b"dump text\r\n",
            b"summary\n",
            b"summary text json\n",
            b"strand\n",
            b"trace\n",
            b"trace \n",
            b"trace 0\n",
            b"trace 01\n",
            b"trace -1\n",
            b"trace 601\n",
            b"trace 1 1\n",
            b"trace 99999999999999999999\n",
            long,
        ];
        for request in requests {
            let answer = ask(request);
            let expected = "error unknown request; expected dump text, dump json (each may be \
                            followed by backtraces, and then by name TEXT), summary text, \
                            summary json, strand text ID, strand json ID, metrics or trace SECONDS \
                            (1 to 600)\n";
            assert_eq!(answer, expected);
        }
        for request in [&b"strand xml 1.1\n"[..], b"strand text\n", b"strand text \n"] {
            assert!(ask(request).starts_with("error there is no such strand"));
        }
        for id in ["x", "1", "1.", ".1", "0.1", "1.0", "4294967295.1", "1.4294967295", "-1.-1"] {
            let request = format!("strand json {id}\n").leak().as_bytes();
            assert!(ask(request).starts_with("error there is no such strand"), "{id}");
        }
        // A request that ends too early is none.
        let path = own_socket();
        for part in [&b""[..], b"dump", b"dump text"] {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(part).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let answer = ramie::blocking(|| stream.read_to_end(&mut Vec::new()).unwrap());
            assert_eq!(answer, 0);
        }
        // A client that sends nothing makes the next one wait, but not for ever.
        let _silent = UnixStream::connect(&path).unwrap();
        assert!(ask(b"dump text\n").starts_with("ok "));
    });
}

/// Fibers whose dump does not fit into the buffers of a socket.
fn many<'a>(s: &'a fiber::Scope<'a, '_>, event: &'a Event) {
    for _ in 0..10_000 {
        s.spawn(move || event.wait().unwrap());
    }
    while ramie::metrics::metrics().unstarted() > 0 {
        fiber::yield_now();
    }
}

/// Asks for a dump, and waits for the beginning of the answer.
fn begin() -> UnixStream {
    let path = own_socket();
    ramie::blocking(|| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(b"dump text\n").unwrap();
        stream.read_exact(&mut [0; 3]).unwrap();
        stream
    })
}

#[test]
fn a_client_that_stops_to_read_is_disconnected() {
    if !is_child() {
        alone("a_client_that_stops_to_read_is_disconnected", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            many(s, &event);
            let mut stalled = begin();
            let answer = ask(b"dump text\n");
            assert!(body(&answer).len() > 1_000_000);
            let read = ramie::blocking(|| stalled.read_to_end(&mut Vec::new()).unwrap());
            assert!(read < body(&answer).len() / 2, "{read}: it was cut off");
            event.set();
        });
    });
}

#[test]
fn a_client_that_stops_to_read_does_not_delay_the_end() {
    if !is_child() {
        alone("a_client_that_stops_to_read_does_not_delay_the_end", &[]);
        return;
    }
    let stalled = inspected().build().unwrap().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            many(s, &event);
            let stalled = begin();
            event.set();
            (stalled, Instant::now())
        })
    });
    let (mut stream, since) = stalled;
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert!(stream.read_to_end(&mut Vec::new()).unwrap() < 1_000_000);
}

#[test]
fn a_dump_that_waits_for_a_worker_does_not_delay_the_end() {
    if !is_child() {
        alone("a_dump_that_waits_for_a_worker_does_not_delay_the_end", &[]);
        return;
    }
    let (is_over, runs) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|threads| {
        // It does not suspend, so its worker does not answer.
        let (is_over, runs) = (&is_over, &runs);
        let hog = || {
            runs.store(true, Ordering::SeqCst);
            while !is_over.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        };
        let other = threads.spawn(move || {
            let builder = Runtime::builder().workers(1).stall_limit(None);
            builder.build().unwrap().run(hog);
        });
        while !runs.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let (mut stream, since) = inspected().build().unwrap().run(|| {
            let mut stream = UnixStream::connect(own_socket()).unwrap();
            stream.write_all(b"dump text\n").unwrap();
            // Long enough for the question to be asked, usually; the end must not wait in any case.
            fiber::sleep(Duration::from_millis(100));
            (stream, Instant::now())
        });
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(answer, "");
        is_over.store(true, Ordering::SeqCst);
        other.join().unwrap();
    });
}

#[test]
fn a_process_whose_workers_hang_in_a_lock_of_std_is_dumped() {
    if !is_child() {
        alone("a_process_whose_workers_hang_in_a_lock_of_std_is_dumped", &[]);
        return;
    }
    let _limit = Limit::of_this_test();
    let (lock, waiting) = (Mutex::new(()), AtomicUsize::new(0));
    let guard = lock.lock().unwrap();
    thread::scope(|threads| {
        let (begun, has_begun) = mpsc::channel();
        let (lock, waiting) = (&lock, &waiting);
        let hangs = threads.spawn(move || {
            let runtime = inspected().workers(2).stall_limit(None).build().unwrap();
            runtime.run(|| {
                begun.send(own_socket()).unwrap();
                fiber::on_each_worker(|_| {
                    waiting.fetch_add(1, Ordering::SeqCst);
                    drop(lock.lock().unwrap());
                });
            });
        });
        let path = has_begun.recv().unwrap();
        while waiting.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
        let answer = ask_at(&path, b"dump text\n").unwrap();
        let silent = body(&answer).matches("did not answer").count();
        assert_eq!(silent, 2, "{answer}");
        drop(guard);
        hangs.join().unwrap();
    });
}

#[test]
fn sockets_of_processes_that_crashed_are_replaced() {
    if !is_child() {
        alone("sockets_of_processes_that_crashed_are_replaced", &[]);
        return;
    }
    let folder = session().join("ramie");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let own = folder.join(format!("{}.sock", std::process::id()));
    // No process has this id: the most is 4194304. A file of another name is not touched.
    let (dead, other) = (folder.join("4194305.sock"), folder.join("notes"));
    drop(UnixListener::bind(&own).unwrap());
    drop(UnixListener::bind(&dead).unwrap());
    drop(UnixListener::bind(&other).unwrap());
    inspected().build().unwrap().run(|| {
        assert_eq!(own_socket(), own);
        assert!(ask(b"dump text\n").starts_with("ok "));
        assert!(!dead.exists() && other.exists());
    });
    assert!(!own.exists());
}

#[test]
fn a_directory_that_others_may_use_is_refused() {
    if is_child() {
        if env::var_os("RAMIE_TEST_FOREIGN").is_some() {
            chown(session().join("ramie"), Some(65534), None).unwrap();
        }
        inspected().build().unwrap().run(|| assert_eq!(inspect::socket_path(), None));
        return;
    }
    let name = "a_directory_that_others_may_use_is_refused";
    let refused = |make: &dyn Fn(&Path), foreign: &[(&str, &str)], why: &[&str]| {
        let folder = Folder::new();
        make(&folder.0.join("ramie"));
        let variables = [("XDG_RUNTIME_DIR", folder.0.to_str().unwrap())];
        let output = child_with("true", name, &[&variables[..], foreign].concat());
        assert_success(&output);
        let text = stderr(&output);
        assert!(text.contains("no `ramie dump` of this process: "), "{text}");
        why.iter().for_each(|part| assert!(text.contains(part), "no {part:?} in {text}"));
    };
    let open = |path: &Path| {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    refused(&open, &[], &["is open to other users", "chmod 700"]);
    let linked = |path: &Path| symlink("/tmp", path).unwrap();
    refused(&linked, &[], &["is not a directory", "remove it"]);
    refused(&|path: &Path| fs::write(path, "").unwrap(), &[], &["is not a directory"]);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        return skipped("only root can give a directory away");
    }
    let own = |path: &Path| fs::create_dir(path).unwrap();
    refused(&own, &[("RAMIE_TEST_FOREIGN", "1")], &["belongs to another user"]);
}

#[test]
fn a_path_that_is_too_long_is_refused_with_a_remedy() {
    if is_child() {
        inspected().build().unwrap().run(|| assert_eq!(inspect::socket_path(), None));
        return;
    }
    let folder = Folder::new();
    let deep = folder.0.join("x".repeat(100));
    fs::create_dir(&deep).unwrap();
    let name = "a_path_that_is_too_long_is_refused_with_a_remedy";
    let output = child_with("true", name, &[("XDG_RUNTIME_DIR", deep.to_str().unwrap())]);
    assert_success(&output);
    assert!(stderr(&output).contains("with a short path"), "{}", stderr(&output));
}
