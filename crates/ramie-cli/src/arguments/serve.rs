//! The arguments of `ramie serve`.

use std::{num::IntErrorKind, path::PathBuf};

use clap::{Args, ValueEnum};
use ramie_workloads::count;

use super::workers;

/// Serve a directory, or a page that greets, by HTTP/1.1, with one fiber for each connection
///
/// A directory is answered with its index.html, otherwise with a list of its files. Names that
/// begin with a dot, and links that lead out of the directory, are not served.
///
/// SIGTERM or Ctrl-C stops the server: idle connections are closed, requests in flight get up to
/// 10 seconds, and the exit code is 0. A second Ctrl-C exits at once with 130.
///
/// The first line on stdout is the address that the server listens on. If memory is limited
/// (`ulimit -v`) and becomes short, the server closes new connections and prints one warning.
#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct Serve {
    /// Directory whose files are served
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Answer every GET with "Hello, world!"
    #[arg(long, conflicts_with = "directory")]
    pub(crate) hello: bool,

    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) addr: String,

    /// Worker threads, 1 to 1024 [default: one per CPU; with --processes one in each process]
    #[arg(long, value_name = "N", value_parser = workers, allow_negative_numbers = true)]
    pub(crate) workers: Option<u32>,

    /// Number of server processes under a supervisor, 1 to 1024
    ///
    /// The supervisor restarts every process that ends, after a pause of 10 ms. The pause doubles
    /// with each restart in a row, up to 10 s, and returns to 10 ms once a process has run for more
    /// than 10 s. SIGHUP restarts the processes one after another, without a pause. No connection
    /// is refused meanwhile, because connections wait in the listener's queue. The supervisor gives
    /// up only if no process has ever become ready.
    #[arg(long, value_name = "N", value_parser = workers, allow_negative_numbers = true)]
    pub(crate) processes: Option<u32>,

    /// How connections are distributed to workers [default: per-worker; shared with --processes]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) accept: Option<Accept>,

    /// Idle, request and write timeout of a connection, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, default_value = "30")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: u32,
}

/// How the server distributes connections to its workers.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accept {
    /// One listener per worker; the kernel distributes connections by a hash
    PerWorker,
    /// One worker accepts and passes each connection to the least loaded worker
    LeastLoaded,
    /// All workers accept from one listener
    Shared,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  ramie serve .
  ramie serve --hello
  ramie serve --hello --addr 0.0.0.0:8080 --workers 1
  ramie serve --hello --processes 2
  curl http://127.0.0.1:8080/
  wrk -t1 -c256 -d5 http://127.0.0.1:8080/";

/// Checks only the form of an address. The server resolves it when it binds.
pub(super) fn address(text: &str) -> Result<String, String> {
    let example = "expected ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080";
    let Some((host, port)) = text.rsplit_once(':') else { return Err(example.to_owned()) };
    match port.parse::<u16>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            return Err(format!("the port {port} is above 65535; {example}"));
        }
        Err(_) => return Err(example.to_owned()),
        Ok(_) => {}
    }
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    match host {
        "" => Err(format!(
            "the address is missing; expected 0.0.0.0:{port} for all addresses of this machine, or \
             127.0.0.1:{port}, which other machines cannot reach"
        )),
        _ if is_bare_ipv6 => Err(example.to_owned()),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "[::1]:80", "localhost:8080"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in ["8080", "127.0.0.1", ":80", "::1:80", "a:port", "a:70000", "a:-1"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
