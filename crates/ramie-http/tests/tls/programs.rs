//! Other implementations: curl and openssl, if they are installed.

use std::{fs, io::ErrorKind, path::PathBuf};

use ramie::process::{Command, Output, Stdio};

use super::*;

/// Runs a program. None: it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            None
        }
        output => Some(output.unwrap()),
    }
}

/// A file with the certificate of the authority.
fn file_of(authority: &Authority, name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, authority.pem()).unwrap();
    path
}

#[test]
fn curl_speaks_tls() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["localhost"]))).unwrap();
    let file = file_of(&authority, "curl.pem");
    with_server(Some(&tls), Limits::default(), |address| {
        let url = format!("https://localhost:{}/tls", address.port());
        for (version, text) in [("1.2", "TLSv1_2"), ("1.3", "TLSv1_3")] {
            let ca = ["--cacert", file.to_str().unwrap(), "--tls-max", version, "--http1.1"];
            let Some(output) = run("curl", &[&ca[..], &["-sS", "-4", &url]].concat()) else {
                return;
            };
            let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
            assert_eq!(out.unwrap(), format!("{text} localhost 0 false"), "{err:?}");
        }
    });
}

#[test]
fn openssl_finds_the_certificate_and_the_protocol() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["localhost"]))).unwrap();
    let file = file_of(&authority, "openssl.pem");
    with_server(Some(&tls), Limits::default(), |address| {
        let to = address.to_string();
        let file = file.to_str().unwrap();
        let arguments = ["s_client", "-connect", &to, "-CAfile", file, "-servername", "localhost"];
        let more = ["-alpn", "http/1.1", "-verify_return_error", "-brief"];
        let Some(output) = run("openssl", &[&arguments[..], &more].concat()) else { return };
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("Verification: OK"), "{text}");
        assert!(text.contains("Protocol version: TLSv1.3"), "{text}");
    });
}
