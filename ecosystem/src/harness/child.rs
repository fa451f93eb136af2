//! Tries one section, in a process of its own.

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ramie::{Reaction, Runtime, fiber};

use super::{Section, Way, stack, ticker};

/// The flag of such a process.
pub(crate) const CHILD: &str = "--child";
/// What the line with the stack begins with.
pub(super) const STACK: &str = "stack used: ";
/// How long a fiber may keep the worker.
const LIMIT: Duration = Duration::from_millis(20);

/// Tries a section on a fiber, with a ticker beside it on the only worker.
pub(crate) fn try_here(section: &Section) -> ExitCode {
    let stalls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&stalls);
    let note = move |stall: &ramie::Stall| noted.lock().unwrap().push(stall.to_string());
    let runtime =
        Runtime::builder().workers(1).stall_limit(Some(LIMIT)).on_stall(Reaction::call(note));
    let runtime = runtime
        .stack_size(section.stack_size)
        .dump_on_quit(true)
        .grace(Duration::from_secs(5))
        .build()
        .expect("a runtime");
    let (tried, ticks) = runtime.run(|| {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let ticker = fiber::Builder::new().name("ticker".to_owned());
        let ticker = ticker.spawn_local(move || ticker::tick(&told)).expect("a fiber");
        let body = fiber::Builder::new().name(section.name.to_owned());
        let run = section.run;
        let body = body.spawn_local(move || {
            let tried = run();
            stack::note();
            tried
        });
        let tried = body.expect("a fiber").join();
        ends.store(true, Ordering::Relaxed);
        (tried, ticker.join().expect("no panic"))
    });
    println!("{STACK}{}", stack::deepest());
    let has_passed = match tried {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            println!("error: {error:?}");
            false
        }
        // The panic hook has printed it.
        Err(_) => false,
    };
    let stalls = stalls.lock().unwrap();
    let is_blocked = ticks.longest > LIMIT;
    if is_blocked {
        println!("the worker was blocked for {:?}, {} ticks", ticks.longest, ticks.count);
    }
    stalls.iter().for_each(|stall| println!("{stall}"));
    let must_block = matches!(section.way, Way::Blocks);
    if must_block && !is_blocked {
        println!("the crate does not block the worker, so its way is wrong");
    }
    if has_passed && is_blocked == must_block && (must_block || stalls.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
