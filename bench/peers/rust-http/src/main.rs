//! HTTP servers in Rust on one thread, each with the answer of `ramie serve --hello`. It prints the
//! address, and serves until it is killed.

use std::{convert::Infallible, io, net::TcpListener, process::ExitCode};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};
use hyper_util::rt::TokioIo;

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
        ["axum"] => serve_on_axum(),
        ["actix"] => serve_on_actix(),
        _ => {
            eprintln!("Usage: rust-http hyper | axum | actix");
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
