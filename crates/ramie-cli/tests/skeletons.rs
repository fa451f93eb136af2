//! The skeletons of `ramie advise` compile: each engine with each wait, and each wait with `std` in
//! place of `ramie`, as on threads and in a library that blocks. Some of them are run, too.
#![allow(dead_code, unused_imports)]

/// The parts of a program, as `ramie advise` puts them together.
macro_rules! program {
    ($name:ident, $engine:literal, $wait:literal) => {
        mod $name {
            include!(concat!("../src/advise/skeleton/", $engine, ".rs.in"));
            include!(concat!("../src/advise/skeleton/", $wait, ".rs.in"));
            include!("../src/advise/skeleton/compute.rs.in");

            pub(crate) fn start() -> Result<(), String> {
                main().map(drop).map_err(|error| error.to_string())
            }
        }
    };
}

program!(fibers_timer, "fibers", "timer");
program!(fibers_socket, "fibers", "socket");
program!(fibers_pipe, "fibers", "pipe");
program!(fibers_file, "fibers", "file");
program!(fibers_lock, "fibers", "lock");
program!(hybrid_timer, "hybrid", "timer");
program!(hybrid_socket, "hybrid", "socket");
program!(hybrid_pipe, "hybrid", "pipe");
program!(hybrid_file, "hybrid", "file");
program!(hybrid_lock, "hybrid", "lock");
program!(processes_timer, "processes", "timer");
program!(processes_socket, "processes", "socket");
program!(processes_pipe, "processes", "pipe");
program!(processes_file, "processes", "file");
program!(processes_lock, "processes", "lock");

/// The twins of `std` have the same names, so the program replaces `ramie::` by `std::`.
mod on_threads {
    use std as ramie;

    macro_rules! threads {
        ($name:ident, $wait:literal $(, $means:ident: $kind:ty)?) => {
            pub(crate) mod $name {
                use super::ramie;
                include!("../src/advise/skeleton/threads.rs.in");
                include!(concat!("../src/advise/skeleton/", $wait, ".rs.in"));
                include!("../src/advise/skeleton/compute.rs.in");

                pub(crate) fn start() -> Result<(), String> {
                    main().map_err(|error| error.to_string())
                }

                /// As fibers call a library that blocks.
                fn in_library($($means: $kind)?) -> io::Result<()> {
                    ::ramie::blocking(|| wait($($means)?))
                }
            }
        };
    }

    threads!(timer, "timer");
    threads!(socket, "socket", server: &mut std::net::TcpStream);
    threads!(pipe, "pipe", server: &mut std::process::Child);
    threads!(file, "file", file: &mut std::fs::File);
    threads!(lock, "lock");
}

#[test]
fn the_programs_run() {
    for start in [
        fibers_timer::start,
        fibers_file::start,
        fibers_lock::start,
        hybrid_pipe::start,
        on_threads::timer::start,
        on_threads::file::start,
        on_threads::lock::start,
    ] {
        start().unwrap();
    }
}
