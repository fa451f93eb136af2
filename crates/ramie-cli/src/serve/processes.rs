//! Several processes that serve one address, under a supervisor.
//!
//! The supervisor restarts every process that ends, with pauses that grow to 10 s. It exits if it
//! receives a signal to stop, or if no process has ever become ready.

use std::{io, time::Duration};

use ramie::prefork::{self, End, Listener, Member};
use ramie_http::Server;

use super::{
    GRACE, admission::Admission, announce, cannot_listen, has_no_descriptor, in_runtime, serve_all,
    service,
};
use crate::{
    arguments::{Accept, Serve},
    failure::Failure,
    output,
};

/// How long the supervisor waits in addition to the grace period of its processes.
const MARGIN: Duration = Duration::from_secs(2);
/// If each process has ended this often before any became ready, the supervisor gives up, because
/// the cause will not go away.
const EXITS_BEFORE_READY: usize = 6;

pub(super) fn serve(serve: &Serve, processes: u32) -> Result<(), Failure> {
    if serve.accept == Some(Accept::PerWorker) {
        return Err(Failure::usage(
            "--accept per-worker does not work with --processes, because connections in the queue \
             of a process that crashes would be lost; omit it, or choose least-loaded",
        ));
    }
    let processes = processes as usize;
    let listener = Listener::bind(&serve.addr).map_err(|error| cannot_listen(serve, &error))?;
    let bound = listener.local_addr().map_err(|error| cannot_listen(serve, &error))?;
    let mut mute = None;
    let announce = || {
        announce(bound).map_err(|failure| {
            mute = Some(failure);
            io::Error::other("cannot print the address")
        })
    };
    let supervisor = prefork::Builder::new(processes)
        .grace(GRACE + MARGIN)
        .restart_done()
        .limit_before_ready(EXITS_BEFORE_READY * processes)
        .on_started(announce)
        .on_end(complain_of_end);
    let report = supervisor.run(|member| code(serve_in_one(serve, &listener, member)));
    if let Some(failure) = mute {
        return Err(failure);
    }
    match report.map_err(|error| cannot_supervise(&error))? {
        report if report.is_clean() => Ok(()),
        // The failure has been printed already.
        _ => Err(Failure::already_reported(1)),
    }
}

fn cannot_supervise(error: &io::Error) -> Failure {
    let cure = match error.raw_os_error() {
        // An error of Ramie itself, whose message includes the remedy.
        None => return Failure::other(error.to_string()),
        Some(_) if has_no_descriptor(error) => "raise `ulimit -n`",
        Some(_) => "try again, or serve from one process, without --processes",
    };
    Failure::other(format!("cannot start or supervise processes ({error}): {cure}"))
}

fn complain_of_end(end: &End) {
    if end.is_failure() || end.restarts_in().is_some() {
        output::warn(&end.to_string());
    }
}

fn code(outcome: Result<(), Failure>) -> u8 {
    outcome.map_or_else(|failure| failure.report_as_code(), |()| 0)
}

/// Runs one of the processes.
fn serve_in_one(serve: &Serve, listener: &Listener, member: &Member) -> Result<(), Failure> {
    let workers = serve.workers.or(Some(1));
    let admission = Admission::new(workers);
    let router = service::router(serve)?;
    in_runtime(workers, admission, || {
        let listener = listener.open().map_err(|error| cannot_listen(serve, &error))?;
        let server = Server::on(listener).shares_listeners();
        let accept = serve.accept.unwrap_or(Accept::Shared);
        let ready = || {
            member.ready();
            Ok(())
        };
        serve_all(server, router, serve, accept, admission, ready)
    })
}
