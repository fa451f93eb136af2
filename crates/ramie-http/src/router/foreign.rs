//! Parameters as other routers write them. Here they would match only their own text, or any one
//! segment.

/// Panics if a path has a parameter as another router writes it.
#[track_caller]
pub(super) fn refuse(path: &str) {
    let Some(segment) = path.split('/').find(|segment| own_form(segment).is_some()) else { return };
    let own: Vec<_> =
        path.split('/').map(|segment| own_form(segment).unwrap_or(segment.to_owned())).collect();
    panic!(
        "the path {path:?} cannot be a route: `{segment}` has another meaning here; write {:?}",
        own.join("/")
    );
}

/// Returns this router's form of a segment that another router understands: `{id}` for the `:id`
/// of axum before 0.8, `{*rest}` for its `*rest` and for the `{rest...}` of Go, nothing for Go's
/// `{$}`.
fn own_form(segment: &str) -> Option<String> {
    if segment == "{$}" {
        return Some(String::new());
    }
    if let Some(name) = segment.strip_prefix(':') {
        return Some(format!("{{{}}}", name_or(name, "id")));
    }
    let rest = segment.strip_prefix('*');
    let name = rest.or_else(|| segment.strip_prefix('{')?.strip_suffix("...}"))?;
    Some(format!("{{*{}}}", name_or(name, "path")))
}

fn name_or<'a>(name: &'a str, default: &'a str) -> &'a str {
    if name.is_empty() { default } else { name }
}
