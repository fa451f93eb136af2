//! Serves the files of a directory.

mod listing;
mod open;
mod path;
mod types;

use std::{
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY},
};
use ramie::fs::File;
use rustix::{fs::FileType, io::Errno};

use self::{
    open::{Opened, open_below},
    path::FilePath,
};
use crate::{
    coding::Accepted,
    conditional::{self, ETag, Representation},
    handler::Handler,
    request::{Parts, Request},
    response::{Html, IntoResponse, Redirect, Response, is_of_http, method_not_allowed},
    router::{Router, any},
};

/// The files of a directory, as a handler.
///
/// It answers GET and HEAD for the path of a request, below the directory that was opened by
/// [`new`](Self::new):
///
/// | the path | response |
/// |---|---|
/// | names a regular file | the file, or parts of it: see [`conditional`](crate::conditional) |
/// | names a directory and ends with a slash | its `index.html`; otherwise 404, or a [listing](Self::listing) |
/// | names a directory without a slash | 308 to the path with the slash |
/// | has `..`, an escaped slash, a backslash, an empty segment or a NUL | 404 |
/// | has a name that begins with a dot | 404, unless [hidden files](Self::hidden) are served |
/// | leads out of the directory by a symbolic link | 404 |
/// | names something else, such as a pipe | 404 |
/// | must not be read | 403 |
///
/// Symbolic links that stay in the directory are followed; where the kernel refuses openat2(2),
/// none is. If the directory is renamed, its files are still served, and not those of a directory
/// that takes its name.
///
/// Files are sent without copying them through the program. Their tags are strong: they are made
/// of the inode, the size, and the time of the last change in nanoseconds.
///
/// # Examples
/// ```
/// use ramie_http::{Files, Request, Router, get};
/// # let dir = std::env::temp_dir().join(format!("ramie-http-doc-files-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # std::fs::write(dir.join("index.html"), "<p>hello")?;
///
/// let files = Files::new(&dir)?.cache_control("max-age=3600");
/// let router = Router::new().route("/", get(files.clone())).route("/{*path}", get(files));
/// let page = router.call(Request::get("/"));
/// assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
/// assert_eq!(page.into_body().into_bytes(100)?, "<p>hello");
/// assert_eq!(router.call(Request::get("/%2e%2e/secret")).status(), 404);
///
/// // The same below a path:
/// let files = Files::new(&dir)?.prefix("/static").router();
/// let router = Router::new().route("/", get(|| "home")).merge(files);
/// assert_eq!(router.call(Request::get("/static/index.html")).status(), 200);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Files {
    root: Arc<OwnedFd>,
    prefix: String,
    cache_control: Option<HeaderValue>,
    serves_hidden: bool,
    has_listing: bool,
    has_variants: bool,
}

/// The file that a directory is answered with.
const INDEX: &str = "index.html";

impl Files {
    /// Opens a directory. If the process may search it but must not read it, the files below are
    /// served, and a request for the directory itself gets 403.
    ///
    /// # Errors
    /// The path does not exist, is not a directory, or the process must not search the directory or
    /// one that the path leads through. The error names the path.
    pub fn new(directory: impl AsRef<Path>) -> io::Result<Self> {
        let directory = directory.as_ref();
        let root = open::open_root(directory).map_err(|error| {
            let directory = directory.display();
            io::Error::new(error.kind(), format!("cannot serve the files of {directory}: {error}"))
        })?;
        Ok(Files {
            root: Arc::new(root),
            prefix: String::new(),
            cache_control: None,
            serves_hidden: false,
            has_listing: false,
            has_variants: false,
        })
    }

    /// The path in front of the names of files, such as `/static`. Other paths get 404.
    ///
    /// # Panics
    /// If it does not begin with `/`, or ends with one.
    #[must_use]
    #[track_caller]
    pub fn prefix(mut self, prefix: &str) -> Self {
        assert!(
            prefix.starts_with('/') && !prefix.ends_with('/'),
            "the prefix {prefix:?} must begin with / and not end with it"
        );
        self.prefix = prefix.to_owned();
        self
    }

    /// Sets the field Cache-Control of files, such as `public, max-age=3600`.
    ///
    /// # Panics
    /// If it cannot be the value of a header.
    #[must_use]
    #[track_caller]
    pub fn cache_control(mut self, value: &str) -> Self {
        self.cache_control = Some(value.parse().expect("the value of Cache-Control"));
        self
    }

    /// Serves files and directories whose names begin with a dot, too.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.serves_hidden = true;
        self
    }

    /// Answers directories without an `index.html` by a page with the names in them, up to 10,000.
    #[must_use]
    pub fn listing(mut self) -> Self {
        self.has_listing = true;
        self
    }

    /// Looks beside each file for the same in a content coding, by the endings `.br`, `.zst` and
    /// `.gz`, and sends the one that the client likes best.
    #[must_use]
    pub fn precompressed(mut self) -> Self {
        self.has_variants = true;
        self
    }

    /// A router with the prefix and all paths below it, for [`Router::merge`]. To
    /// [`nest`](Router::nest) a router of files without [`prefix`](Self::prefix) finds no file,
    /// because handlers see the whole path.
    pub fn router<S: Send + Sync + 'static>(self) -> Router<S> {
        let prefix = self.prefix.clone();
        let mut router = Router::new();
        if !prefix.is_empty() {
            router = router.route(&prefix, any(self.clone()));
        }
        router
            .route(&format!("{prefix}/"), any(self.clone()))
            .route(&format!("{prefix}/{{*path}}"), any(self))
    }

    fn answer(&self, request: &Parts) -> Response {
        match request.method() {
            &Method::GET | &Method::HEAD => {}
            method if is_of_http(method) => return method_not_allowed("GET, HEAD"),
            _ => return StatusCode::NOT_IMPLEMENTED.into_response(),
        }
        let path = FilePath::parse(request.path(), &self.prefix, self.serves_hidden);
        let Some(path) = path else { return StatusCode::NOT_FOUND.into_response() };
        self.find(request, &path).unwrap_or_else(|error| refusal(&error))
    }

    fn find(&self, request: &Parts, path: &FilePath) -> io::Result<Response> {
        let opened = open_below(self.root.as_fd(), &path.path)?;
        match (opened.kind, path.has_slash) {
            (FileType::RegularFile, false) => Ok(self.file(request, &path.path, opened)),
            (FileType::Directory, false) => Ok(with_slash(request)),
            (FileType::Directory, true) => self.directory(request, &path.path, &opened),
            _ => Ok(StatusCode::NOT_FOUND.into_response()),
        }
    }

    fn directory(&self, request: &Parts, path: &Path, opened: &Opened) -> io::Result<Response> {
        let index = path.join(INDEX);
        match open_below(self.root.as_fd(), &index) {
            Ok(file) if file.kind == FileType::RegularFile => {
                return Ok(self.file(request, &index, file));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ if !self.has_listing => return Ok(StatusCode::NOT_FOUND.into_response()),
            _ => {}
        }
        let names = listing::read(&opened.fd, self.serves_hidden)?;
        let shown = percent_encoding::percent_decode_str(request.path()).decode_utf8_lossy();
        let page = listing::page(&shown, &names, !path.as_os_str().is_empty());
        Ok(Html(page).into_response())
    }

    fn file(&self, request: &Parts, path: &Path, mut opened: Opened) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, types::of_path(path));
        headers.extend(self.cache_control.clone().map(|value| (CACHE_CONTROL, value)));
        if self.has_variants {
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
            for coding in Accepted::of(request.headers()).best_first() {
                let variant = path::with_ending(path, coding.ending());
                if let Ok(found) = open_below(self.root.as_fd(), &variant)
                    && found.kind == FileType::RegularFile
                {
                    opened = found;
                    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
                    break;
                }
            }
        }
        let etag = |modified| ETag::of_file(opened.inode, opened.length, modified);
        let facts = Representation {
            etag: opened.modified.map(etag),
            modified: opened.modified,
            length: opened.length,
        };
        conditional::respond(request, &facts, headers, File::from(opened.fd))
    }
}

/// Sends the client to the same path with a slash, so that links on the page are relative to the
/// directory.
fn with_slash(request: &Parts) -> Response {
    let path = request.path();
    Redirect::permanent(match request.query() {
        Some(query) => format!("{path}/?{query}"),
        None => format!("{path}/"),
    })
    .into_response()
}

/// The response to an error of an open.
fn refusal(error: &io::Error) -> Response {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let status = match errno {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => StatusCode::NOT_FOUND,
        // A link that leads out of the directory, or to itself; a socket.
        Some(Errno::XDEV | Errno::LOOP | Errno::NXIO) => StatusCode::NOT_FOUND,
        Some(Errno::ACCESS) => StatusCode::FORBIDDEN,
        _ => {
            log::error!("a file cannot be served: {error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    status.into_response()
}

/// The marker of [`Files`] as a handler.
#[derive(Debug)]
pub enum ByPath {}

impl<S> Handler<ByPath, S> for Files {
    fn call(&self, request: Request, _: &S) -> Response {
        self.answer(request.parts())
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
