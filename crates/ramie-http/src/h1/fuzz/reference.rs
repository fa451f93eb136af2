//! The grammar once more, slowly and plainly, to be compared with the parsers.

/// Whether a head that was accepted may be one, by RFC 9112, sections 2 to 6.
pub(super) fn assert_is_head(head: &[u8]) {
    let text = head.strip_suffix(b"\r\n\r\n").expect("an end");
    let lines: Vec<_> = split_lines(text);
    for byte in lines.iter().flat_map(|line| line.iter()) {
        let is_control = *byte < b' ' && *byte != b'\t' || *byte == 0x7f;
        assert!(!is_control, "a control byte was accepted");
    }
    let words: Vec<_> = lines[0].split(|byte| *byte == b' ').collect();
    assert_eq!(words.len(), 3, "a line has three words");
    assert!(is_token(words[0]) && !words[1].is_empty());
    assert!(matches!(words[2], b"HTTP/1.1" | b"HTTP/1.0"));
    let (mut hosts, mut lengths, mut codings) = (0, 0, 0);
    for field in &lines[1..] {
        let colon = field.iter().position(|byte| *byte == b':').expect("a colon");
        assert!(is_token(&field[..colon]), "a name is no token");
        match &*String::from_utf8_lossy(&field[..colon]).to_ascii_lowercase() {
            "host" => hosts += 1,
            "content-length" => lengths += 1,
            "transfer-encoding" => codings += 1,
            _ => {}
        }
    }
    assert!(hosts == 1 || hosts == 0 && words[2] == b"HTTP/1.0");
    assert!(lengths <= 1 && (codings == 0 || lengths == 0 && words[2] == b"HTTP/1.1"));
}

fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    lines
}

pub(super) fn is_token(word: &[u8]) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !word.is_empty() && word.iter().all(is_of_token)
}

/// The data of a body in chunks, and the number of its bytes; none if it is malformed or
/// incomplete. Extensions and trailers are checked for control bytes and line ends only.
pub(super) fn decode_chunks(body: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut data = Vec::new();
    let mut at = 0;
    loop {
        let line = line_at(body, at)?;
        at += line.len() + 2;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let rest = &line[digits..];
        let is_extended = rest.iter().find(|byte| !b" \t".contains(byte)) == Some(&b';');
        if digits == 0 || digits > 16 || !(rest.is_empty() || is_extended) {
            return None;
        }
        let size = u64::from_str_radix(str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).ok()?;
        let chunk = body.get(at..at.checked_add(size)?)?;
        data.extend_from_slice(chunk);
        at += size;
        if body.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
    loop {
        let line = line_at(body, at)?;
        at += line.len() + 2;
        if line.is_empty() {
            return Some((data, at));
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        if !is_token(&line[..colon]) {
            return None;
        }
    }
}

/// The line that begins here, without its end; none if it has a control byte but tabs.
fn line_at(body: &[u8], at: usize) -> Option<&[u8]> {
    let rest = body.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let is_control = |byte: &u8| *byte < b' ' && *byte != b'\t' || *byte == 0x7f;
    (!rest[..end].iter().any(is_control)).then(|| &rest[..end])
}
