//! nginx: its configuration, and how it takes the place of a process of the bench.

use std::{
    env, fs,
    io::{self, Error},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::process;

/// Where Debian puts it; a user's PATH may lack this folder.
const OF_DEBIAN: &str = "/usr/sbin/nginx";

/// The name of nginx, if it is installed.
pub fn program() -> Option<&'static str> {
    let starts = |name: &&str| Command::new(name).arg("-v").output().is_ok();
    ["nginx", OF_DEBIAN].into_iter().find(starts)
}

/// A single process, which serves and can be inspected and killed by its id.
fn configuration(address: &str) -> String {
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    default_type text/plain;
    server {{
        listen {address};
        location / {{ return 200 \"Hello, world!\\n\"; }}
    }}
}}
"
    )
}

/// Replaces this process by nginx, which keeps its files in the working directory.
pub fn serve() -> io::Result<()> {
    let program = program().ok_or_else(|| Error::other("nginx is not installed"))?;
    let folder = env::current_dir()?;
    // nginx takes a listener over only if it has a master process, so it binds this port itself.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    fs::write("nginx.conf", configuration(&address.to_string()))?;
    // nginx prints nothing, so a child process prints the address. nginx reaps the child.
    let mut announce = process::ourselves().map_err(Error::other)?;
    announce.arg("announce").arg(address.to_string()).spawn()?;
    let mut nginx = Command::new(program);
    nginx.arg("-p").arg(&folder).args(["-c", "nginx.conf", "-e", "stderr"]);
    Err(nginx.exec())
}

/// Prints the address of a server once it accepts connections.
pub fn announce(address: SocketAddr) -> Result<(), String> {
    wait_for(address)?;
    println!("listening on {address}");
    Ok(())
}

/// Waits until a server accepts connections.
pub fn wait_for(address: SocketAddr) -> Result<(), String> {
    let start = Instant::now();
    while let Err(error) = TcpStream::connect(address) {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(format!("no server listens on {address}: {error}"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
