//! HTTP servers in Rust on one thread, each with the answer of `ramie serve --hello`. It prints the
//! address, and serves until it is killed. `hyper-tls` has one MiB at `/mib` as well, and reads its
//! certificate from a folder.

use std::{
    convert::Infallible, fs, io, net::TcpListener, path::Path, process::ExitCode, sync::Arc,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
};
use tokio_rustls::TlsAcceptor;

const TEXT: &str = "Hello, world!\n";

fn listen() -> io::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

/// The same on tokio, within its runtime.
fn listen_on_tokio() -> io::Result<tokio::net::TcpListener> {
    let listener = listen()?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

fn tokio_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(TEXT.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// Without a timer, so hyper limits no time.
fn serve_on_hyper() -> io::Result<()> {
    tokio_runtime()?.block_on(async {
        let listener = listen_on_tokio()?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let service = hyper::service::service_fn(hello);
                let http = hyper::server::conn::http1::Builder::new();
                // The errors of a connection concern the client, and wrk counts them.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

fn serve_on_hyper_with_tls(folder: &Path) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(tls(folder)?);
    let large = Bytes::from(vec![b'x'; 1 << 20]);
    tokio_runtime()?.block_on(async {
        let listener = listen_on_tokio()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (acceptor, large) = (acceptor.clone(), large.clone());
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let large = (request.uri().path() == "/mib").then(|| large.clone());
                    async move {
                        match large {
                            Some(large) => Ok(Response::new(Full::new(large))),
                            None => hello(request).await,
                        }
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                let Ok(stream) = acceptor.accept(stream).await else { return };
                // The errors of a connection concern the client, and the load counts them.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// The settings that `ramie-http` makes of the same certificate, but for ALPN.
fn tls(folder: &Path) -> io::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_slice_iter(&fs::read(folder.join("chain.pem"))?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key = fs::read(folder.join("key.pem"))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(io::Error::other)?;
    let build = || {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut config = config.with_single_cert(chain, key)?;
        config.ticketer = ring::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok::<_, rustls::Error>(Arc::new(config))
    };
    build().map_err(io::Error::other)
}

fn serve_on_axum() -> io::Result<()> {
    tokio_runtime()?.block_on(async {
        let router = axum::Router::new().route("/", axum::routing::get(|| async { TEXT }));
        axum::serve(listen_on_tokio()?, router).await
    })
}

/// One worker; a second thread accepts.
fn serve_on_actix() -> io::Result<()> {
    use actix_web::{App, HttpServer, rt::System, web};

    System::new().block_on(async {
        let app = || App::new().route("/", web::get().to(|| async { TEXT }));
        HttpServer::new(app).workers(1).listen(listen()?)?.run().await
    })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let served = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["hyper"] => serve_on_hyper(),
        ["hyper-tls", folder] => serve_on_hyper_with_tls(Path::new(folder)),
        ["axum"] => serve_on_axum(),
        ["actix"] => serve_on_actix(),
        _ => {
            eprintln!("Usage: rust-http hyper | hyper-tls FOLDER | axum | actix");
            return ExitCode::from(2);
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rust-http: {error}");
            ExitCode::FAILURE
        }
    }
}
