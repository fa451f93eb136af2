//! Generates the gRPC service of `src/sections/grpc`, without protoc.

use tonic_build::manual::{Builder, Method, Service};

const MESSAGE: &str = "crate::sections::grpc::Text";

fn method(name: &str, route: &str) -> tonic_build::manual::MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(MESSAGE)
        .output_type(MESSAGE)
        .codec_path("tonic_prost::ProstCodec")
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let echo = Service::builder()
        .name("Echo")
        .package("ecosystem")
        .method(method("unary", "Unary").build())
        .method(method("up", "Up").client_streaming().build())
        .method(method("down", "Down").server_streaming().build())
        .method(method("both", "Both").client_streaming().server_streaming().build())
        .build();
    Builder::new().compile(&[echo]);
}
