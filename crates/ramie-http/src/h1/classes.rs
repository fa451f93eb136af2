//! Classes of bytes, and how many bytes at the start of a text are of a class.

/// One of the bits of [`CLASSES`].
pub(super) type Class = u8;

/// The bytes of a path, without those of escapes (RFC 3986, section 3.3).
pub(super) const PATH: Class = 1;
/// The bytes of a query, without those of escapes. RFC 3986, section 3.4, excludes some of these,
/// but browsers send them, and no server reads them differently.
pub(super) const QUERY: Class = 1 << 1;
/// The bytes of the name of a host. RFC 3986 allows also escapes and the delimiters
/// `!$&'()*+,;=`; no host's name has them, and a comma is how two Hosts look that somebody has
/// joined.
pub(super) const HOST: Class = 1 << 2;

/// The classes of each byte.
const CLASSES: [Class; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                PATH | QUERY | HOST
            }
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {
                PATH | QUERY
            }
            b':' | b'@' | b'/' => PATH | QUERY,
            b'?' | b'[' | b']' | b'|' | b'^' | b'`' | b'{' | b'}' => QUERY,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// How many bytes at the start are of a class. Four at a time, because a branch for each byte would
/// cost more than the look at its class.
#[inline(never)]
pub(super) fn length_of(text: &[u8], class: Class) -> usize {
    let class_of = |byte: u8| CLASSES[usize::from(byte)];
    let mut length = 0;
    while let Some(&[a, b, c, d]) = text[length..].first_chunk()
        && class_of(a) & class_of(b) & class_of(c) & class_of(d) & class != 0
    {
        length += 4;
    }
    while let Some(byte) = text.get(length)
        && class_of(*byte) & class != 0
    {
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::{HOST, PATH, QUERY, length_of};

    #[test]
    fn a_run_ends_at_the_first_byte_of_another_class() {
        let classes = [(PATH, b'/', b'?'), (QUERY, b'?', b'#'), (HOST, b'-', b':')];
        for (class, inside, outside) in classes {
            for length in 0..13 {
                let run = vec![inside; length];
                assert_eq!(length_of(&run, class), length);
                let longer = [&run[..], &[outside], &run].concat();
                assert_eq!(length_of(&longer, class), length, "{longer:?}");
            }
        }
    }
}
