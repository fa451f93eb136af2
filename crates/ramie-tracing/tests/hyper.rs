//! hyper's server on fibers: each request's lines have its own span.

mod common;

use std::{convert::Infallible, time::Duration};

use common::{log, on_each};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client, server,
    service::service_fn,
};
use ramie::{
    fiber,
    future::block_on,
    net::{TcpListener, TcpStream},
};
use ramie_futures::Io;
use ramie_tracing::with_default;
use tracing::{info, info_span, instrument};

const CLIENTS: u32 = 8;

#[instrument(name = "request", skip_all, fields(path = request.uri().path()))]
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    info!("begins");
    // Blocks the fiber, inside the poll.
    fiber::sleep(Duration::from_millis(2));
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    info!("answers");
    Ok(Response::new(Full::from(body)))
}

fn serve(stream: TcpStream, connection: u32) {
    let _span = info_span!("connection", connection).entered();
    block_on(
        server::conn::http1::Builder::new().serve_connection(Io::new(stream), service_fn(answer)),
    )
    .unwrap();
    info!("closed");
}

fn ask(stream: TcpStream, number: u32) {
    let (mut client, connection) =
        block_on(client::conn::http1::handshake(Io::new(stream))).unwrap();
    let connection = fiber::spawn_local(|| block_on(connection));
    let request = Request::post(format!("/{number}")).body(Full::<Bytes>::from("body")).unwrap();
    let response = block_on(client.send_request(request)).unwrap();
    assert_eq!(block_on(response.into_body().collect()).unwrap().to_bytes(), "body");
    drop(client);
    connection.join().unwrap().unwrap();
}

#[test]
fn each_request_has_its_span() {
    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            fiber::scope(|scope| {
                for number in 0..CLIENTS {
                    // One after the other, so that connection and path have the same number.
                    let stream = TcpStream::connect(address).unwrap();
                    let (accepted, _) = listener.accept().unwrap();
                    scope.spawn(move || serve(accepted, number));
                    scope.spawn(move || ask(stream, number));
                }
            });
        });
        let mut expected = Vec::new();
        for number in 0..CLIENTS {
            let connection = format!("INFO connection{{connection={number}}}:");
            let request = format!("{connection}request{{path=\"/{number}\"}}:");
            expected.extend([
                format!("{connection} closed"),
                format!("{request} begins"),
                format!("{request} answers"),
            ]);
        }
        expected.sort();
        assert_eq!(log.lines(), expected);
    });
}
