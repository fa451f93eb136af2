//! What a thread of this process does, as /proc describes it.

use std::time::Duration;

use ramie_driver::sys::read_small;

/// The times of a thread so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Usage {
    /// It has run on a CPU.
    pub(super) cpu: Duration,
    /// It could have run, and waited for a CPU.
    pub(super) waited: Duration,
    /// How often it got a CPU. While this stays the same, a thread that is off the CPU has not run.
    pub(super) runs: u64,
}

/// What a thread does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It runs, or waits for a CPU.
    Running,
    /// It is stopped by a signal or a debugger, or it ends.
    Stopped,
    /// It waits for a page of memory.
    PageFault,
    /// It is blocked in a system call.
    Call { number: i64, arguments: [usize; 6], place: CallPlace },
    /// It is blocked, and this system does not say in which call.
    Blocked,
}

/// Where a thread has made the system call in which it is blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallPlace {
    pub(super) stack: usize,
    pub(super) instruction: usize,
}

/// The times of a thread; `None` if this system does not count them.
pub(super) fn usage(thread: i32) -> Option<Usage> {
    parse_usage(&read(thread, "schedstat")?)
}

/// What a thread does; `None` if there is no such thread.
pub(super) fn doing(thread: i32) -> Option<Doing> {
    let state = parse_state(&read(thread, "stat")?)?;
    let call = read(thread, "syscall");
    Some(match state {
        'T' | 't' | 'X' | 'Z' => Doing::Stopped,
        _ => match call.as_deref().map(str::trim) {
            Some("running") => Doing::Running,
            Some(call) => parse_call(call)?,
            None if state == 'R' => Doing::Running,
            None => Doing::Blocked,
        },
    })
}

fn read(thread: i32, file: &str) -> Option<String> {
    read_small(&format!("/proc/self/task/{thread}/{file}"))
}

fn parse_usage(text: &str) -> Option<Usage> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    let (cpu, waited) = (Duration::from_nanos(next()?), Duration::from_nanos(next()?));
    // A kernel that does not count prints zeros for each thread, and each thread has run once.
    let runs = next()?;
    (runs > 0).then_some(Usage { cpu, waited, runs })
}

/// The state is the first field behind the name, which may contain anything.
fn parse_state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A number, six arguments, the stack pointer and the program counter; -1 outside of calls.
fn parse_call(text: &str) -> Option<Doing> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    if number < 0 {
        return Some(Doing::PageFault);
    }
    let mut numbers = [0; 8];
    for number in &mut numbers {
        *number = usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    let [arguments @ .., stack, instruction] = numbers;
    Some(Doing::Call { number, arguments, place: CallPlace { stack, instruction } })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ramie_driver::sys::thread_id;

    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        let usage = parse_usage("1000 20 3\n").unwrap();
        assert_eq!((usage.cpu.as_nanos(), usage.waited.as_nanos(), usage.runs), (1000, 20, 3));
        assert_eq!(parse_usage("1000 20\n"), None);
        // Without CONFIG_SCHEDSTATS and delay accounting.
        assert_eq!(parse_usage("0 0 0\n"), None);
        assert_eq!(parse_state("7 (a) name) S 1 2"), Some('S'));
        assert_eq!(parse_state("7"), None);
        let call = "202 0x7f01 0x80 0x2 0x0 0x0 0xf 0x7ffe 0x7fff";
        let arguments = [0x7f01, 0x80, 2, 0, 0, 15];
        let place = CallPlace { stack: 0x7ffe, instruction: 0x7fff };
        assert_eq!(parse_call(call), Some(Doing::Call { number: 202, arguments, place }));
        assert_eq!(parse_call("-1 0x7ffe 0x7fff"), Some(Doing::PageFault));
        assert_eq!(parse_call("202 0x7f01"), None);
        assert_eq!(parse_call("none"), None);
    }

    #[test]
    fn a_thread_that_does_not_exist_does_nothing() {
        assert_eq!((usage(i32::MAX), doing(i32::MAX)), (None, None));
    }

    #[test]
    fn a_blocked_thread_does_not_run() {
        let (send_id, id) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send_id.send(thread_id()).unwrap();
            is_over.recv().unwrap();
        });
        let id = id.recv().unwrap();
        let Some(_) = usage(id) else { return };
        let blocked = loop {
            let before = usage(id).unwrap().runs;
            let doing = doing(id).unwrap();
            if doing != Doing::Running && usage(id).unwrap().runs == before {
                break doing;
            }
        };
        match blocked {
            Doing::Call { number, .. } => assert_eq!(number, libc::SYS_futex),
            _ => assert_eq!(blocked, Doing::Blocked),
        }
        end.send(()).unwrap();
        thread.join().unwrap();
    }
}
