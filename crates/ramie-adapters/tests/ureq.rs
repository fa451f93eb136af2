//! ureq's agent against servers in this process. `ecosystem/` has tests with `ramie-http` and TLS.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    time::Duration,
};

use ramie::{
    Runtime,
    cancel::{self, Cancelled},
    channel::{Receiver, unbounded},
    fiber,
    net::{TcpListener, TcpStream},
};
use ramie_adapters::ureq::{RamieConnector, agent};
use ureq::{
    Agent, Error, Proxy,
    config::{Config, IpFamily},
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Reads the head of a request; returns its first line, which is empty at the end of the stream.
fn head(stream: &mut BufReader<TcpStream>) -> String {
    let mut first = String::new();
    let _ = stream.read_line(&mut first);
    let mut line = first.clone();
    while !line.trim_end().is_empty() {
        line.clear();
        let _ = stream.read_line(&mut line);
    }
    first
}

fn answer(stream: &mut BufReader<TcpStream>, body: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.get_mut().write_all((head + body).as_bytes());
}

/// Serves until the runtime ends: `/slow` is never answered, others with the number of the
/// connection. Each request is reported.
fn server() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (reports, requests) = unbounded();
    fiber::spawn_local(move || {
        fiber::as_daemon(|_| {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept() else { return };
                let reports = reports.clone();
                fiber::spawn_local(move || {
                    let mut stream = BufReader::new(stream);
                    loop {
                        let request = head(&mut stream);
                        let _ = reports.send(request.clone());
                        match request.as_str() {
                            "" => return,
                            request if request.contains("/slow") => {}
                            _ => answer(&mut stream, &number.to_string()),
                        }
                    }
                });
            }
        });
    });
    (address, requests)
}

fn on_fibers(test: impl FnOnce()) {
    Runtime::builder().workers(1).build().unwrap().run(test);
}

fn get(agent: &Agent, url: &str) -> Result<String, Error> {
    agent.get(url).call()?.body_mut().read_to_string()
}

fn new_agent() -> Agent {
    agent(Agent::config_builder().proxy(None).build())
}

#[test]
fn connections_are_used_again() {
    on_fibers(|| {
        let (address, _requests) = server();
        let agent = new_agent();
        for _ in 0..3 {
            assert_eq!(get(&agent, &format!("http://{address}/")).unwrap(), "0");
        }
    });
}

#[test]
fn fibers_of_a_worker_share_an_agent() {
    on_fibers(|| {
        let (address, _requests) = server();
        let (url, agent) = (format!("http://{address}/"), new_agent());
        fiber::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| drop(get(&agent, &url).unwrap())));
            }
        });
    });
}

#[test]
fn a_connection_whose_call_failed_is_not_used_again() {
    on_fibers(|| {
        let (address, _requests) = server();
        let agent = new_agent();
        let slow = agent.get(format!("http://{address}/slow")).config();
        let late = slow.timeout_global(Some(Duration::from_millis(50))).build().call();
        assert!(matches!(late, Err(Error::Timeout(_))), "{late:?}");
        assert_eq!(get(&agent, &format!("http://{address}/")).unwrap(), "1");
    });
}

#[test]
fn a_cancellation_ends_a_call_with_its_reason() {
    on_fibers(|| {
        let (address, requests) = server();
        let agent = new_agent();
        let url = format!("http://{address}/slow");
        let error = cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| get(&agent, &url));
                requests.recv().unwrap();
                scope.cancel_because("the test ends the call");
                call.join().unwrap().unwrap_err()
            })
        });
        let Error::Io(error) = error else { panic!("{error:?}") };
        assert_eq!(Cancelled::of(&error).unwrap().reason(), "the test ends the call");
        assert_eq!(get(&agent, &format!("http://{address}/")).unwrap(), "1");
    });
}

#[test]
fn the_tighter_of_two_limits_is_reported() {
    on_fibers(|| {
        let (address, _requests) = server();
        let agent = new_agent();
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(3600));
        let call = |own, program| {
            let slow = agent.get(format!("http://{address}/slow")).config();
            let slow = slow.timeout_global(Some(own)).build();
            cancel::try_with_timeout(program, || slow.call()).unwrap_err()
        };
        let error = call(long, short);
        let Error::Io(error) = error else { panic!("{error:?}") };
        assert!(Cancelled::of(&error).unwrap().is_deadline());
        let error = call(short, long);
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
    });
}

#[test]
fn the_shutdown_of_an_agent_ends_its_calls() {
    on_fibers(|| {
        let (address, requests) = server();
        let agent = new_agent();
        fiber::scope(|fibers| {
            let call = fibers.spawn_local(|| get(&agent, &format!("http://{address}/slow")));
            requests.recv().unwrap();
            agent.clone().shutdown();
            assert!(call.join().unwrap().is_err());
        });
        assert!(get(&agent, &format!("http://{address}/")).is_err());
    });
}

/// Returns these addresses for every name.
#[derive(Debug)]
struct Fixed(Vec<SocketAddr>);

impl Resolver for Fixed {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        self.0.iter().for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

#[test]
fn all_addresses_are_tried() {
    use ureq::unversioned::transport::Connector;
    on_fibers(|| {
        let (address, _requests) = server();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for timeout in [None, Some(Duration::from_secs(60))] {
            let config = Agent::config_builder().timeout_connect(timeout).proxy(None).build();
            let connector = ().chain(RamieConnector);
            let agent = Agent::with_parts(config, connector, Fixed(vec![closed, address]));
            assert!(get(&agent, "http://example.org/").is_ok());
        }
        let agent = Agent::with_parts(
            Agent::config_builder().proxy(None).build(),
            ().chain(RamieConnector),
            Fixed(vec![closed, closed]),
        );
        let error = get(&agent, "http://example.org/").unwrap_err();
        let Error::Io(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn the_family_of_addresses_is_respected() {
    on_fibers(|| {
        let (address, _requests) = server();
        let config = Agent::config_builder().ip_family(IpFamily::Ipv6Only).proxy(None).build();
        let error = get(&agent(config), &format!("http://{address}/")).unwrap_err();
        assert!(matches!(error, Error::HostNotFound), "{error:?}");
    });
}

#[test]
fn a_socks_proxy_is_not_bypassed() {
    on_fibers(|| {
        let (address, requests) = server();
        for protocol in ["socks4", "socks4a", "socks5"] {
            let proxy = Proxy::new(&format!("{protocol}://127.0.0.1:1")).unwrap();
            let agent = agent(Agent::config_builder().proxy(Some(proxy)).build());
            let error = get(&agent, &format!("http://{address}/")).unwrap_err();
            let Error::Io(error) = error else { panic!("{error:?}") };
            assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        }
        assert!(requests.is_empty());
    });
}

#[test]
fn a_secure_url_is_never_asked_in_plain_text() {
    use ureq::unversioned::transport::Connector;
    on_fibers(|| {
        let (address, requests) = server();
        let config = Agent::config_builder().proxy(None).build();
        let agent = Agent::with_parts(config, ().chain(RamieConnector), Fixed(vec![address]));
        let error = get(&agent, "https://example.org/secret").unwrap_err();
        assert!(matches!(error, Error::TlsRequired), "{error:?}");
        assert!(requests.is_empty());
    });
}

#[test]
fn a_proxy_is_asked_to_connect() {
    on_fibers(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = fiber::spawn_local(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let connect = head(&mut stream);
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let request = head(&mut stream);
            answer(&mut stream, "through the proxy");
            (connect, request)
        });
        let proxied = Proxy::new(&format!("http://{address}")).unwrap();
        let agent = agent(Agent::config_builder().proxy(Some(proxied)).build());
        let body = get(&agent, "http://192.0.2.1:8080/path").unwrap();
        assert_eq!(body, "through the proxy");
        let (connect, request) = proxy.join().unwrap();
        assert!(connect.starts_with("CONNECT 192.0.2.1:8080 "), "{connect}");
        assert!(request.starts_with("GET /path "), "{request}");
    });
}
