//! Processes under a supervisor: how it reacts to each way to end and to signals, and that
//! connections survive.

use crate::common::{self, CLOSE_INHERITED};
use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::{
        Once,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// `cargo test` builds the examples beside its test programs; `cargo test --test` does not, and
/// leaves old ones there.
fn program(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let test = env::current_exe().expect("a test is a program");
    let profile = test.ancestors().nth(2).expect("target/profile/deps/test");
    let examples = profile.join("examples");
    BUILD.call_once(|| {
        if ["prefork", "prefork_scenes"].iter().all(|name| is_up_to_date(&examples.join(name))) {
            return;
        }
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", "ramie", "--examples"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        // For tests that were built for an explicit target, or in another folder.
        let above = profile.parent().expect("target");
        let triple =
            above.file_name().and_then(|name| name.to_str()).filter(|n| n.contains("-linux-"));
        build.args(triple.map(|triple| format!("--target={triple}")));
        let target = if triple.is_some() { above.parent().expect("target") } else { above };
        build.arg("--target-dir").arg(target);
        assert!(build.status().expect("cargo runs").success(), "the examples build");
    });
    examples.join(name)
}

/// Whether a program is newer than all of its sources, which cargo lists.
fn is_up_to_date(program: &Path) -> bool {
    let time_of = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let (Some(made), Ok(rule)) =
        (time_of(program), fs::read_to_string(program.with_extension("d")))
    else {
        return false;
    };
    let sources = rule.split_once(": ").map_or("", |(_, sources)| sources);
    let is_older = |source: &str| time_of(Path::new(source)).is_some_and(|time| time <= made);
    sources.split_whitespace().all(is_older)
}

/// Runs a scene that ends by itself.
fn play(scene: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program("prefork_scenes")).arg(scene).stdin(Stdio::null());
    command.output().expect("timeout is there")
}

fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status();
    assert!(sent.expect("kill is there").success(), "{id} has ended already");
}

/// Stops a process. Until it has stopped, the kernel may deliver a SIGTERM that came later first.
fn stop(id: u32) {
    signal(id, "STOP");
    wait_until(|| status_of(id, "State").starts_with('T'));
}

/// A supervisor that is killed at the end of its test, or when the test takes too long; its
/// processes end with it.
struct Supervisor {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// Closed at the end of the test.
    _test: mpsc::Sender<()>,
}

const LIMIT: Duration = Duration::from_secs(90);

impl Supervisor {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program is built");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let (_test, end) = mpsc::channel();
        let id = child.id();
        thread::spawn(move || {
            if end.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the supervisor is killed, since its test has hung for {LIMIT:?}");
                signal(id, "KILL");
            }
        });
        Supervisor { child, lines, _test }
    }

    fn scene(scene: &str) -> Self {
        let mut command = Command::new(program("prefork_scenes"));
        command.arg(scene);
        Self::start(command)
    }

    /// The same, in a process that inherits signals in the state that `env` sets.
    fn scene_under(env: &str, scene: &str) -> Self {
        let mut command = Command::new("env");
        command.args(env.split(' ')).arg(program("prefork_scenes")).arg(scene);
        Self::start(command)
    }

    /// Reads the pause of "... it is started again in PAUSE".
    fn pause(&mut self) -> String {
        let line = self.line();
        let pause = line.split_once("started again in ").map(|(_, pause)| pause);
        pause.unwrap_or_else(|| panic!("no pause in {line}")).to_owned()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_start_matches("begin; ").trim().to_owned()
    }

    /// Reads a process's "INDEX LIFE ID is up".
    fn up(&mut self) -> (u32, u32, u32) {
        let line = self.line();
        let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(line.ends_with("is up") && numbers.len() == 3, "{line}");
        (numbers[0], numbers[1], numbers[2])
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("our own child")
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "what had to come has not come");
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_alive(id: u32) -> bool {
    // A process that ended and was not waited for by init yet is not alive.
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn each_kind_of_end_is_reported_and_failures_start_again() {
    let output = play("codes");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", common::stderr(&output));
    assert_eq!(said.matches("begin; ").count(), 1, "what was in the buffer came twice: {said}");
    for end in [
        "process 0 (id #) has ended (exit status: 0); it is done",
        "process 1 (id #) has ended (exit status: 7); it is started again in 1ms",
        "process 2 (id #) has ended (exit status: 1); it is started again in 1ms",
        "process 3 (id #) has ended (exit status: 101); it is started again in 1ms",
        "process 4 (id #) has ended (exit status: 9); it is started again in 1ms",
        "process 5 (id #) has ended (signal: 6 (SIGABRT)",
        "process 5 (id #) has ended (exit status: 0); it is done",
        "process 6 (id #) has ended (exit status: 101); it is started again in 1ms",
    ] {
        let (before, after) = end.split_once('#').expect("the place of the id");
        let is_it = |line: &str| line.contains(before) && line.contains(after);
        assert!(said.lines().any(is_it), "{end} is not in {said}");
    }
    assert_eq!(said.lines().count(), 13, "{said}");
    let complaints = common::stderr(&output);
    assert!(complaints.contains("Error: \"not yet\""), "{complaints}");
    assert!(complaints.contains("this is one"), "{complaints}");
}

#[test]
fn pauses_grow_and_the_limit_ends_all() {
    let output = play("limit");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let pauses = said.lines().filter_map(|line| line.split_once("started again in "));
    let pauses: Vec<_> = pauses.map(|(_, pause)| pause).collect();
    // After a life longer than the longest pause, here 4 ms, the pauses begin anew.
    assert_eq!(pauses.len(), 5, "{said}");
    assert!(pauses[0] == "1ms" && pauses.iter().all(|pause| ["1ms", "2ms", "4ms"].contains(pause)));
    assert!(said.contains("process 0 ") && said.contains(", as it was asked to"), "{said}");
    let complaint = common::stderr(&output);
    assert!(complaint.contains("that exceeds the limit of ends"), "{complaint}");
}

/// Pauses double up to the longest, and begin anew after a life longer than that.
#[test]
fn pauses_begin_anew_after_a_long_life() {
    let mut supervisor = Supervisor::scene("recovers");
    let pauses: Vec<_> = (0..5).map(|_| supervisor.pause()).collect();
    assert_eq!(pauses, ["1ms", "2ms", "4ms", "1ms", "2ms"]);
    assert!(supervisor.line().ends_with("it is done"));
    assert_eq!(supervisor.end().code(), Some(0));
}

/// SIGHUP may mean that a missing file exists now, so it ends pauses, and earlier failures do not
/// lengthen later ones.
#[test]
fn sighup_ends_pauses_and_lets_them_begin_anew() {
    let mut supervisor = Supervisor::scene("fails");
    let pauses: Vec<_> = (0..5).map(|_| supervisor.pause()).collect();
    assert_eq!(pauses, ["100ms", "200ms", "400ms", "800ms", "1.6s"]);
    let start = Instant::now();
    supervisor.signal("HUP");
    assert_eq!(supervisor.pause(), "100ms");
    assert!(start.elapsed() < Duration::from_millis(1600), "the pause went on");
}

#[test]
fn failures_count_within_their_time_only() {
    let output = play("slow");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", common::stderr(&output));
    assert_eq!(said.matches("started again").count(), 7, "{said}");
}

#[test]
fn a_successor_takes_the_place_of_one_that_fails() {
    let mut supervisor = Supervisor::scene("succeeded");
    let first = supervisor.up();
    supervisor.signal("HUP");
    // Two processes, which write to one pipe.
    let mut lines = [supervisor.line(), supervisor.line()];
    lines.sort_by_key(|line| line.ends_with("is up"));
    let of_first = format!("(id {})", first.2);
    assert!(lines[0].contains(&of_first), "{lines:?}");
    assert!(lines[0].ends_with("its successor continues"), "{lines:?}");
    assert!(lines[1].starts_with("0 1 "), "{lines:?}");
    supervisor.signal("TERM");
    let line = supervisor.line();
    assert!(line.contains("as it was asked to"), "no other process was started: {line}");
    assert_eq!(supervisor.end().code(), Some(0));
}

/// A second SIGHUP also replaces successors that have just started, because the file that they read
/// may have changed since.
#[test]
fn a_second_sighup_replaces_the_successors_of_the_first() {
    let mut supervisor = Supervisor::scene("renewed");
    let first = supervisor.up();
    supervisor.signal("HUP");
    let second = supervisor.up();
    assert_eq!(second.1, 1);
    let (ends, ups): (Vec<_>, Vec<_>) =
        (0..3).map(|_| supervisor.line()).partition(|line| line.contains("has ended"));
    assert!(ups.len() == 1 && ups[0].starts_with("0 2 "), "{ups:?}");
    // A successor that stayed would take the place of its own successor when it is a second old.
    for id in [first.2, second.2] {
        let is_end = |line: &String| line.contains(&format!("(id {id})"));
        let end = ends.iter().find(|line| is_end(line));
        assert!(end.is_some_and(|line| line.ends_with("as it was asked to")), "{id}: {ends:?}");
    }
    supervisor.signal("TERM");
    assert!(supervisor.line().ends_with("as it was asked to"));
    assert_eq!(supervisor.end().code(), Some(0));
}

/// The state that a process inherits through exec: signals that are ignored, or blocked.
#[test]
fn inherited_signal_states_have_no_effect() {
    for env in ["--ignore-signal=CHLD", "--block-signal=CHLD"] {
        let mut supervisor = Supervisor::scene_under(env, "recovers");
        for pause in ["1ms", "2ms", "4ms"] {
            let line = supervisor.line();
            let end = format!("(exit status: 7); it is started again in {pause}");
            assert!(line.ends_with(&end), "{env}: {line}");
        }
    }
    let all = "--ignore-signal=TERM,INT,HUP,CHLD --block-signal=TERM,INT,HUP,CHLD";
    for env in ["--ignore-signal=TERM", "--block-signal=TERM", all] {
        let mut supervisor = Supervisor::scene_under(env, "sleepers");
        let processes = [supervisor.up(), supervisor.up()];
        supervisor.signal("TERM");
        for _ in processes {
            let line = supervisor.line();
            assert!(line.contains("signal: 15 (SIGTERM)), as it was asked to"), "{env}: {line}");
        }
        assert_eq!(supervisor.end().code(), Some(0), "{env}");
    }
}

/// The supervisor does not give up a service because its processes are killed, or because another
/// program asks one of them to end.
#[test]
fn a_service_outlives_its_processes() {
    let mut supervisor = Supervisor::scene("servers");
    let mut ids = vec![supervisor.up().2, supervisor.up().2];
    for round in 0..16 {
        signal(ids.remove(0), if round % 4 == 0 { "TERM" } else { "KILL" });
        assert!(["1ms", "2ms", "4ms"].contains(&&*supervisor.pause()));
        ids.push(supervisor.up().2);
    }
    supervisor.signal("TERM");
    assert!((0..2).all(|_| supervisor.line().ends_with("as it was asked to")));
    assert_eq!(supervisor.end().code(), Some(0));
}

#[test]
fn a_service_that_never_begins_is_given_up() {
    let output = play("never ready");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("it is started again in").count(), 3, "{said}");
    let complaint = common::stderr(&output);
    assert!(complaint.contains("before any reported that it is ready"), "{complaint}");
}

#[test]
fn a_fork_that_is_impossible_fails_with_reason_and_remedy() {
    for (scene, why) in [
        ("thread", "it has 2 threads"),
        ("fiber", "is a strand of Ramie already"),
        ("ring", "it has made a ring or an epoll set"),
        ("none", "0 processes"),
    ] {
        let output = play(scene);
        let complaint = common::stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(why), "{scene}: {complaint}");
        let cure = if scene == "none" { "at least 1" } else { "first thing in main" };
        assert!(complaint.contains(cure), "{scene}: {complaint}");
    }
}

#[test]
fn processes_die_with_their_supervisor() {
    let mut supervisor = Supervisor::scene("sleepers");
    let (one, other) = (supervisor.up(), supervisor.up());
    assert_eq!(BTreeSet::from([one.0, other.0]), BTreeSet::from([0, 1]));
    assert!(is_alive(one.2) && is_alive(other.2));
    supervisor.signal("KILL");
    supervisor.end();
    wait_until(|| !is_alive(one.2) && !is_alive(other.2));
}

#[test]
fn a_request_to_end_is_passed_on_and_waited_for() {
    for name in ["TERM", "INT"] {
        let mut supervisor = Supervisor::scene("sleepers");
        let processes = [supervisor.up(), supervisor.up()];
        supervisor.signal(name);
        for _ in 0..2 {
            let line = supervisor.line();
            assert!(line.contains("signal: 15 (SIGTERM)), as it was asked to"), "{line}");
        }
        assert_eq!(supervisor.end().code(), Some(0), "{name}");
        assert!(processes.iter().all(|process| !is_alive(process.2)));
    }
}

#[test]
fn a_panic_of_on_end_is_resumed_when_all_have_ended() {
    let output = play("panics");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}: {}", output.status, common::stderr(&output));
    assert!(told.contains("still there: false"), "{told}");
}

#[test]
fn a_process_that_does_not_end_in_time_is_killed() {
    let mut supervisor = Supervisor::scene("stubborn");
    let process = supervisor.up();
    supervisor.signal("TERM");
    let line = supervisor.line();
    assert!(line.contains("signal: 9 (SIGKILL)): it was asked to end, and did not"), "{line}");
    assert_eq!(supervisor.end().code(), Some(1));
    assert!(!is_alive(process.2));
}

#[test]
fn a_second_request_to_end_kills_at_once() {
    let mut supervisor = Supervisor::scene("sleepers");
    let processes = [supervisor.up(), supervisor.up()];
    // Stopped, they cannot end when they are asked to.
    processes.iter().for_each(|process| stop(process.2));
    supervisor.signal("TERM");
    supervisor.signal("INT");
    // The supervisor may see the two signals together; SIGKILL ends stopped processes, too.
    let start = Instant::now();
    while supervisor.child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(20), "not before its grace was over");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(processes.iter().all(|process| !is_alive(process.2)));
}

/// As `timeout` sends it. The second signal counts as a repetition for 200 ms after the first, so
/// only an attempt in which the supervisor has acted on both in that time shows anything.
#[test]
fn the_same_signal_twice_is_one_request_to_end() {
    let start = Instant::now();
    while !is_asked_twice_in_time() {
        assert!(start.elapsed() < Duration::from_secs(60), "no attempt took less than 200 ms");
    }
}

fn is_asked_twice_in_time() -> bool {
    let mut supervisor = Supervisor::scene("sleepers");
    let processes = [supervisor.up(), supervisor.up()];
    // The processes end when they continue, unless they were killed.
    processes.iter().for_each(|process| stop(process.2));
    let id = supervisor.child.id();
    let first = Instant::now();
    ask_to_end(id);
    let is_late = || first.elapsed() >= Duration::from_millis(200);
    // The signals would merge if the supervisor had not taken the first one.
    wait_until(|| processes.iter().all(|process| is_to_end(process.2)));
    ask_to_end(id);
    // It sleeps again when it has acted on the second one. If that comes late, all of them end.
    wait_until(|| is_late() || (!is_to_end(id) && status_of(id, "State").starts_with('S')));
    if is_late() {
        return false;
    }
    processes.iter().for_each(|process| signal(process.2, "CONT"));
    for _ in processes {
        let line = supervisor.line();
        assert!(line.contains("as it was asked to"), "{line}");
    }
    assert_eq!(supervisor.end().code(), Some(0));
    true
}

/// Sends SIGTERM without the time that the start of kill(1) takes.
fn ask_to_end(id: u32) {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).expect("the id of a process");
    kill_process(id, Signal::TERM).expect("it has not ended");
}

/// Whether SIGTERM has come to the process, which has not taken it yet.
fn is_to_end(id: u32) -> bool {
    let signals = u64::from_str_radix(&status_of(id, "ShdPnd"), 16).expect("a set of signals");
    signals & 1 << (Signal::TERM.as_raw() - 1) != 0
}

fn status_of(id: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it has not ended");
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    value.expect("the kernel reports it").to_owned()
}

#[test]
fn a_successor_that_fails_leaves_the_one_before_in_place() {
    let mut supervisor = Supervisor::scene("unlucky");
    let first = supervisor.up();
    for life in 1..4 {
        supervisor.signal("HUP");
        let successor = supervisor.up();
        assert_eq!((successor.0, successor.1), (0, life));
        let line = supervisor.line();
        assert!(line.contains("before it was ready; the process before it continues"), "{line}");
        assert!(is_alive(first.2));
    }
    supervisor.signal("TERM");
    assert!(supervisor.line().contains(&format!("id {}", first.2)));
    assert_eq!(supervisor.end().code(), Some(0));
}

/// The process before a successor may end by itself, well; then nothing stays but the successor.
#[test]
fn a_successor_takes_the_place_of_one_that_is_done() {
    let mut supervisor = Supervisor::scene("done");
    let first = supervisor.up();
    supervisor.signal("HUP");
    let line = supervisor.line();
    assert!(line.contains(&format!("(id {})", first.2)), "{line}");
    assert!(line.ends_with("(exit status: 0); its successor continues"), "{line}");
    let line = supervisor.line();
    assert!(line.contains("(exit status: 9); it is started again in "), "{line}");
    assert!(supervisor.line().ends_with("(exit status: 0); it is done"));
    assert_eq!(supervisor.end().code(), Some(0));
}

/// The kernel forgets that a process is to die with its parent when the process changes its user.
#[test]
fn processes_that_changed_their_user_die_with_their_supervisor() {
    if !rustix::process::geteuid().is_root() {
        return common::skipped("only root may change its user");
    }
    let mut supervisor = Supervisor::scene("demoted");
    let processes = [supervisor.up().2, supervisor.up().2];
    supervisor.signal("KILL");
    supervisor.end();
    let start = Instant::now();
    while processes.iter().any(|id| is_alive(*id)) && start.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(1));
    }
    // A process that is left behind would keep stderr open, and so the lane from ending.
    let left: Vec<_> = processes.into_iter().filter(|id| is_alive(*id)).collect();
    left.iter().for_each(|id| signal(*id, "KILL"));
    assert!(left.is_empty(), "{left:?} live without their supervisor");
}

/// No instant is that far off, so the supervisor waits for ever.
#[test]
fn durations_without_end_mean_never() {
    let mut supervisor = Supervisor::scene("endless grace");
    supervisor.up();
    supervisor.signal("TERM");
    assert!(supervisor.line().ends_with("as it was asked to"));
    assert_eq!(supervisor.end().code(), Some(0));

    let mut supervisor = Supervisor::scene("endless pause");
    assert!(supervisor.pause().starts_with("18446744073709551615."));
    supervisor.signal("HUP");
    assert!(supervisor.pause().starts_with("18446744073709551615."), "SIGHUP ends a pause");
    supervisor.signal("TERM");
    assert!(supervisor.line().contains("process 1 "));
    assert_eq!(supervisor.end().code(), Some(0));
}

#[test]
fn too_few_descriptors_for_a_process_have_a_remedy() {
    for limit in 4..=6 {
        let mut command = Command::new("bash");
        // An inherited descriptor would leave the program too few to load its libraries.
        let script = format!("{CLOSE_INHERITED}; ulimit -n {limit}; exec \"$0\" codes");
        command.args(["-c", &script]);
        let output = command.arg(program("prefork_scenes")).output().expect("bash is there");
        let complaint = common::stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{limit}: {complaint}");
        assert!(complaint.contains("be forked, since "), "{limit}: {complaint}");
        assert!(complaint.contains("`ulimit -n`"), "{limit}: {complaint}");
    }
}

/// The example under load: clients that send one question on each connection, or several.
struct Load {
    address: String,
    is_over: AtomicBool,
    answered: AtomicUsize,
}

impl Load {
    fn new(address: String) -> Self {
        Load { address, is_over: AtomicBool::new(false), answered: AtomicUsize::new(0) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("no connection is refused");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option of any socket");
        stream
    }

    /// Opens connections and asks questions until it is stopped; every question must be answered.
    fn ask(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let mut stream = self.connect();
            for question in ["one", "two"] {
                let line = format!("{question}\n");
                stream.write_all(line.as_bytes()).expect("the kernel takes it");
                let mut answer = String::new();
                BufReader::new(&stream).read_line(&mut answer).expect("an answer");
                assert!(answer.starts_with(&format!("{question}, says process ")), "{answer:?}");
            }
            self.answered.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn wait_for_answers(&self, count: usize) {
        let before = self.answered.load(Ordering::SeqCst);
        wait_until(|| self.answered.load(Ordering::SeqCst) >= before + count);
    }

    /// Asks for the process that answers.
    fn name(&self) -> String {
        let mut stream = self.connect();
        stream.write_all(b"hello\n").expect("the kernel takes it");
        let mut answer = String::new();
        let _ = BufReader::new(&stream).read_line(&mut answer);
        answer.trim_start_matches("hello, says process ").trim().to_owned()
    }
}

fn example(driver: &str) -> (Supervisor, Load) {
    let mut command = Command::new(program("prefork"));
    command.arg("127.0.0.1:0").env("RAMIE_DRIVER", driver).stderr(Stdio::null());
    let mut supervisor = Supervisor::start(command);
    let address = supervisor.line().replace("listening on ", "");
    (supervisor, Load::new(address))
}

fn under_load(load: &Load, f: impl FnOnce()) {
    thread::scope(|s| {
        let clients: Vec<_> = (0..4).map(|_| s.spawn(|| load.ask())).collect();
        load.wait_for_answers(20);
        f();
        load.wait_for_answers(20);
        load.is_over.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().expect("each question is answered"));
    });
}

/// SIGHUP under load: no connection is refused, every question is answered, and afterwards none of
/// the processes from before is there.
#[test]
fn a_restart_loses_no_request() {
    for driver in ["auto", "poll"] {
        let (mut supervisor, load) = example(driver);
        under_load(&load, || {
            for _ in 0..3 {
                supervisor.signal("HUP");
                load.wait_for_answers(50);
            }
        });
        wait_until(|| load.name().split('.').nth(1).and_then(|life| life.parse().ok()) >= Some(1));
        supervisor.signal("TERM");
        assert_eq!(supervisor.end().code(), Some(0), "{driver}");
    }
}

/// A process that crashes takes its own connections along; no other question goes unanswered, and
/// no connection is refused.
#[test]
fn a_crash_ends_only_the_connections_of_its_process() {
    for driver in ["auto", "poll"] {
        let (mut supervisor, load) = example(driver);
        for _ in 0..6 {
            let mut stream = load.connect();
            stream.write_all(b"crash\n").expect("the kernel takes it");
            let mut rest = Vec::new();
            // End of stream or a reset, as the kernel likes it.
            let _ = stream.read_to_end(&mut rest);
            assert_eq!(rest, b"", "{driver}");
            for _ in 0..10 {
                assert!(load.name().contains('.'), "{driver}");
            }
        }
        let lives = |name: &str| name.split('.').nth(1).and_then(|life| life.parse::<u32>().ok());
        wait_until(|| lives(&load.name()) >= Some(1));
        supervisor.signal("TERM");
        assert_eq!(supervisor.end().code(), Some(0), "{driver}");
    }
}

/// A process inherits neither the supervisor's descriptor for signals nor its mask.
#[test]
fn a_process_inherits_no_signals_of_its_supervisor() {
    let mut supervisor = Supervisor::scene("sleepers");
    let process = supervisor.up();
    let proc = PathBuf::from(format!("/proc/{}", process.2));
    let status = std::fs::read_to_string(proc.join("status")).unwrap();
    let blocked = status.lines().find(|line| line.starts_with("SigBlk:")).unwrap();
    assert!(blocked.ends_with("0000000000000000"), "{blocked}");
    let targets = std::fs::read_dir(proc.join("fd")).unwrap();
    let targets = targets.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap());
    let signals = Path::new("anon_inode:[signalfd]");
    assert!(targets.into_iter().all(|target| target != signals));
}
