//! hyper's HTTP/2 server and client on fibers: parallel requests over one connection.

use std::{convert::Infallible, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http2,
    service::service_fn,
};
use ramie::{
    fiber,
    future::block_on,
    net::{TcpListener, TcpStream},
};
use ramie_futures::{Io, LocalFibers};

type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// Each request is a task of hyper's and therefore a fiber, so it may make blocking calls.
async fn answer(request: Request<Incoming>) -> Answer {
    fiber::sleep(Duration::from_millis(10));
    Ok(Response::new(Full::from(format!("you asked for {}\n", request.uri().path()))))
}

fn serve(stream: TcpStream) {
    let server = hyper::server::conn::http2::Builder::new(LocalFibers);
    let served = block_on(server.serve_connection(Io::new(stream), service_fn(answer)));
    if let Err(error) = served {
        eprintln!("a connection failed: {error}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ramie::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = fiber::spawn(move || listener.accept().map(|(stream, _)| serve(stream)));

        let stream = Io::new(TcpStream::connect(address)?);
        let (client, connection) = block_on(http2::handshake(LocalFibers, stream))?;
        let connection = fiber::spawn_local(|| block_on(connection));
        let ask = |number: u32| {
            let mut client = client.clone();
            let request = Request::get(format!("http://{address}/{number}"));
            fiber::spawn_local(move || -> Result<Bytes, Box<dyn std::error::Error>> {
                let request = request.body(Full::<Bytes>::default())?;
                let response = block_on(client.send_request(request))?;
                Ok(block_on(response.into_body().collect())?.to_bytes())
            })
        };
        let answers: Vec<_> = (0..8).map(ask).collect();
        for answer in answers {
            print!("{}", String::from_utf8_lossy(&answer.join().expect("no panic")?));
        }
        drop(client);
        connection.join().expect("no panic")?;
        server.join().expect("no panic")?;
        Ok(())
    })
}
