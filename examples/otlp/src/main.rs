//! Serves some requests and exports their spans to a collector, by default on this machine.
//!
//! ```sh
//! export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
//! cargo run --manifest-path examples/otlp/Cargo.toml
//! ```

use std::{env, error::Error};

use ramie_otlp_example::{provider, serve_all, subscriber};
use ramie_tracing::PerFiber;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = env::var("OTEL_EXPORTER_OTLP_ENDPOINT");
    let provider = provider(endpoint.as_deref().unwrap_or("http://127.0.0.1:4318"))?;
    PerFiber::new(subscriber(&provider)).init();
    let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    ramie::run(|| serve_all(caller));
    // Sends the rest, and waits for it; not on a fiber, whose worker it would block.
    provider.shutdown()?;
    Ok(())
}
