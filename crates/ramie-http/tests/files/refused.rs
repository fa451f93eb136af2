//! Files where a filter of system calls refuses openat2(2), as older container runtimes do.

use ramie_http::{Files, Router};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::{
    child::in_child,
    support::{Folder, get, serve},
};

/// Answers openat2 with EPERM from now on, in this thread and those that it starts.
fn forbid_openat2() {
    let filter = SeccompFilter::new(
        [(libc::SYS_openat2, Vec::new())].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn files_are_served_where_openat2_is_forbidden() {
    // The filter stays until the process ends.
    in_child("refused::files_are_served_where_openat2_is_forbidden", serve_without_openat2);
}

fn serve_without_openat2() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("inner/b", "more");
    std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
    let router = Router::new().fallback(Files::new(folder.path()).unwrap());
    forbid_openat2();
    serve(router, |address| {
        assert_eq!(get(address, "/a", "").body, b"text");
        assert_eq!(get(address, "/inner/b", "").body, b"more");
        assert_eq!(get(address, "/none", "").status, 404);
        // Each component is opened on its own, and no link is followed.
        assert_eq!(get(address, "/link", "").status, 404);
    });
}
