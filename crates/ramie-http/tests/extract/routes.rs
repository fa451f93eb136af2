//! Routes that a router refuses, and the texts of its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ramie_http::{MethodRouter, Request, Router, any, get};

use super::{ok, read};

/// The text of the panic of `f`.
fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).err().expect("a panic");
    panic.downcast_ref::<String>().expect("a text with values").clone()
}

fn hello() -> MethodRouter {
    get(|| "hello")
}

#[test]
fn parameters_of_other_routers_are_refused_with_the_own_form() {
    for (path, segment, own) in [
        ("/users/:id", ":id", "/users/{id}"),
        ("/:", ":", "/{id}"),
        ("/users/:id/posts/:post", ":id", "/users/{id}/posts/{post}"),
        ("/f/*rest", "*rest", "/f/{*rest}"),
        ("/f/*", "*", "/f/{*path}"),
        ("/f/{path...}", "{path...}", "/f/{*path}"),
        ("/posts/{$}", "{$}", "/posts/"),
    ] {
        let text = panic_of(|| Router::new().route(path, hello()));
        let why = format!("the path {path:?} cannot be a route: `{segment}` has another meaning");
        assert!(text.starts_with(&why), "{text}");
        assert!(text.ends_with(&format!("write {own:?}")), "{text}");
        let nested = Router::new().route("/a", hello());
        assert_eq!(panic_of(|| Router::new().nest(path, nested)), text);
        assert_eq!(panic_of(|| Router::<()>::new().nest(path, Router::new())), text);
    }
}

#[test]
fn colons_and_stars_inside_of_a_segment_are_literal() {
    for (path, target) in [
        ("/users:batch", "/users:batch"),
        ("/users/{id}:cancel", "/users/7:cancel"),
        ("/a*", "/a*"),
        ("/{{a...}}", "/{a...}"),
        ("/a...", "/a..."),
    ] {
        let router = Router::new().route(path, hello());
        assert_eq!(read(router.call(Request::get(target))), ok("hello"), "{path}");
    }
}

#[test]
fn a_prefix_is_not_empty() {
    for prefix in ["", "/"] {
        let text = panic_of(|| Router::new().nest(prefix, Router::new().route("/", hello())));
        assert!(text.starts_with(&format!("{prefix:?} is no prefix: use `merge`")), "{text}");
    }
    let of = |prefix| panic_of(|| Router::<()>::new().nest(prefix, Router::new()));
    assert_eq!(of("a"), "the prefix \"a\" must begin with /");
    assert_eq!(of("/a/"), "the prefix \"/a/\" must not end with /");
}

#[test]
fn a_path_whose_method_has_two_handlers_is_named() {
    let router = || Router::new().route("/a/{b}", hello().post(|| ""));
    let text = "the path \"/a/{b}\" has two handlers for GET";
    assert_eq!(panic_of(|| router().route("/a/{b}", hello())), text);
    assert_eq!(panic_of(|| router().merge(router())), text);
    let nested = || Router::new().route("/{b}", hello());
    assert_eq!(panic_of(|| router().nest("/a", nested())), text);
    let any = || any::<_, ()>(|| "");
    let text = "the path \"/\" has two handlers for any method";
    assert_eq!(panic_of(|| Router::new().route("/", any()).route("/", any())), text);
    let text = "two handlers for GET in the methods of one path";
    assert_eq!(panic_of(|| hello().get(|| "")), text);
}
