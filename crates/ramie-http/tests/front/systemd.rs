//! Sockets that systemd passes: this program starts itself as systemd would.

use std::{env, os::fd::OwnedFd};

use super::*;
use ramie::process::Command;

/// Starts this program with two sockets, which come as the standard streams; the second is named
/// `web`.
const START: &str = r#"
    exec 3<&0 4<&1 </dev/null >&2
    export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=other:web
    exec "$0" --ignored --exact systemd::child --nocapture
"#;

#[test]
fn sockets_of_systemd_are_served() {
    ramie::run(|| {
        let [other, web] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let address = web.local_addr().unwrap();
        let program = env::current_exe().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", START, program.to_str().unwrap()])
            .stdin(OwnedFd::from(other))
            .stdout(OwnedFd::from(web))
            .spawn()
            .unwrap();
        let mut stream = connect(address);
        stream.write_all(ASK.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert_eq!(body(&response), "from systemd");
        assert!(child.wait().unwrap().success());
    });
}

/// The program that the test above starts.
#[test]
#[ignore = "started by another test"]
fn child() {
    ramie::run(|| {
        let server = Server::from_systemd(Some("web")).unwrap();
        let none = Server::from_systemd(Some("web")).unwrap_err();
        assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
        let handle = server.handle();
        let answer = move || {
            handle.stop();
            "from systemd"
        };
        server.serve(Router::new().route("/", get(answer))).unwrap();
        // The other one is left.
        Server::from_systemd(None).unwrap().local_addr().unwrap();
    });
}

#[test]
fn without_systemd_there_is_no_socket() {
    let none = Server::from_systemd(None).unwrap_err();
    assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
}
