//! reqwest, by its futures and by its blocking façade.

use std::time::Duration;

use super::beside_ramie_http;
use crate::harness::{Kind, Section, Tried, Way};

const FILE: &str = "web/clients.rs";

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Web,
        way: Way::BesideTokio,
        against: "ramie-http",
        note: "Share one `Client` and one small runtime of tokio among all fibers.",
        ..Section::new("reqwest", FILE, reqwest)
    },
    Section {
        kind: Kind::Web,
        way: Way::Pool,
        against: "ramie-http",
        note: "Its client waits for a thread of its own, which runs tokio. Make and drop it in \
               `ramie::blocking`, too.",
        ..Section::new("reqwest::blocking", FILE, reqwest_blocking)
    },
];

fn reqwest() -> Tried {
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let wait = |future| ramie_futures::block_on_with(tokio.handle(), future);
    let tried = beside_ramie_http(|address| {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let get = |path: &str| client.get(format!("http://{address}{path}"));
        let text = |request: reqwest::RequestBuilder| async { request.send().await?.bytes().await };
        let hello = wait(Box::pin(text(get("/"))))?;
        assert_eq!(hello, "hello");
        let large = vec![7; 1_000_000];
        let echo = client.post(format!("http://{address}/echo")).body(large.clone());
        assert!(wait(Box::pin(text(echo)))? == large);
        let slow = wait(Box::pin(text(get("/slow").timeout(Duration::from_millis(50)))));
        assert!(slow.unwrap_err().is_timeout());
        Ok(())
    });
    // Dropping it waits for its threads.
    ramie::blocking(|| drop(tokio));
    tried
}

fn reqwest_blocking() -> Tried {
    beside_ramie_http(|address| {
        ramie::blocking(|| {
            let client = reqwest::blocking::Client::builder().no_proxy().build()?;
            let hello = client.get(format!("http://{address}/")).send()?.text()?;
            assert_eq!(hello, "hello");
            let slow = client.get(format!("http://{address}/slow"));
            let slow = slow.timeout(Duration::from_millis(50)).send();
            assert!(slow.unwrap_err().is_timeout());
            Ok(())
        })
    })
}
