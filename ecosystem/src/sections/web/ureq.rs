//! ureq with a connector for Ramie's streams.

use std::time::Duration;

use ureq::{Agent, config::Config, unversioned::resolver::DefaultResolver};

use super::{beside_ramie_http, ureq_adapter::RamieConnector};
use crate::harness::{Kind, Section, Tried, Way};

pub(super) const SECTION: Section = Section {
    kind: Kind::Web,
    way: Way::Adapter(include_str!("ureq_adapter.rs")),
    against: "ramie-http",
    note: "The adapter is `web/ureq_adapter.rs`; chain ureq's `RustlsConnector` behind it for \
           HTTPS. ureq promises no stability for these traits. Names are resolved by std on the \
           worker: give `Agent::with_parts` a resolver that calls `ramie::net::ToSocketAddrs`.",
    ..Section::new("ureq", "web/ureq.rs", ureq)
};

fn ureq() -> Tried {
    beside_ramie_http(|address| {
        let agent =
            Agent::with_parts(Config::default(), RamieConnector, DefaultResolver::default());
        let hello = agent.get(format!("http://{address}/")).call()?.body_mut().read_to_string()?;
        assert_eq!(hello, "hello");
        let large = vec![7; 1_000_000];
        for _ in 0..3 {
            let mut answer = agent.post(format!("http://{address}/echo")).send(&large[..])?;
            assert!(answer.body_mut().read_to_vec()? == large);
        }
        let slow = agent.get(format!("http://{address}/slow")).config();
        let slow = slow.timeout_global(Some(Duration::from_millis(50))).build().call();
        assert!(matches!(slow, Err(ureq::Error::Timeout(_))), "{slow:?}");
        Ok(())
    })
}
