//! The parameters of the query, and the fields of forms.

use http::Method;
use serde::de::DeserializeOwned;

use super::{
    FromParts, FromRequest, Rejection, content_type,
    fields::{self, FieldsOf},
};
use crate::request::{Parts, Request};

/// The parameters of the query, such as `?page=2&size=50`.
///
/// `T` is a struct whose fields have the names of the parameters, a map, or a [`Vec`] of pairs of
/// names and values. A parameter that is given several times is a [`Vec`]; one that may be missing
/// is an [`Option`], or has `#[serde(default)]`. For an `Option` of anything an empty value is
/// `None`. A request without a query has no parameters.
///
/// # Errors
/// 400 if a parameter is missing, given too often or not a value of its type, with a sentence that
/// names it, and if the decoded query is not UTF-8. 500 if no query could become a `T`.
///
/// # Examples
/// ```
/// use serde::Deserialize;
/// use ramie_http::{Request, Router, StatusCode, extract::Query, get};
///
/// #[derive(Deserialize)]
/// struct Search {
///     text: String,
///     #[serde(default)]
///     tag: Vec<String>,
///     page: Option<u32>,
/// }
///
/// let search = |Query(Search { text, tag, page }): Query<Search>| {
///     format!("{text} in {tag:?}, page {}", page.unwrap_or(1))
/// };
/// let router = Router::new().route("/", get(search));
/// let response = router.call(Request::get("/?text=a+b&tag=x&tag=y&page="));
/// assert_eq!(response.into_body().into_bytes(100)?, r#"a b in ["x", "y"], page 1"#);
///
/// let response = router.call(Request::get("/?page=2"));
/// assert_eq!(response.status(), StatusCode::BAD_REQUEST);
/// assert_eq!(response.into_body().into_bytes(100)?, "the query lacks the parameter `text`\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S> FromParts<S> for Query<T> {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let query = parts.query().unwrap_or_default();
        let fields = fields::parse_urlencoded(query.as_bytes(), FieldsOf::Query)?;
        fields::deserialize(&fields, FieldsOf::Query).map(Query)
    }
}

/// The fields of a form: in a GET or HEAD those of the query, in other requests those of a body of
/// the type `application/x-www-form-urlencoded`, which browsers send unless a form has files
/// ([`Multipart`](super::Multipart)).
///
/// `T` is as for [`Query`].
///
/// # Blocking
/// Parks the fiber until the body has arrived.
///
/// # Cancellation
/// A cancel point: 503.
///
/// # Errors
/// 415 for a body of another type or charset; 422 if a field is missing, given too often or not a
/// value of its type, with a sentence that names it (400 for a query); 400 if the text is not
/// UTF-8; 413 for more than 10,000 fields. Of reading the body: as [`BodyError::status`].
///
/// [`BodyError::status`]: crate::BodyError::status
///
/// # Examples
/// ```
/// use serde::Deserialize;
/// use ramie_http::{Request, Router, extract::Form, post};
///
/// #[derive(Deserialize)]
/// struct Login {
///     name: String,
///     #[serde(default)]
///     remember: bool,
/// }
///
/// let login = |Form(login): Form<Login>| format!("{}, {}", login.name, login.remember);
/// let router = Router::new().route("/login", post(login));
/// let request = Request::post("/login", "name=Ada+L&remember=true")
///     .with_header("content-type", "application/x-www-form-urlencoded");
/// let response = router.call(request);
/// assert_eq!(response.into_body().into_bytes(100)?, "Ada L, true");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form<T>(pub T);

const FORM: &str = "application/x-www-form-urlencoded";

impl<T: DeserializeOwned, S> FromRequest<S> for Form<T> {
    type Rejection = Rejection;

    fn from_request(mut request: Request, state: &S) -> Result<Self, Rejection> {
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Query::from_parts(request.parts_mut(), state).map(|Query(form)| Form(form));
        }
        let media_type = content_type::media_type(&request);
        if !media_type.is_some_and(|found| found.eq_ignore_ascii_case(FORM)) {
            return Err(content_type::unsupported(media_type, FORM));
        }
        content_type::check_charset(request.header_str("content-type"))?;
        let body = request.into_body().into_bytes(u64::MAX)?;
        let fields = fields::parse_urlencoded(&body, FieldsOf::Form)?;
        fields::deserialize(&fields, FieldsOf::Form).map(Form)
    }
}
