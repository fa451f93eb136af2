//! Ranges and conditions as curl asks for them.

use std::{
    io::{self, Write},
    process::Command,
};

use ramie_http::Files;

use crate::support::{Folder, serve};

fn curl(arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "30"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn curl_gets_ranges() {
    if Command::new("curl").arg("--version").output().is_err() {
        // Not by `eprintln!`, whose text the test program shows of failed tests only.
        let _ = writeln!(io::stderr(), "SKIPPED curl_gets_ranges: curl is not installed");
        return;
    }
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    folder.write("root/file.bin", &bytes);
    let half = folder.write("half", &bytes[..500_000]);
    let tag = folder.path().join("tag");
    let router = Files::new(folder.path().join("root")).unwrap().router();
    serve(router, move |address| {
        let url = format!("http://{address}/file.bin");
        assert!(curl(&["--range", "0-99", &url]) == bytes[..100]);
        assert!(curl(&["--range", "-70000", &url]) == bytes[bytes.len() - 70_000..]);
        assert!(curl(&["--range", "1000-", &url]) == bytes[1000..]);
        let several = curl(&["--range", "0-9,100-109", &url]);
        let text = String::from_utf8_lossy(&several);
        assert!(text.contains("content-range: bytes 0-9/1048576\r\n"), "{text}");
        assert!(several.windows(10).any(|ten| ten == &bytes[100..110]));

        let half_path = half.to_str().unwrap();
        curl(&["--continue-at", "-", "--output", half_path, &url]);
        assert!(std::fs::read(&half).unwrap() == bytes);

        let tag = tag.to_str().unwrap();
        let status = ["--write-out", "%{http_code}", "--output", "/dev/null"];
        let first = curl(&[&status[..], &["--etag-save", tag, &url]].concat());
        let second = curl(&[&status[..], &["--etag-compare", tag, &url]].concat());
        assert_eq!((&first[..], &second[..]), (&b"200"[..], &b"304"[..]));
        let behind = curl(&[&status[..], &["--range", "1048576-", &url]].concat());
        assert_eq!(behind, b"416");
    });
}
