//! HTTPS, with HTTP/2 for clients that ask for it:
//! `cargo run --release -p ramie-http --example tls -- 127.0.0.1:8443 CHAIN KEY`.
//!
//! CHAIN and KEY are files in PEM. Without them, a new certificate for `localhost` is used, which
//! clients do not trust: `curl --insecure https://localhost:8443/`. On SIGHUP the files are read
//! again; connections that exist keep their certificate.

use std::{env, io};

use ramie::{
    cancel, fiber,
    signal::{Signal, Signals},
};
use ramie_http::{Router, Server, Tls, TlsConfig, TlsInfo, get};

fn config(files: Option<(&str, &str)>) -> io::Result<TlsConfig> {
    if let Some((chain, key)) = files {
        return TlsConfig::from_files(chain, key);
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.map_err(io::Error::other)?;
    TlsConfig::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes())
}

fn about(tls: TlsInfo) -> String {
    format!(
        "{} by {}, with {}\n",
        tls.server_name().unwrap_or("?"),
        tls.version(),
        tls.cipher_suite()
    )
}

/// Until the scope of the caller is cancelled.
fn reload_on_hangup(tls: &Tls, chain: &str, key: &str) -> io::Result<()> {
    let hangups = Signals::new([Signal::HUP])?;
    loop {
        hangups.wait()?;
        let replaced = TlsConfig::from_files(chain, key).and_then(|config| tls.replace(config));
        match replaced {
            Ok(()) => println!("read {chain} and {key} again"),
            Err(error) => eprintln!("the old certificate stays: {error}"),
        }
    }
}

fn serve(address: &str, files: Option<(&str, &str)>) -> io::Result<()> {
    let tls = Tls::new(config(files)?)?;
    let router = Router::new().route("/", get(|| "Hello, world!\n")).route("/tls", get(about));
    let server = Server::bind(address)?.tls(&tls);
    println!("listening on https://{}", server.local_addr()?);
    cancel::scope(|scope| {
        fiber::scope(|fibers| {
            if let Some((chain, key)) = files {
                fibers.spawn(|| reload_on_hangup(&tls, chain, key));
            }
            let served = server.serve(router);
            scope.cancel();
            served
        })
    })
}

fn main() -> io::Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let address = arguments.first().map_or("127.0.0.1:8443", String::as_str);
    let files = arguments.get(1).zip(arguments.get(2));
    let files = files.map(|(chain, key)| (chain.as_str(), key.as_str()));
    ramie::run(|| serve(address, files))
}
