//! Children: pipes, exit statuses, and results compared with those of std.

use std::{
    fmt::Debug,
    io::{self, Read, Write},
    process as theirs,
    time::{Duration, Instant},
};

use crate::common;
use ramie::{
    fiber,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, Stdio, is_subreaper, set_subreaper},
    ring::{self, Pid, WaitId, WaitIdOptions},
};

/// Runs `f` on each driver, and on a plain thread.
fn everywhere(f: impl Fn() + Send + Sync) {
    common::on_each(&[1, 2], |runtime| runtime.run(&f));
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[track_caller]
fn same<T: Debug>(theirs: io::Result<T>, ours: io::Result<T>) {
    let described = |result: io::Result<T>| match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}, {:?}", error.kind(), error.raw_os_error()),
    };
    assert_eq!(described(ours), described(theirs), "ours, then std's");
}

#[test]
fn exit_statuses_equal_those_of_std() {
    everywhere(|| {
        for script in ["exit 0", "exit 7", "kill -9 $$", "sleep 0.01; exit 3"] {
            let theirs = theirs::Command::new("sh").args(["-c", script]).status();
            same(theirs, shell(script).status());
        }
        assert_eq!(shell("kill -15 $$").status().unwrap().signal(), Some(15));
    });
}

/// If a process inherits an ignored SIGCHLD from its parent, the kernel keeps no exit status.
#[test]
fn exit_statuses_equal_those_of_std_if_sigchld_is_ignored() {
    let name = "exit_statuses_equal_those_of_std_if_sigchld_is_ignored";
    if !common::is_child() {
        let output = theirs::Command::new("timeout")
            .args(["60", "env", "--ignore-signal=CHLD", "RAMIE_TEST_CHILD=1"])
            .arg(std::env::current_exe().unwrap())
            .args([&*common::full_name(name), "--exact", "--nocapture"])
            .output();
        return common::assert_success(&output.unwrap());
    }
    everywhere(|| {
        for script in ["exit 0", "sleep 0.01; exit 3"] {
            let theirs = theirs::Command::new("sh").args(["-c", script]).status();
            assert_eq!(theirs.as_ref().unwrap_err().raw_os_error(), Some(libc::ECHILD));
            same(theirs, shell(script).status());
        }
    });
}

#[test]
fn errors_equal_those_of_std() {
    everywhere(|| {
        for program in
            ["/nowhere/at/all", "no-such-program-here", "/etc/passwd", "/etc", "a\0b", ""]
        {
            let theirs = theirs::Command::new(program).status();
            same(theirs, Command::new(program).status());
        }
        let theirs = theirs::Command::new("true").current_dir("/nowhere").status();
        same(theirs, Command::new("true").current_dir("/nowhere").status());
        let theirs = theirs::Command::new("true").env("a\0b", "").status();
        same(theirs, Command::new("true").env("a\0b", "").status());
    });
}

#[test]
fn both_outputs_are_collected_though_each_overflows_its_pipe() {
    everywhere(|| {
        let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); \
                      head -c 10000 /dev/zero; head -c 10000 /dev/zero >&2; done";
        let output = shell(script).output().unwrap();
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (400_000, 400_000));
        // A stream that the caller has chosen is not captured, and the input is empty.
        let output = shell("cat; echo err >&2").stderr(Stdio::null()).output().unwrap();
        assert_eq!((output.stdout, output.stderr), (vec![], vec![]));
    });
}

#[test]
fn a_conversation_through_pipes() {
    everywhere(|| {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        for word in [&b"one"[..], b"three"] {
            stdin.write_all(word).unwrap();
            let mut back = vec![0; word.len()];
            stdout.read_exact(&mut back).unwrap();
            assert_eq!(back, word);
        }
        // More bytes than a pipe holds, in both directions at the same time.
        let sent = vec![7; 500_000];
        fiber::scope(|s| {
            let length = sent.len();
            s.spawn(move || stdin.write_all(&sent).unwrap());
            let mut all = Vec::new();
            stdout.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), length);
        });
        assert!(child.wait().unwrap().success());
        assert!(child.try_wait().unwrap().is_some());
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn waiting_closes_the_input_first() {
    everywhere(|| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        assert!(child.wait().unwrap().success());
        assert!(child.stdin.is_none());
    });
}

#[test]
fn writing_to_a_peer_that_does_not_read_is_a_broken_pipe() {
    everywhere(|| {
        let mut child = shell("exec <&-").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        child.wait().unwrap();
        // The child of another test holds the reading end, too, until it runs its program.
        let error = loop {
            match stdin.write_all(b"x") {
                Ok(()) => fiber::sleep(Duration::from_millis(1)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_pipeline_of_processes() {
    everywhere(|| {
        let mut first = shell("echo b; echo a").stdout(Stdio::piped()).spawn().unwrap();
        let from = first.stdout.take().unwrap();
        let sorted = Command::new("sort").stdin(from).output().unwrap();
        assert_eq!(sorted.stdout, b"a\nb\n");
        assert!(first.wait().unwrap().success());
    });
}

#[test]
fn a_killed_child_ends_and_others_run_meanwhile() {
    common::on_each(&[1], |runtime| {
        runtime.run(|| {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            let id = child.id().to_string();
            let start = Instant::now();
            let killer = fiber::spawn_local(move || {
                fiber::sleep(Duration::from_millis(2));
                theirs::Command::new("kill").args(["-9", &id]).status().unwrap()
            });
            assert_eq!(child.wait().unwrap().signal(), Some(9));
            assert!(start.elapsed() < Duration::from_secs(60));
            assert!(killer.join().unwrap().success());
            child.kill().unwrap();
        });
    });
}

#[test]
fn many_children_at_once() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            fiber::scope(|s| {
                for number in 0..20 {
                    s.spawn(move || {
                        let status = shell(&format!("sleep 0.0{}; exit {number}", number % 5));
                        assert_eq!({ status }.status().unwrap().code(), Some(number));
                    });
                }
            });
        });
    });
}

#[test]
fn options_that_were_set_can_be_read_back() {
    let mut command = Command::new("program");
    command.arg0("name").process_group(0).args(["a", "b"]).env("K", "V").current_dir("/");
    assert_eq!(command.get_program(), "program");
    assert_eq!(command.get_args().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(command.get_envs().count(), 1);
    assert_eq!(command.get_current_dir(), Some(std::path::Path::new("/")));
    command.env_remove("K").env_clear();
    assert_eq!(command.get_envs().count(), 0);
}

#[test]
fn a_subreaper_gets_the_orphans() {
    if !common::is_child() {
        // In a process of its own, because this process would also get the orphans of other tests.
        return common::assert_success(&common::child("a_subreaper_gets_the_orphans"));
    }
    set_subreaper(true).unwrap();
    assert!(is_subreaper().unwrap());
    everywhere(|| {
        // The shell ends; its child waits for the end of the shell's input.
        let mut parent = shell("exec 3<&0; (read line <&3; exit 7) >/dev/null & echo $!");
        let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = parent.stdin.take();
        let mut id = String::new();
        parent.stdout.take().unwrap().read_to_string(&mut id).unwrap();
        assert!(parent.wait().unwrap().success());
        drop(input);
        let orphan = Pid::from_raw(id.trim().parse().unwrap()).unwrap();
        let end = ring::waitid(WaitId::Pid(orphan), WaitIdOptions::EXITED).unwrap().unwrap();
        assert_eq!((end.pid, end.status), (orphan.as_raw_nonzero().get(), 7));
    });
    set_subreaper(false).unwrap();
    assert!(!is_subreaper().unwrap());
}
