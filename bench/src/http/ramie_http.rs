//! Servers on the crate `ramie-http`.

use std::io;

use ramie_http::{
    Router, Server,
    extract::{Host, Path},
    get, post,
};

use super::request;

/// The request of the bench to [`full`].
pub const FULL_PATH: &str = "/users/42/greeting";

/// One route.
pub fn hello() -> Router {
    Router::new().route("/", get(request::body))
}

/// Several routes, of which the requested one has a parameter, a field of the request, and a field
/// of the response.
pub fn full() -> Router {
    let greet = |Path(user): Path<u32>, Host(host): Host| {
        // The client has asked for this user, at a host with a port.
        assert!(user == 42 && host.contains(':'), "{user} at {host}");
        ([("cache-control", "no-store")], request::body())
    };
    let page = || request::body();
    Router::new()
        .route("/", get(page))
        .route("/health", get(page))
        .route("/users", get(page).post(page))
        .route("/users/{id}", get(page).delete(page))
        .route("/users/{id}/greeting", get(greet))
        .route("/users/{id}/notes/{note}", get(page).put(page))
        .route("/files/{*path}", get(page))
        .route("/login", post(page))
}

/// Serves with the default limits.
pub fn serve(router: Router, workers: usize) -> io::Result<()> {
    let runtime = ::ramie::Runtime::builder().workers(workers).build().map_err(io::Error::other)?;
    runtime.run(|| {
        let server = Server::bind("127.0.0.1:0")?;
        println!("listening on {}", server.local_addr()?);
        server.serve(router)
    })
}

#[cfg(test)]
mod tests {
    use ramie_http::{Request, Router, StatusCode};

    use super::{FULL_PATH, full, hello};
    use crate::http::request::{self, tests::TESTED};

    #[test]
    fn both_answer_the_requests_of_the_bench() {
        TESTED.begin();
        let answer = |router: Router, path: &str| {
            let request = Request::get(path).with_header("host", "127.0.0.1:80");
            let response = router.call(request);
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            response.into_body().into_bytes(100).unwrap()
        };
        assert_eq!(answer(hello(), "/"), request::body());
        assert_eq!(answer(full(), FULL_PATH), request::body());
    }
}
