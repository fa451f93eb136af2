//! nginx: its configuration, and how it takes the place of a process of the bench.

use std::{
    env, fs,
    io::{self, Error},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::Path,
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

/// nginx in one folder, on a port of its own.
pub struct Nginx {
    pub command: Command,
    pub address: SocketAddr,
}

impl Nginx {
    /// Prepares a single process, which can be inspected and killed by its id. It keeps its files
    /// in the folder. `http` and `server` are what those blocks of its configuration have besides
    /// the port.
    pub fn prepare(folder: &Path, http: &str, server: &str) -> io::Result<Nginx> {
        let program = program().ok_or_else(|| Error::other("nginx is not installed"))?;
        // nginx takes a listener over only if it has a master process, so it binds the port itself.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let configuration = format!(
            "daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    {http}
    server {{ listen {address}; {server} }}
}}
"
        );
        fs::write(folder.join("nginx.conf"), configuration)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "stderr"]);
        Ok(Nginx { command, address })
    }
}

/// Replaces this process by nginx, which keeps its files in the working directory.
pub fn serve() -> io::Result<()> {
    let hello = r#"location / { return 200 "Hello, world!\n"; }"#;
    let mut nginx = Nginx::prepare(&env::current_dir()?, "default_type text/plain;", hello)?;
    // nginx prints nothing, so a child process prints the address. nginx reaps the child.
    let mut announce = process::ourselves().map_err(Error::other)?;
    announce.arg("announce").arg(nginx.address.to_string()).spawn()?;
    Err(nginx.command.exec())
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
