//! gRPC by tonic: its server on hyper's HTTP/2, and its channel, both on fibers.

mod executor;
mod mount;
mod service;

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hyper_util::service::TowerToHyperService;
use ramie::{
    cancel, channel,
    future::{block_on, block_on_or_cancelled},
    net::TcpStream,
    process::Command,
};
use ramie_futures::{Fibers, Io, LocalFibers};
use ramie_http::{Router, post};
use tonic::{Code, Request, transport::Channel, transport::Endpoint};

pub(crate) use self::service::Text;
use self::{
    executor::FibersBesideTokio,
    mount::grpc,
    service::{CANCELLED, EchoService, Incoming, echo_client::EchoClient, echo_server::EchoServer},
};
use super::support::{beside_http_server, beside_server};
use crate::harness::{Kind, Section, Tried, Way, server};

const FILE: &str = "grpc/mod.rs";

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Rpc,
        way: Way::Copy(include_str!("mount.rs")),
        against: "itself, Python's grpcio",
        needs: &["ECOSYSTEM_GRPC", "ECOSYSTEM_PYTHON"],
        note: "Server: the adapter `grpc/mount.rs` makes a service a handler of `ramie-http`. Its \
               methods may wait in plain calls of Ramie; the client's `grpc-timeout` is their \
               deadline, and a client that resets a call cancels them. If you need neither, \
               hyper's HTTP/2 with `LocalFibers` serves a service without an adapter. Client: \
               open a channel by `Endpoint::executor(Fibers)` and a connector, and limit a call \
               by `cancel::try_with_timeout` around `block_on_or_cancelled`. \
               `Request::set_timeout` needs tokio's timer, and so the executor of \
               `grpc/executor.rs`.",
        ..Section::new("tonic", FILE, tonic)
    },
    Section {
        kind: Kind::Rpc,
        against: "Python's grpcio",
        needs: &["ECOSYSTEM_GRPC"],
        note: "It encodes and decodes bytes in memory; tried with the messages of tonic.",
        ..Section::new("prost", FILE, grpcio_serves)
    },
];

fn serve_by_hyper(stream: TcpStream) -> io::Result<()> {
    let service = TowerToHyperService::new(EchoServer::new(EchoService));
    let server = hyper::server::conn::http2::Builder::new(LocalFibers);
    let connection = server.serve_connection(Io::new(stream), service);
    block_on_or_cancelled(connection).map_err(io::Error::from)?.map_err(io::Error::other)
}

fn router() -> Router {
    Router::new().route("/ecosystem.Echo/{method}", post(grpc(EchoServer::new(EchoService))))
}

type Client = EchoClient<Channel>;

/// Opens a channel whose tasks are fibers.
fn connect(address: SocketAddr) -> Result<Client, tonic::transport::Error> {
    connect_by(address, |endpoint| endpoint.executor(Fibers))
}

fn connect_by(
    address: SocketAddr,
    with_executor: impl FnOnce(Endpoint) -> Endpoint,
) -> Result<Client, tonic::transport::Error> {
    let endpoint = with_executor(Endpoint::try_from(format!("http://{address}"))?);
    let connector = tower::service_fn(move |_| async move {
        Ok::<_, io::Error>(Io::new(TcpStream::connect(address)?))
    });
    Ok(EchoClient::new(block_on(endpoint.connect_with_connector(connector))?))
}

fn text(text: &str) -> Text {
    Text { text: text.to_owned() }
}

fn tonic() -> Tried {
    beside_server(serve_by_hyper, |address| all_kinds_of_calls(&connect(address)?))?;
    beside_http_server(router(), |address| {
        all_kinds_of_calls(&connect(address)?)?;
        deadlines(address)?;
        python_asks(address.port())
    })?;
    grpcio_serves()
}

/// The same calls with a server of another make.
fn grpcio_serves() -> Tried {
    all_kinds_of_calls(&connect(server("ECOSYSTEM_GRPC"))?)
}

fn all_kinds_of_calls(client: &Client) -> Tried {
    let mut client = client.clone();
    assert_eq!(block_on(client.unary(text("häßlich")))?.into_inner(), text("HÄSSLICH"));
    let failed = block_on(client.unary(text("fail"))).unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::InvalidArgument, "as you wish"));

    let three = Incoming::of(["a", "b", "c"].map(text));
    assert_eq!(block_on(client.up(three))?.into_inner(), text("a b c"));

    let mut answers = block_on(client.down(text("n")))?.into_inner();
    for number in 1..=3 {
        assert_eq!(block_on(answers.message())?, Some(text(&format!("n {number}"))));
    }
    assert_eq!(block_on(answers.message())?, None);

    // Each answer is awaited before the next question is sent, except for the first: grpcio sends
    // the head of its response together with the first answer.
    let (questions, asked) = channel::bounded(1);
    let ask = |number| questions.send(text(&format!("q{number}"))).expect("the stream is open");
    ask(0);
    let mut answers = block_on(client.both(Incoming::new(asked)))?.into_inner();
    for number in 0..3 {
        assert_eq!(block_on(answers.message())?, Some(text(&format!("Q{number}"))));
        ask(number + 1);
    }
    drop(questions);
    assert_eq!(block_on(answers.message())?, Some(text("Q3")));
    assert_eq!(block_on(answers.message())?, None);
    Ok(())
}

fn deadlines(address: SocketAddr) -> Tried {
    // A limit of the caller, which drops the call, so that the server's method is cancelled.
    let start = Instant::now();
    let mut client = connect(address)?;
    let limit = Duration::from_millis(50);
    let late =
        cancel::try_with_timeout(limit, || block_on_or_cancelled(client.unary(text("slow"))));
    assert!(late.is_err_and(|cancelled| cancelled.is_deadline()));
    CANCELLED.wait_for(1);

    // A limit that the client tells the server. Both keep it.
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    let executor = FibersBesideTokio(tokio.handle().clone());
    let mut client = connect_by(address, |endpoint| endpoint.executor(executor))?;
    let mut request = Request::new(text("slow"));
    request.set_timeout(limit);
    let code = block_on(client.unary(request)).unwrap_err().code();
    assert!([Code::DeadlineExceeded, Code::Cancelled].contains(&code), "{code:?}");
    CANCELLED.wait_for(2);
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(client);
    // Dropping it waits for its threads.
    ramie::blocking(|| drop(tokio));
    Ok(())
}

fn python_asks(port: u16) -> Tried {
    let python = std::env::var_os("ECOSYSTEM_PYTHON").expect("set by ecosystem/servers");
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sections/grpc/peer.py");
    let output = Command::new(python).args([peer, "ask", &port.to_string()]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
