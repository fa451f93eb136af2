//! The routes without parameters, which are found without a walk through the table of all routes.

/// Paths without parameters, by their lengths; those of one length are sorted.
#[derive(Default)]
pub(super) struct Literals {
    by_length: Vec<Vec<(Box<str>, usize)>>,
}

impl Literals {
    /// Adds a path, unless it has parameters. A brace is of a parameter, or is an escape.
    pub(super) fn add(&mut self, path: &str, at: usize) {
        if path.contains(['{', '}']) {
            return;
        }
        if self.by_length.len() <= path.len() {
            self.by_length.resize_with(path.len() + 1, Vec::new);
        }
        let alike = &mut self.by_length[path.len()];
        let before = alike.partition_point(|(own, _)| **own < *path);
        alike.insert(before, (path.into(), at));
    }

    /// The number that was added with this path. No route with parameters precedes it, so the table
    /// of all routes would find the same.
    #[inline]
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        let alike = self.by_length.get(path.len())?;
        let at = alike.binary_search_by(|(own, _)| (**own).cmp(path)).ok()?;
        Some(alike[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::Literals;

    #[test]
    fn a_path_without_parameters_is_found_as_in_the_table() {
        let paths = [
            "/",
            "/a",
            "/b",
            "/{x}",
            "/a/b",
            "/a/{x}",
            "/{x}/b",
            "/f/{*rest}",
            "/f/a",
            "/{{a}}",
            "/c",
        ];
        let mut literals = Literals::default();
        let mut table = matchit::Router::new();
        for (at, path) in paths.into_iter().enumerate() {
            literals.add(path, at);
            table.insert(path, at).unwrap();
        }
        for path in paths.into_iter().chain(["", "/d", "/ab", "/a/c", "/c/b", "/f/b", "/{a}"]) {
            match literals.find(path) {
                Some(at) => assert_eq!(table.at(path).map(|found| *found.value), Ok(at)),
                None => assert!(!paths.contains(&path) || path.contains('{'), "{path:?}"),
            }
        }
    }
}
