//! The supervisor: one thread that waits for signals, ends of processes and instants.
//!
//! | a process is | changed by | to |
//! |---|---|---|
//! | a successor, not ready | its report that it is ready, or a life of [`SETTLED`] | serving; its predecessor is leaving |
//! | | its end | gone; its predecessor stays |
//! | | the end of its predecessor | serving |
//! | serving, without a successor | its end | gone; done if the code is 0 and `restart_done` is not set, otherwise due again after a pause |
//! | serving | SIGTERM, SIGINT, a successor that is ready | leaving, by SIGTERM |
//! | leaving | its end | gone |
//! | | the end of its grace | leaving, by SIGKILL |
//!
//! *The race to fear*: a process ends after the supervisor has looked and before it sleeps. Its
//! SIGCHLD is blocked and makes the descriptor of signals readable, and each round takes the
//! signals first and looks for ends afterwards. So the look finds ends that came before it, and
//! later ends have left their signal.
//!
//! The kernel reuses a process's id only after its end was waited for, so no signal reaches a wrong
//! process.

use std::{
    collections::VecDeque,
    io::{self, Write},
    mem,
    os::fd::AsFd,
    panic::resume_unwind,
    process::ExitStatus,
    time::{Duration, Instant},
};

use ramie_driver::{
    say,
    sys::{
        self,
        fork::{self, Forked},
        supervise::{self, BlockedSignals, Pid},
    },
};

use super::{
    Builder, Member, Report,
    end::{After, End},
    member,
    process::{Process, Role, later, with_remedy},
};
use crate::{core::panic::catch, signal::Signal};

/// A successor that has lived for this time counts as ready, even if it did not report that.
const SETTLED: Duration = Duration::from_secs(1);

/// The same signal within this time after the first is ignored, because a program such as `timeout`
/// sends it to its child and then again to the child's process group.
const ECHO: Duration = Duration::from_millis(200);

/// How long to sleep, without noticing events, if the kernel has no memory for a wait.
const WITHOUT_MEMORY: Duration = Duration::from_millis(50);

type Live<'a> = &'a mut dyn FnMut(&Member) -> u8;

pub(super) struct PreforkSupervisor<'a> {
    options: Builder<'a>,
    live: Live<'a>,
    /// `None` in a child.
    signals: Option<BlockedSignals>,
    id: Pid,
    posts: Vec<Post>,
    processes: Vec<Process>,
    is_stopping: bool,
    /// The signal that asked all to end, and when.
    asked: Option<(Signal, Instant)>,
    /// The instants at which processes failed, the latest last.
    failures: VecDeque<Instant>,
    /// How many processes have ended; `None` once a process has reported that it is ready.
    ends_before_ready: Option<usize>,
    failure: Option<io::Error>,
}

/// The state of one index, whose processes follow one another.
#[derive(Default)]
struct Post {
    lives: u64,
    failures_in_a_row: u32,
    /// The instant at which its next process is due.
    due: Option<Instant>,
    last_end: Option<End>,
}

impl<'a> PreforkSupervisor<'a> {
    pub(super) fn new(options: Builder<'a>, live: Live<'a>) -> io::Result<Self> {
        let signals = [Signal::HUP, Signal::INT, Signal::TERM, Signal::CHLD].map(Signal::as_raw);
        Ok(PreforkSupervisor {
            posts: (0..options.processes).map(|_| Post::default()).collect(),
            options,
            live,
            signals: Some(BlockedSignals::block(&signals).map_err(with_remedy)?),
            id: supervise::own_id(),
            processes: Vec::new(),
            is_stopping: false,
            asked: None,
            failures: VecDeque::new(),
            ends_before_ready: Some(0),
            failure: None,
        })
    }

    /// Starts the processes and returns when all have ended. If `on_started` or `on_end` panics,
    /// the panic is resumed after that.
    pub(super) fn run(mut self) -> io::Result<Report> {
        if let Err(payload) = catch(|| self.supervise()) {
            self.end_after_panic();
            resume_unwind(payload);
        }
        let ends = self.posts.into_iter().filter_map(|post| post.last_end).collect();
        self.failure.map_or(Ok(Report { ends }), Err)
    }

    /// Asks all processes to end, and waits for them, without calling the program's code. A second
    /// panic leaves no process behind that nobody has asked to end.
    fn end_after_panic(&mut self) {
        let on_end = mem::replace(&mut self.options.on_end, Box::new(|_| ()));
        let end = || {
            self.stop();
            while !self.processes.is_empty() {
                self.attend();
            }
        };
        if let Err(second) = catch(end) {
            self.kill_all();
            // Its destructor might be a third panic.
            mem::forget(second);
        }
        // Only now, because its destructor is the program's code.
        drop(on_end);
    }

    fn supervise(&mut self) {
        for post in 0..self.posts.len() {
            if let Err(error) = self.start(post, Role::Serving) {
                self.give_up(error);
                break;
            }
        }
        if let Some(on_started) = self.options.on_started.take().filter(|_| !self.is_stopping)
            && let Err(error) = on_started()
        {
            self.give_up(error);
        }
        while !self.processes.is_empty() || self.posts.iter().any(|post| post.due.is_some()) {
            self.attend();
        }
    }

    /// Waits for the next event, and reacts to it.
    fn attend(&mut self) {
        self.wait();
        self.heed_signals();
        self.reap();
        self.promote();
        self.start_due();
        self.kill_late();
    }

    /// Forks a process. Returns in the supervisor only.
    fn start(&mut self, post: usize, role: Role) -> io::Result<()> {
        let member = Member {
            index: post,
            life: self.posts[post].lives,
            ready: sys::eventfd().map_err(with_remedy)?,
            supervisor: self.id,
        };
        let ready = sys::dup_cloexec(&member.ready).map_err(with_remedy)?;
        // Flushed, because the child would otherwise write the buffered text again.
        let _ = io::stdout().flush();
        match fork::fork().map_err(with_remedy)? {
            Forked::Child => {
                if !supervise::die_with_parent(self.id) {
                    std::process::exit(1);
                }
                supervise::lead_process_group();
                self.processes.clear();
                self.signals = None;
                supervise::be_open_to_signals();
                drop(ready);
                member::live(self.live, &member)
            }
            Forked::Parent(id) => {
                self.posts[post].lives += 1;
                self.posts[post].due = None;
                self.processes.push(Process { id, post, since: Instant::now(), role, ready });
                Ok(())
            }
        }
    }

    /// Sleeps until something may have happened.
    fn wait(&self) {
        let next = self.next_deadline();
        let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
        let successors = self.processes.iter().filter(|process| process.role == Role::Successor);
        let mut fds: Vec<_> = successors.map(|successor| successor.ready.as_fd()).collect();
        fds.extend(self.signals.as_ref().map(AsFd::as_fd));
        if supervise::wait_readable(&fds, timeout).is_err() {
            // The kernel has no memory for the wait, which is no reason to stop supervising.
            std::thread::sleep(timeout.map_or(WITHOUT_MEMORY, |time| time.min(WITHOUT_MEMORY)));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let of_process = |process: &Process| match process.role {
            Role::Successor => Some(process.since + SETTLED),
            Role::Leaving { until, is_killed: false } => Some(until),
            _ => None,
        };
        let processes = self.processes.iter().filter_map(of_process);
        self.posts.iter().filter_map(|post| post.due).chain(processes).min()
    }

    fn heed_signals(&mut self) {
        while let Some(number) = self.signals.as_ref().and_then(BlockedSignals::next) {
            match Signal::from_raw(number) {
                Some(Signal::HUP) if !self.is_stopping => self.renew(),
                Some(signal @ (Signal::TERM | Signal::INT)) => self.heed_request_to_end(signal),
                _ => {}
            }
        }
    }

    fn heed_request_to_end(&mut self, signal: Signal) {
        let is_echo = |asked: (Signal, Instant)| asked.0 == signal && asked.1.elapsed() < ECHO;
        if !self.is_stopping {
            self.asked = Some((signal, Instant::now()));
            self.stop();
        } else if !self.asked.is_some_and(is_echo) {
            self.kill_all();
        }
    }

    /// Starts a successor for each process in service.
    fn renew(&mut self) {
        for process in &mut self.processes {
            // A successor that is not ready is replaced, because it may have begun before the
            // change that the new processes should load.
            if process.role == Role::Successor {
                process.ask_to_leave(self.options.grace);
            }
        }
        let now = Instant::now();
        for post in 0..self.posts.len() {
            self.posts[post].failures_in_a_row = 0;
            if self.posts[post].due.is_some() {
                self.posts[post].due = Some(now);
            } else if self.serving(post).is_some()
                && let Err(error) = self.start(post, Role::Successor)
            {
                say!(Warn, "no successor for process {post}, which continues: {error}");
            }
        }
    }

    fn serving(&self, post: usize) -> Option<usize> {
        let serves = |process: &Process| process.post == post && process.role == Role::Serving;
        self.processes.iter().position(serves)
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.posts.iter_mut().for_each(|post| post.due = None);
        let grace = self.options.grace;
        self.processes.iter_mut().for_each(|process| process.ask_to_leave(grace));
    }

    fn give_up(&mut self, why: io::Error) {
        self.failure.get_or_insert(why);
        self.stop();
    }

    fn kill_all(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }

    fn kill_late(&mut self) {
        let now = Instant::now();
        for process in &mut self.processes {
            if matches!(process.role, Role::Leaving { until, is_killed: false } if until <= now) {
                process.kill();
            }
        }
    }

    /// Lets successors that are ready take over.
    fn promote(&mut self) {
        let is_ready = |process: &Process| {
            process.role == Role::Successor
                && (process.since.elapsed() >= SETTLED || process.has_said_ready())
        };
        while let Some(successor) = self.processes.iter().position(is_ready) {
            if let Some(before) = self.serving(self.processes[successor].post) {
                self.processes[before].ask_to_leave(self.options.grace);
            }
            self.processes[successor].role = Role::Serving;
        }
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        for post in 0..self.posts.len() {
            if self.posts[post].due.is_none_or(|due| due > now) {
                continue;
            }
            match self.start(post, Role::Serving) {
                Ok(()) => {}
                // The process has a second thread now, so no later attempt can succeed.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.give_up(error),
                Err(error) => {
                    let pause = self.next_pause(post);
                    say!(Warn, "cannot start process {post}, next attempt in {pause:?}: {error}");
                }
            }
        }
    }

    /// Takes note of the processes that have ended.
    fn reap(&mut self) {
        let mut at = 0;
        while at < self.processes.len() {
            match supervise::try_wait(self.processes[at].id) {
                None => at += 1,
                Some(status) => {
                    let process = self.processes.remove(at);
                    self.note_end(&process, status);
                }
            }
        }
    }

    fn note_end(&mut self, process: &Process, status: ExitStatus) {
        let after = match process.role {
            Role::Leaving { is_killed: true, .. } => After::Killed,
            Role::Leaving { .. } => After::Asked,
            Role::Successor => After::Stays,
            Role::Serving if status.success() && !self.options.restart_done => {
                if self.hand_over(process.post) { After::Succeeded } else { After::Done }
            }
            Role::Serving => self.after_end(process),
        };
        let id = process.id.as_raw_nonzero().get().unsigned_abs();
        let end = End { index: process.post, id, status, after };
        (self.options.on_end)(&end);
        if after == After::GaveUp {
            let sentence = match self.ends_before_ready {
                Some(ends) if self.never_began() => format!(
                    "{end}: {ends} processes have ended before any reported that it is ready"
                ),
                _ => end.to_string(),
            };
            self.give_up(io::Error::other(sentence));
        }
        // The end of a successor that failed, or of a process that was replaced, is not the last
        // end of the post.
        if after != After::Stays && (self.is_stopping || self.serving(process.post).is_none()) {
            self.posts[process.post].last_end = Some(end);
        }
    }

    fn after_end(&mut self, process: &Process) -> After {
        self.count_failure();
        self.count_before_ready(process);
        if self.has_failed_too_often() || self.never_began() {
            return After::GaveUp;
        }
        if self.hand_over(process.post) {
            return After::Succeeded;
        }
        if process.since.elapsed() > self.options.back_off.longest {
            self.posts[process.post].failures_in_a_row = 0;
        }
        After::Again(self.next_pause(process.post))
    }

    /// Lets the successor of a process that has ended take its place; false if there is none.
    fn hand_over(&mut self, post: usize) -> bool {
        let is_successor =
            |other: &&mut Process| other.post == post && other.role == Role::Successor;
        let successor = self.processes.iter_mut().find(is_successor);
        successor.map(|successor| successor.role = Role::Serving).is_some()
    }

    /// Counts an end among the failures within the time of the limit, if there is one.
    fn count_failure(&mut self) {
        let Some((_, within)) = self.options.limit else { return };
        let now = Instant::now();
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|then| now.duration_since(*then) > within) {
            self.failures.pop_front();
        }
    }

    fn has_failed_too_often(&self) -> bool {
        self.options.limit.is_some_and(|(most, _)| self.failures.len() > most)
    }

    /// Counts the end of a process, until one has reported that it is ready.
    fn count_before_ready(&mut self, ended: &Process) {
        let Some(ends) = self.ends_before_ready else { return };
        let is_ready = ended.has_said_ready() || self.processes.iter().any(Process::has_said_ready);
        self.ends_before_ready = (!is_ready).then_some(ends + 1);
    }

    /// Whether the limit of ends before the first report of readiness is reached.
    fn never_began(&self) -> bool {
        let most = self.options.limit_before_ready;
        most.is_some_and(|most| self.ends_before_ready >= Some(most))
    }

    /// Decides when the post's next process is due.
    fn next_pause(&mut self, post: usize) -> Duration {
        let back_off = self.options.back_off;
        let post = &mut self.posts[post];
        post.failures_in_a_row = post.failures_in_a_row.saturating_add(1);
        let pause = back_off.after(post.failures_in_a_row);
        post.due = Some(later(pause));
        pause
    }
}
