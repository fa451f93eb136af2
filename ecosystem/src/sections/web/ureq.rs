//! ureq with a connector for Ramie's streams.

use std::time::Duration;

use ureq::{Agent, config::Config};

use super::{
    beside_ramie_http,
    ureq_adapter::{RamieConnector, RamieResolver},
};
use crate::harness::{Kind, Section, Tried, Way};

pub(super) const SECTION: Section = Section {
    kind: Kind::Web,
    way: Way::Adapter(include_str!("ureq_adapter.rs")),
    against: "ramie-http",
    note: "`web/ureq_adapter.rs` has a connector, a transport and a resolver; chain ureq's \
           `RustlsConnector` behind the connector for HTTPS. ureq promises no stability for these \
           traits.",
    ..Section::new("ureq", "web/ureq.rs", ureq)
};

fn ureq() -> Tried {
    beside_ramie_http(|address| {
        let agent = Agent::with_parts(Config::default(), RamieConnector, RamieResolver);
        let named = format!("http://localhost:{}/", address.port());
        let hello = agent.get(named).call()?.body_mut().read_to_string()?;
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
