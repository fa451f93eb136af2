//! The parameters of a route, with their values in a request.

use std::fmt;

use percent_encoding::percent_decode_str;

/// Memory for texts up to this size is kept for the next request.
const TEXT_KEPT: usize = 1 << 10;
/// Memory for up to this number of parameters is kept.
const PARAMS_KEPT: usize = 16;

/// Names and decoded values in the order of the route. All texts lie in one, so that a request
/// makes no allocation if an earlier one has left its memory.
#[derive(Default)]
pub(crate) struct RouteParams {
    text: String,
    /// Where each name and each value ends; the next name begins behind the value.
    ends: Vec<(usize, usize)>,
}

impl RouteParams {
    /// Adds a parameter with the escapes of its value. Returns false if the value is not UTF-8.
    pub(crate) fn push(&mut self, name: &str, escaped: &str) -> bool {
        self.text.push_str(name);
        let end_of_name = self.text.len();
        if escaped.contains('%') {
            let Ok(value) = percent_decode_str(escaped).decode_utf8() else { return false };
            self.text.push_str(&value);
        } else {
            self.text.push_str(escaped);
        }
        self.ends.push((end_of_name, self.text.len()));
        true
    }

    /// Names and values.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.ends.iter().enumerate().map(|(at, &(end_of_name, end))| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
            (&self.text[start..end_of_name], &self.text[end_of_name..end])
        })
    }

    /// Forgets the parameters, and gives memory back if there is much of it.
    pub(crate) fn forget(&mut self) {
        if self.text.capacity() > TEXT_KEPT || self.ends.capacity() > PARAMS_KEPT {
            *self = RouteParams::default();
        }
        self.text.clear();
        self.ends.clear();
    }
}

impl fmt::Debug for RouteParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{RouteParams, TEXT_KEPT};

    #[test]
    fn values_are_decoded_and_stay_with_their_names() {
        let mut params = RouteParams::default();
        let escaped = [("city", "K%C3%B6ln"), ("a", ""), ("", "%25"), ("zip", "50667")];
        assert!(escaped.iter().all(|(name, value)| params.push(name, value)));
        let decoded = [("city", "K\u{f6}ln"), ("a", ""), ("", "%"), ("zip", "50667")];
        assert_eq!(params.iter().collect::<Vec<_>>(), decoded);
        assert_eq!(params.iter().len(), 4);
        assert!(!params.push("b", "%ff"));
        params.forget();
        assert!(params.iter().len() == 0 && params.text.capacity() > 0);
        assert!(params.push("b", &"c".repeat(TEXT_KEPT)));
        params.forget();
        assert_eq!(params.text.capacity(), 0, "much memory is not kept");
    }
}
