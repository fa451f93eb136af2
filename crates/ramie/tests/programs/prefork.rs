//! Scenes for the tests of `prefork`: it wants a process of one thread, which no test has.

use std::{env, io, process, thread, time::Duration};

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

fn codes(member: &Member) -> Result<u8, &'static str> {
    match (member.index(), member.life()) {
        (1, 0) => Ok(7),
        (2, 0) => Err("not yet"),
        (3, 0) => panic!("this is one"),
        (4, 0) => process::exit(9),
        (5, 0) => process::abort(),
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
        "codes" => quick(6).run(codes),
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
        refusal => refused(refusal),
    }
}
