//! A server that greets: `cargo run --release -p ramie-http --example hello -- 127.0.0.1:8080`.

use ramie_http::{Router, Server, get};

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    ramie::run(|| {
        let server = Server::bind(&address)?;
        println!("listening on {}", server.local_addr()?);
        server.serve(Router::new().route("/", get(|| "Hello, world!\n")))
    })
}
