//! Serves a directory: `cargo run --release -p ramie-http --example files -- . 127.0.0.1:8080`.

use ramie_http::{Files, Server};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    ramie::run(|| {
        let files = Files::new(&directory)?.listing().precompressed();
        let server = Server::bind(&address)?;
        println!("serving {directory} on http://{}", server.local_addr()?);
        server.serve(files.router())
    })
}
