//! ureq with `ramie-adapters`.

use std::{
    io::{self, BufRead, BufReader, Write},
    time::Duration,
};

use ramie::{
    cancel::{self, Cancelled},
    net::TcpStream,
};
use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

use super::{
    super::{support::beside_server, tls},
    beside_ramie_http,
};
use crate::harness::{Kind, Section, Tried, Way};

pub(super) const SECTION: Section = Section {
    kind: Kind::Web,
    way: Way::Adapter("ureq"),
    against: "ramie-http, rustls",
    note: "`ramie_adapters::ureq::agent` makes an agent; for HTTPS enable `ureq-rustls`. ureq \
           promises no stability for the traits of its transports, so the adapter is for one minor \
           version.",
    ..Section::new("ureq", "web/ureq.rs", ureq)
};

fn ureq() -> Tried {
    plain()?;
    secure()
}

fn plain() -> Tried {
    beside_ramie_http(|address| {
        let agent = ramie_adapters::ureq::agent(Agent::config_builder().build());
        let named = format!("http://localhost:{}/", address.port());
        let hello = agent.get(named).call()?.body_mut().read_to_string()?;
        assert_eq!(hello, "hello");
        let large = vec![7; 1_000_000];
        for _ in 0..3 {
            let mut answer = agent.post(format!("http://{address}/echo")).send(&large[..])?;
            assert!(answer.body_mut().read_to_vec()? == large);
        }
        let slow = || agent.get(format!("http://{address}/slow"));
        let limit = Duration::from_millis(50);
        let late = slow().config().timeout_global(Some(limit)).build().call();
        assert!(matches!(late, Err(ureq::Error::Timeout(_))), "{late:?}");
        // A tighter limit of the program is not reported as a timeout of ureq.
        let hour = Some(Duration::from_secs(3600));
        let cancelled =
            cancel::try_with_timeout(limit, || slow().config().timeout_global(hour).build().call());
        let Err(ureq::Error::Io(error)) = cancelled else { panic!("{cancelled:?}") };
        assert!(Cancelled::of(&error).is_some_and(Cancelled::is_deadline));
        Ok(())
    })
}

/// Answers each request of a connection with the line that it begins with.
fn serve_tls(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(tls::accept(stream)?);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_until(b'\n', &mut head)? == 0 {
                return Ok(());
            }
        }
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let stream = stream.get_mut();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", line.len())?;
        stream.write_all(line)?;
        stream.flush()?;
    }
}

fn secure() -> Tried {
    let certificate = Certificate::from_der(&tls::certificate()).to_owned();
    let roots = RootCerts::new_with_certs(&[certificate]);
    let tls = TlsConfig::builder().root_certs(roots).build();
    beside_server(serve_tls, |address| {
        let config = Agent::config_builder().tls_config(tls).build();
        let agent = ramie_adapters::ureq::agent(config);
        for _ in 0..2 {
            let url = format!("https://localhost:{}/secret", address.port());
            let line = agent.get(url).call()?.body_mut().read_to_string()?;
            assert_eq!(line, "GET /secret HTTP/1.1");
        }
        Ok(())
    })
}
