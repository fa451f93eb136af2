//! curl, if it is installed and speaks HTTP/2.

use ramie::process::{Command, Stdio};
use ramie_http::{Tls, TlsConfig};

use super::*;

/// What curl prints. None: it is not installed, or does not speak HTTP/2.
fn curl(arguments: &[&str]) -> Option<String> {
    let version = Command::new("curl").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|text| text.contains("HTTP2")) {
        eprintln!("skipped: there is no curl with HTTP/2");
        return None;
    }
    let output = Command::new("curl").args(arguments).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn router() -> Router {
    Router::new().route("/", get(|| "hello")).route("/", post(|body: ramie_http::Body| body))
}

#[test]
fn curl_knows_that_the_server_speaks_http_2() {
    with_server(router(), Limits::default(), |address, _| {
        let url = format!("http://{address}/");
        let format = ["-sS", "-w", " %{http_version}", &url];
        let Some(told) = curl(&[&["--http2-prior-knowledge"], &format[..]].concat()) else {
            return;
        };
        assert_eq!(told, "hello 2");
        // The upgrade of HTTP/1.1 was taken out of the standard (RFC 9113), so the server answers
        // by HTTP/1.1.
        assert_eq!(curl(&[&["--http2"], &format[..]].concat()).unwrap(), "hello 1.1");
        let body = "x".repeat(100_000);
        let posted = curl(&[&["--http2-prior-knowledge", "-d", &body], &format[..]].concat());
        assert_eq!(posted.unwrap(), format!("{body} 2"));
    });
}

#[test]
fn curl_chooses_the_protocol_by_alpn() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::new(TlsConfig::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()).unwrap();
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().tls(&tls);
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let serving = fiber::spawn(move || server.serve(router()));
        let url = format!("https://{address}/");
        let format = ["-sSk", "-w", " %{http_version}", &url];
        for (argument, wanted) in [("--http2", "hello 2"), ("--http1.1", "hello 1.1")] {
            if let Some(told) = curl(&[&[argument], &format[..]].concat()) {
                assert_eq!(told, wanted);
            }
        }
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}

/// hyper cannot send 100, so curl sends the body when it has waited as long as it likes.
#[test]
fn curl_sends_a_body_without_100() {
    with_server(router(), Limits::default(), |address, _| {
        let url = format!("http://{address}/");
        let ask = |arguments: &[&str]| {
            let format = ["-sS", "-w", " %{http_version} %{http_code}", &url];
            curl(&[&["--http2-prior-knowledge"], arguments, &format].concat())
        };
        let expect = ["-H", "Expect: 100-continue", "--expect100-timeout", "0.1", "-d", "hello"];
        let Some(told) = ask(&expect) else { return };
        assert_eq!(told, "hello 2 200");
        assert_eq!(ask(&["-H", "Expect: other"]).unwrap(), " 2 417");
    });
}
