//! Several processes that serve at one address, under a supervisor.
//!
//! The supervisor stays, whatever becomes of its processes: it starts each of them again, with
//! pauses that grow to 10 s. It leaves when it is told to stop, and when no process has ever come
//! as far as to serve.

use std::{io, sync::Arc, time::Duration};

use ramie::prefork::{self, End, Listener, Member};

use super::{
    GRACE, announce, cannot_listen, has_no_descriptor, host, house::House, in_runtime,
    memory::Room, patience, signals,
};
use crate::{
    arguments::{Accept, Serve},
    failure::Failure,
    output,
};

/// What the supervisor grants beyond the grace that the processes grant to requests.
const MARGIN: Duration = Duration::from_secs(2);
/// If as many of each index have ended before any could serve, the reason will not go away.
const ENDS_BEFORE_READY: usize = 6;

pub(super) fn serve(serve: &Serve, processes: u32) -> Result<(), Failure> {
    if serve.accept == Some(Accept::PerWorker) {
        return Err(Failure::usage(
            "--accept per-worker cannot be had with --processes: connections in the queue of a \
             process that crashes would be lost; leave it out, or choose least-loaded",
        ));
    }
    let processes = processes as usize;
    let listener = Listener::bind(&serve.addr).map_err(|error| cannot_listen(serve, &error))?;
    let bound = listener.local_addr().map_err(|error| cannot_listen(serve, &error))?;
    let mut mute = None;
    let announce = || {
        announce(bound).map_err(|failure| {
            mute = Some(failure);
            io::Error::other("nobody can learn the port")
        })
    };
    let supervisor = prefork::Builder::new(processes)
        .grace(GRACE + MARGIN)
        .restart_done()
        .limit_before_ready(ENDS_BEFORE_READY * processes)
        .on_started(announce)
        .on_end(complain_of_end);
    let report = supervisor.run(|member| code(serve_in_one(serve, &listener, member)));
    if let Some(failure) = mute {
        return Err(failure);
    }
    match report.map_err(|error| cannot_supervise(&error))? {
        report if report.is_clean() => Ok(()),
        // It has been said.
        _ => Err(Failure::already_said(1)),
    }
}

fn cannot_supervise(error: &io::Error) -> Failure {
    let cure = match error.raw_os_error() {
        // Of Ramie's own: it says what to do.
        None => return Failure::other(error.to_string()),
        Some(_) if has_no_descriptor(error) => "raise `ulimit -n`",
        Some(_) => "try again, or serve by one process, without --processes",
    };
    Failure::other(format!("cannot start or supervise processes ({error}): {cure}"))
}

fn complain_of_end(end: &End) {
    if end.is_failure() || end.restarts_in().is_some() {
        output::complain(&end.to_string());
    }
}

fn code(outcome: Result<(), Failure>) -> u8 {
    outcome.map_or_else(|failure| failure.report_as_code(), |()| 0)
}

/// The life of one process.
fn serve_in_one(serve: &Serve, listener: &Listener, member: &Member) -> Result<(), Failure> {
    let workers = serve.workers.or(Some(1));
    let room = Room::new(workers);
    in_runtime(workers, room, || {
        let cannot_open = |error: io::Error| cannot_listen(serve, &error);
        let house = House::new(vec![listener.open().map_err(cannot_open)?], true);
        let house = Arc::new(house);
        signals::watch(Arc::clone(&house))?;
        room.check_for_service()?;
        member.ready();
        host(&house, serve.accept.unwrap_or(Accept::Shared), patience(serve), room)
    })
}
