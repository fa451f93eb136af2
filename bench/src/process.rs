//! Child processes: how they are started, pinned, waited for, and inspected.

use std::{
    env, fs,
    io::{self, BufRead, BufReader},
    process::{Child, Command, Output},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Resource, Rlimit, getrlimit, setrlimit},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// A command that starts this program again.
pub fn ourselves() -> Result<Command, String> {
    let program =
        env::current_exe().map_err(|error| format!("no path to this program: {error}"))?;
    Ok(Command::new(program))
}

/// Waits for a child whose output is small enough for its pipes; kills it when time is up.
pub fn output_within(mut child: Child, limit: Duration) -> Result<Output, String> {
    let end = Instant::now() + limit;
    let is_over = |child: &mut Child| -> io::Result<bool> { Ok(child.try_wait()?.is_some()) };
    while !is_over(&mut child).map_err(|error| error.to_string())? {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("not done after {} s, killed", limit.as_secs()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().map_err(|error| error.to_string())
}

/// A child process, which is killed when the value is dropped.
pub struct KillOnDrop(pub Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Allows this process, and those that it starts, as many descriptors as it may have. Returns their
/// number.
pub fn raise_descriptor_limit() -> Result<usize, String> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(|error| format!("cannot raise the limit of descriptors: {error}"))?;
    Ok(maximum.map_or(usize::MAX, |maximum| maximum as usize))
}

/// The CPUs this process may use.
pub fn cpus() -> Result<Vec<usize>, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("affinity: {error}"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect())
}

/// A CPU for a server, and another for its load.
pub fn two_cpus() -> Result<[usize; 2], String> {
    match cpus()?.as_slice() {
        &[server, load, ..] => Ok([server, load]),
        _ => Err("one CPU is not enough for a server and a load generator beside it".to_owned()),
    }
}

/// Pins this thread, and the threads that it starts, to one CPU.
pub fn pin_to_first_cpu() -> Result<(), String> {
    let first = *cpus()?.first().ok_or("no CPU is allowed")?;
    try_pin_to(first).map_err(|error| format!("cannot pin to CPU {first}: {error}"))
}

/// Pins all threads of another process to one CPU.
pub fn pin_all_threads(process: &str, cpu: usize) -> Result<(), String> {
    let mut one = CpuSet::new();
    one.set(cpu);
    let threads =
        fs::read_dir(format!("/proc/{process}/task")).map_err(|error| error.to_string())?;
    for thread in threads {
        let name = thread.map_err(|error| error.to_string())?.file_name();
        let thread = name.to_str().and_then(|id| Pid::from_raw(id.parse().ok()?));
        sched_setaffinity(thread, &one).map_err(|error| format!("affinity: {error}"))?;
    }
    Ok(())
}

/// Waits until a server prints its address.
pub fn first_line(server: &mut KillOnDrop) -> Result<String, String> {
    let stdout = server.0.stdout.take().ok_or("the server's output is not piped")?;
    let mut line = String::new();
    let count = BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    match count {
        0 => Err("the server ended before it listened".to_owned()),
        _ => Ok(line.trim().to_owned()),
    }
}

/// The command that runs a program on these CPUs. taskset replaces itself by the program, so the
/// child process is the program.
pub fn pinned(cpus: &[usize], program: Command) -> Command {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cpus.join(",")).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

/// Pins this thread to one of the CPUs that [`cpus`] returns.
pub fn pin_to(cpu: usize) {
    try_pin_to(cpu).expect("a CPU that may be used");
}

fn try_pin_to(cpu: usize) -> rustix::io::Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one)
}

/// The CPU time of a process so far.
pub struct Times {
    pub user: Duration,
    pub system: Duration,
}

impl Times {
    pub fn of(pid: u32) -> Result<Self, String> {
        // utime and stime are fields 14 and 15.
        let [user, system] = fields(&format!("/proc/{pid}/stat"), 14)?;
        Ok(Times { user, system })
    }

    /// The sum of both times of all children that this process has waited for.
    pub fn of_ended_children() -> Result<Duration, String> {
        // cutime and cstime are fields 16 and 17.
        fields("/proc/self/stat", 16).map(|[user, system]| user + system)
    }
}

/// Two times of a process that follow one another in its `stat`.
fn fields(path: &str, first: usize) -> Result<[Duration; 2], String> {
    let stat = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    // The name, in parentheses, may contain spaces; the field behind it is the third.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<u64> =
        fields.skip(first - 3).take(2).filter_map(|field| field.parse().ok()).collect();
    let &[user, system] = ticks.as_slice() else { return Err(format!("{path}: no times")) };
    let per_second = rustix::param::clock_ticks_per_second();
    Ok([user, system].map(|ticks| Duration::from_secs_f64(ticks as f64 / per_second as f64)))
}

/// The resident memory of another process, in bytes.
pub fn resident(pid: u32) -> Result<usize, String> {
    let path = format!("/proc/{pid}/statm");
    let statm = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.map(|pages| pages * rustix::param::page_size()).ok_or(format!("{path}: no size"))
}
