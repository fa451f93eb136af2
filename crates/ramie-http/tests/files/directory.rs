//! The handler for the files of a directory.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
};

use ramie_http::{Files, Method, Request, Response, Router, get as on_get};

use crate::support::{Folder, exchange, get, serve};

fn site() -> Folder {
    let folder = Folder::new();
    folder.write("root/index.html", "<p>home");
    folder.write("root/a.txt", "text");
    folder.write("root/a b.txt", "spaces");
    folder.write("root/inner/b.css", "b {}");
    folder.write("root/pages/index.html", "<p>pages");
    folder.write("root/.hidden", "hidden");
    folder.write("root/.git/config", "hidden");
    folder.write("root/inner/..names", "hidden");
    folder.write("secret", "secret");
    symlink("../secret", folder.path().join("root/out")).unwrap();
    symlink("..", folder.path().join("root/up")).unwrap();
    symlink("a.txt", folder.path().join("root/link.txt")).unwrap();
    folder
}

fn files(folder: &Folder) -> Files {
    Files::new(folder.path().join("root")).unwrap()
}

fn router(files: Files) -> Router {
    Router::new().route("/", on_get(files.clone())).route("/{*path}", on_get(files))
}

fn call(router: &Router, target: &str) -> Response {
    router.call(Request::get(target))
}

fn text(response: Response) -> String {
    let bytes = response.into_body().into_bytes(1 << 20).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn files_are_served_with_their_facts() {
    let folder = site();
    let router = router(files(&folder).cache_control("max-age=60"));
    let response = call(&router, "/a.txt");
    assert_eq!(response.status(), 200);
    let headers = response.headers().clone();
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["cache-control"], "max-age=60");
    assert_eq!(headers["accept-ranges"], "bytes");
    assert!(headers["etag"].to_str().unwrap().starts_with('"'));
    assert!(headers.contains_key("last-modified") && !headers.contains_key("vary"));
    assert_eq!(text(response), "text");
    for (target, content) in [
        ("/", "<p>home"),
        ("/a%20b.txt", "spaces"),
        ("/inner/b.css?v=1", "b {}"),
        ("/link.txt", "text"),
    ] {
        assert_eq!(text(call(&router, target)), content, "{target}");
    }
}

#[test]
fn nothing_outside_of_the_directory_is_served() {
    let folder = site();
    let router = router(files(&folder).hidden().listing());
    for target in [
        "/../secret",
        "/%2e%2e/secret",
        "/.%2E/secret",
        "/inner/../../secret",
        "/..%2fsecret",
        "/inner/..%2f..%2fsecret",
        "/..%5csecret",
        "//secret",
        "/%2f/secret",
        "/out",
        "/up/secret",
        "/up/",
        "/a.txt%00",
        "/a.txt%00.html",
        "/./a.txt",
        "/a.txt/",
        "/inner//b.css",
        "/none",
        "/%2e%2e%2fsecret",
        "/inner%2fb.css",
        "/a.txt/b",
    ] {
        let response = call(&router, target);
        assert_eq!(response.status(), 404, "{target}");
        assert!(!text(response).contains("secret"), "{target}");
    }
    let absolute = format!("/{}", folder.path().join("secret").display());
    assert_eq!(call(&router, &absolute).status(), 404);
}

#[test]
fn hidden_files_are_served_only_if_asked_for() {
    let folder = site();
    for target in ["/.hidden", "/.git/config", "/.git", "/%2ehidden", "/inner/..names"] {
        assert_eq!(call(&router(files(&folder)), target).status(), 404, "{target}");
    }
    assert_eq!(text(call(&router(files(&folder).hidden()), "/.git/config")), "hidden");
}

#[test]
fn directories_have_an_index_or_a_listing() {
    let folder = site();
    folder.write("root/inner/<b>&", "");
    folder.write("root/inner/deep/file", "");
    let plain = router(files(&folder));
    assert_eq!(text(call(&plain, "/pages/")), "<p>pages");
    assert_eq!(call(&plain, "/inner/").status(), 404);
    let redirect = call(&plain, "/inner?a=b");
    assert_eq!(
        (redirect.status().as_u16(), &redirect.headers()["location"]),
        (308, &"/inner/?a=b".parse().unwrap())
    );
    let listing = router(files(&folder).listing());
    assert_eq!(text(call(&listing, "/pages/")), "<p>pages");
    let response = call(&listing, "/inner/");
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    let page = text(response);
    assert!(page.contains("<a href=\"./%3Cb%3E%26\">&lt;b&gt;&amp;</a>"), "{page}");
    assert!(page.contains("<a href=\"./deep/\">deep/</a>") && !page.contains("..names"), "{page}");
}

#[test]
fn a_router_of_files_has_a_prefix() {
    let folder = site();
    let router = Router::new()
        .route("/", on_get(|| "home"))
        .merge(files(&folder).prefix("/static").router());
    assert_eq!(text(call(&router, "/")), "home");
    assert_eq!(text(call(&router, "/static/")), "<p>home");
    assert_eq!(text(call(&router, "/static/a.txt")), "text");
    assert_eq!(call(&router, "/static").headers()["location"], "/static/");
    assert_eq!(call(&router, "/a.txt").status(), 404);
    let fallback: Router = Router::new().fallback(files(&folder));
    assert_eq!(text(call(&fallback, "/inner/b.css")), "b {}");
}

#[test]
fn other_methods_get_405() {
    let folder = site();
    let router: Router = files(&folder).router();
    for target in ["/", "/a.txt", "/none"] {
        let response = router.call(Request::post(target, "body"));
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()["allow"], "GET, HEAD");
        let unknown = Request::new(Method::from_bytes(b"BREW").unwrap(), target);
        assert_eq!(router.call(unknown).status(), 501);
    }
}

#[test]
fn only_regular_files_are_served() {
    let folder = site();
    let pipe = folder.path().join("root/pipe");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    let _socket =
        std::os::unix::net::UnixListener::bind(folder.path().join("root/socket")).unwrap();
    let router = router(files(&folder));
    assert_eq!(call(&router, "/pipe").status(), 404);
    assert_eq!(call(&router, "/socket").status(), 404);
}

#[test]
fn a_file_that_must_not_be_read_gets_403() {
    let folder = site();
    let path = folder.write("root/locked", "locked");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let expected = match fs::File::open(&path) {
        // An administrator may read all files.
        Ok(_) => 200,
        Err(_) => 403,
    };
    assert_eq!(call(&router(files(&folder)), "/locked").status(), expected);
}

/// Runs `f` as a user without rights, also if root runs the test.
fn without_rights<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::uid_t = 65534;
    let f = || {
        if rustix::process::geteuid().is_root() {
            // SAFETY: changes only the thread, because libc is not asked to change all of them.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(changed, 0, "{}", std::io::Error::last_os_error());
        }
        f()
    };
    std::thread::scope(|threads| threads.spawn(f).join().unwrap())
}

#[test]
fn a_directory_that_cannot_be_served_is_named() {
    let folder = site();
    let locked = folder.path().join("root/locked");
    fs::create_dir_all(locked.join("inner")).unwrap();
    let set_mode = |mode| fs::set_permissions(&locked, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o000);
    for (path, kind) in [
        (folder.path().join("none"), ErrorKind::NotFound),
        (folder.path().join("secret"), ErrorKind::NotADirectory),
        (locked.clone(), ErrorKind::PermissionDenied),
        (locked.join("inner"), ErrorKind::PermissionDenied),
    ] {
        let error = without_rights(|| Files::new(&path).unwrap_err());
        assert_eq!(error.kind(), kind, "{error}");
        let expected = format!("cannot serve the files of {}: ", path.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    set_mode(0o444);
    without_rights(|| Files::new(&locked).unwrap_err());
    // Without the right to read, names that the client knows are served.
    set_mode(0o755);
    folder.write("root/locked/a", "text");
    set_mode(0o111);
    let answers = without_rights(|| {
        let router = router(Files::new(&locked).unwrap());
        (text(call(&router, "/a")), call(&router, "/").status().as_u16())
    });
    set_mode(0o755);
    assert_eq!(answers, ("text".to_owned(), 403));
}

#[test]
fn variants_are_chosen_by_what_the_client_accepts() {
    let folder = site();
    folder.write("root/a.txt.gz", "in gzip");
    folder.write("root/a.txt.br", "in brotli");
    fs::create_dir(folder.path().join("root/a.txt.zst")).unwrap();
    let router = router(files(&folder).precompressed());
    let ask = |accepted: &str| {
        router.call(Request::get("/a.txt").with_header("accept-encoding", accepted))
    };
    let mut tags = Vec::new();
    for (accepted, coding, content) in [
        ("gzip, br, zstd", Some("br"), "in brotli"),
        ("gzip, br;q=0.5", Some("gzip"), "in gzip"),
        ("zstd, gzip;q=0.5", Some("gzip"), "in gzip"),
        ("zstd", None, "text"),
        ("br;q=0, identity", None, "text"),
        ("", None, "text"),
    ] {
        let response = ask(accepted);
        let headers = response.headers();
        let found = headers.get("content-encoding").map(|value| value.to_str().unwrap());
        assert_eq!(found, coding, "{accepted}");
        assert_eq!(headers["vary"], "accept-encoding");
        assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
        tags.push(headers["etag"].clone());
        assert_eq!(text(response), content);
    }
    assert!(tags[0] != tags[1] && tags[1] != tags[3] && tags[3] == tags[5]);
    let other = call(&router, "/inner/b.css");
    assert_eq!(other.headers()["vary"], "accept-encoding");
    assert_eq!(text(other), "b {}");
}

#[test]
fn files_arrive_over_sockets() {
    let folder = site();
    let large: Vec<u8> = (0..3_u32 << 18).flat_map(u32::to_le_bytes).collect();
    folder.write("root/large.bin", &large);
    let router = files(&folder).router();
    serve(router, move |address| {
        let reply = get(address, "/large.bin", "");
        assert_eq!((reply.status, reply.header("content-length")), (200, Some("3145728")));
        assert!(reply.body == large);
        let part = get(address, "/large.bin", "range: bytes=1000000-1999999\r\n");
        assert_eq!(part.status, 206);
        assert_eq!(part.header("content-range"), Some("bytes 1000000-1999999/3145728"));
        assert!(part.body == large[1_000_000..2_000_000]);
        let head = "HEAD /large.bin HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let head = String::from_utf8(exchange(address, head)).unwrap();
        assert!(head.contains("content-length: 3145728\r\n") && head.ends_with("\r\n\r\n"));
        let tag = reply.header("etag").unwrap();
        let known = get(address, "/large.bin", &format!("if-none-match: {tag}\r\n"));
        assert_eq!((known.status, known.body.len()), (304, 0));
        // A client that does not normalise paths.
        assert_eq!(get(address, "/../secret", "").status, 404);
        assert_eq!(get(address, "/%2e%2e/secret", "").status, 404);
    });
}
