//! Scenes for the tests of `prefork`: it wants a process of one thread, which no test has.

use std::{
    env,
    io::{self, Read, Write},
    os::unix::process::parent_id,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    process, thread,
    time::Duration,
};

use ramie::{
    fiber,
    prefork::{BackOff, Builder, Member, Report},
    signal::{Signal, Signals},
};

fn quick(processes: usize) -> Builder<'static> {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(4));
    let quick = Builder::new(processes).back_off(BackOff { first, longest });
    quick.on_end(|end| println!("{end}"))
}

fn say(member: &Member, what: &str) {
    println!("{} {} {} {what}", member.index(), member.life(), process::id());
}

fn never_end() {
    loop {
        thread::park();
    }
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the payload's destructor");
    }
}

fn codes(member: &Member) -> Result<u8, &'static str> {
    match (member.index(), member.life()) {
        (1, 0) => Ok(7),
        (2, 0) => Err("not yet"),
        (3, 0) => panic!("this is one"),
        (4, 0) => process::exit(9),
        (5, 0) => process::abort(),
        (6, 0) => panic_any(PanicsWhenDropped),
        _ => Ok(0),
    }
}

fn stubborn(member: &Member) -> io::Result<()> {
    ramie::run(|| {
        let ignored = Signals::new([Signal::TERM])?;
        say(member, "is up");
        loop {
            ignored.wait()?;
        }
    })
}

/// The successors fail, each a little after its start.
fn unlucky(member: &Member) -> u8 {
    say(member, "is up");
    if member.life() > 0 {
        thread::sleep(Duration::from_millis(5));
        return 3;
    }
    never_end();
    0
}

fn send(signal: &str, id: u32) {
    let sent = process::Command::new("kill").args([signal, &id.to_string()]).status();
    assert!(sent.expect("kill is there").success());
}

/// Fails at once three times, after a longer life than the longest pause, and once more.
fn recovers(member: &Member) -> u8 {
    match member.life() {
        3 => thread::sleep(Duration::from_millis(1500)),
        5 => return 0,
        _ => {}
    }
    7
}

/// The first one ends as soon as it has a successor, which is not ready then.
fn succeeded() -> io::Result<Report> {
    let (mut ids_out, mut ids_in) = io::pipe()?;
    quick(1).run(|member| -> io::Result<()> {
        if member.life() == 0 {
            ids_in.write_all(&process::id().to_ne_bytes())?;
        } else {
            let mut id = [0; 4];
            ids_out.read_exact(&mut id)?;
            send("-KILL", u32::from_ne_bytes(id));
        }
        say(member, "is up");
        never_end();
        Ok(())
    })
}

/// The first successor asks for another one before it is ready. The other one is ready at once.
fn renewed(member: &Member) {
    say(member, "is up");
    match member.life() {
        1 => send("-HUP", parent_id()),
        2 => member.ready(),
        _ => {}
    }
    never_end();
}

/// Its `on_end` panics at the end of the first process. Returns whether the second one is still
/// there when the panic arrives.
fn panics() -> io::Result<Report> {
    let (mut ids_out, mut ids_in) = io::pipe()?;
    let (mut copies_out, mut copies_in) = io::pipe()?;
    let supervisor = quick(2).on_end(|_| panic!("as planned"));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        supervisor.run(|member| -> io::Result<u8> {
            let mut id = [0; 4];
            if member.index() == 0 {
                ids_out.read_exact(&mut id)?;
                copies_in.write_all(&id)?;
                return Ok(7);
            }
            ids_in.write_all(&process::id().to_ne_bytes())?;
            never_end();
            Ok(0)
        })
    }));
    assert!(outcome.is_err(), "the panic has gone astray");
    let mut id = [0; 4];
    copies_out.read_exact(&mut id)?;
    let is_there = std::fs::exists(format!("/proc/{}", u32::from_ne_bytes(id)))?;
    println!("still there: {is_there}");
    process::exit(0)
}

/// The supervisor dies after its processes have changed their user.
fn demoted() -> io::Result<Report> {
    quick(2).run(|member| {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("this is root");
        member.die_with_supervisor();
        say(member, "is up");
        never_end();
    })
}

/// The first one ends well as soon as it has a successor, which fails before it is ready.
fn done() -> io::Result<Report> {
    let (mut ids_out, mut ids_in) = io::pipe()?;
    let (mut ends_out, mut ends_in) = io::pipe()?;
    let supervisor = quick(1).on_end(move |end| {
        println!("{end}");
        ends_in.write_all(&[0]).expect("nobody closes it");
    });
    supervisor.run(|member| -> io::Result<u8> {
        match member.life() {
            0 => ramie::run(|| {
                let asked = Signals::new([Signal::TERM])?;
                ids_in.write_all(&process::id().to_ne_bytes())?;
                say(member, "is up");
                asked.wait()?;
                Ok(0)
            }),
            1 => {
                let mut id = [0; 4];
                ids_out.read_exact(&mut id)?;
                send("-TERM", u32::from_ne_bytes(id));
                // Until the supervisor has seen the end of the first.
                ends_out.read_exact(&mut [0])?;
                Ok(9)
            }
            _ => Ok(0),
        }
    })
}

fn refused(scene: &str) -> io::Result<Report> {
    match scene {
        "thread" => drop(thread::spawn(never_end)),
        "fiber" => fiber::spawn_local(|| ()).join().unwrap(),
        "ring" => drop(ramie_driver::Driver::open(Default::default(), &Default::default())),
        _ => {}
    }
    ramie::prefork(usize::from(scene != "none"), |_| ())
}

fn main() -> io::Result<Report> {
    // Nothing of this is to be there twice.
    print!("begin; ");
    let scene = env::args().nth(1).unwrap_or_default();
    match scene.as_str() {
        "codes" => catch_unwind(|| quick(7).run(codes)).unwrap_or_else(|_| {
            println!("a process runs on in the supervisor's code");
            process::exit(101)
        }),
        "limit" => quick(2).limit(5, Duration::from_secs(600)).run(|member| {
            if member.index() == 0 {
                never_end();
            }
            7
        }),
        "sleepers" => quick(2).run(|member| {
            say(member, "is up");
            never_end();
        }),
        "stubborn" => quick(1).grace(Duration::from_millis(100)).run(stubborn),
        "unlucky" => quick(1).run(unlucky),
        "recovers" => {
            let (first, longest) = (Duration::from_millis(1), Duration::from_secs(1));
            quick(1).back_off(BackOff { first, longest }).run(recovers)
        }
        "fails" => {
            let (first, longest) = (Duration::from_millis(100), Duration::from_secs(600));
            quick(1).back_off(BackOff { first, longest }).run(|_| 7)
        }
        // Never more than two failures within the time.
        "slow" => quick(1).limit(3, Duration::from_millis(250)).run(|member| {
            thread::sleep(Duration::from_millis(100));
            if member.life() < 7 { 7 } else { 0 }
        }),
        "panics" => panics(),
        "succeeded" => succeeded(),
        "renewed" => quick(1).run(renewed),
        "servers" => {
            let servers = quick(2).restart_done().limit_before_ready(4);
            servers.run(|member| {
                member.ready();
                say(member, "is up");
                never_end();
            })
        }
        "demoted" => demoted(),
        "done" => done(),
        "endless grace" => quick(1).grace(Duration::MAX).run(|member| {
            say(member, "is up");
            never_end();
        }),
        "endless pause" => {
            let endless = BackOff { first: Duration::MAX, longest: Duration::MAX };
            quick(2).back_off(endless).run(|member| match member.index() {
                0 => process::exit(3),
                _ => never_end(),
            })
        }
        "never ready" => quick(2).restart_done().limit_before_ready(4).run(|_| 0),
        refusal => refused(refusal),
    }
}
