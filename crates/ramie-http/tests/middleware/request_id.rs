//! Ids of requests.

use ramie_http::{
    Next, Request, Router, StatusCode, get,
    middleware::{RequestId, request_id},
};

fn answered(request: Request) -> (String, String) {
    let show = |id: RequestId| ([("x-request-id", "of the handler")], id.to_string());
    let response = Router::new().route("/", get(show)).layer(request_id).call(request);
    let header = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    let body = response.into_body().into_bytes(1000).expect("a body");
    (header, String::from_utf8(body.into()).expect("text"))
}

#[test]
fn a_valid_id_of_the_client_is_kept_and_others_are_replaced() {
    let (header, of_handler) = answered(Request::get("/").with_header("x-request-id", "a-7"));
    assert_eq!((header.as_str(), of_handler.as_str()), ("a-7", "a-7"));
    for request in [Request::get("/"), Request::get("/").with_header("x-request-id", "two words")] {
        let (header, of_handler) = answered(request);
        assert_eq!(header, of_handler);
        assert!(header.len() == 32 && header.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

#[test]
fn all_responses_have_the_id_and_inner_layers_see_it() {
    let router = Router::new()
        .layer(|request: Request, next: Next<'_>| {
            let id: &RequestId = request.extensions().get().expect("the outer layer has run");
            assert_eq!(&**id, "a");
            next.call(request)
        })
        .layer(request_id);
    let response = router.call(Request::get("/nothing").with_header("x-request-id", "a"));
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(response.headers()["x-request-id"], "a");
}

#[test]
fn a_router_without_the_layer_is_a_500() {
    let router = Router::new().route("/", get(|id: RequestId| id.to_string()));
    assert_eq!(router.call(Request::get("/")).status(), StatusCode::INTERNAL_SERVER_ERROR);
}
