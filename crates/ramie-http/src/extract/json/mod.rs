//! JSON, of requests and in responses.

mod nesting;

use http::{HeaderValue, StatusCode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::error::Category;

use super::{FromRequest, Rejection, content_type};
use crate::{
    request::Request,
    response::{self, IntoResponse, Response},
};

/// A value as JSON: the body of a request, or of a response.
///
/// JSON of more than 127 levels is refused (400). JSON of more than 16 is deserialized on a fiber
/// of its own, with a stack of 2 MiB, because each level takes stack.
///
/// # Blocking
/// As an argument: parks the fiber until the body has arrived.
///
/// # Cancellation
/// A cancel point: 503.
///
/// # Errors
/// As an argument: 415 unless the Content-Type is `application/json`, or ends with `+json`; 400 if
/// the body is not JSON; 422 if it has another shape than `T`, with a sentence that names the
/// place. Of reading the body: as [`BodyError::status`](crate::BodyError::status).
///
/// As a response: 500 if the value cannot be serialized, such as a map whose keys are no strings.
///
/// # Examples
/// ```
/// use serde::{Deserialize, Serialize};
/// use ramie_http::{Request, Router, StatusCode, extract::Json, post};
///
/// #[derive(Deserialize, Serialize)]
/// struct Order {
///     items: Vec<u32>,
/// }
///
/// let double = |Json(mut order): Json<Order>| {
///     order.items.iter_mut().for_each(|item| *item *= 2);
///     Json(order)
/// };
/// let router = Router::new().route("/", post(double));
/// let call = |body| {
///     let request = Request::post("/", body).with_header("content-type", "application/json");
///     let response = router.call(request);
///     (response.status(), response.into_body().into_bytes(200).unwrap())
/// };
///
/// assert_eq!(call(r#"{"items": [1, 2]}"#), (StatusCode::OK, r#"{"items":[2,4]}"#.into()));
/// let (status, text) = call(r#"{"items": [1, "2"]}"#);
/// assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
/// assert_eq!(
///     text,
///     "the JSON of the body has another shape at `items[1]`: \
///      invalid type: string \"2\", expected u32 at line 1 column 17\n"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S> FromRequest<S> for Json<T> {
    type Rejection = Rejection;

    fn from_request(request: Request, _: &S) -> Result<Self, Rejection> {
        let media_type = content_type::media_type(&request);
        if !media_type.is_some_and(is_json) {
            return Err(content_type::unsupported(media_type, "application/json"));
        }
        let body = request.into_body().into_bytes(u64::MAX)?;
        nesting::on_enough_stack(&body, || parse(&body)).map(Json)
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Rejection> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => of_shape::<T>(body, error),
        Category::Syntax | Category::Eof | Category::Io => {
            Rejection::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))
        }
    })
}

/// Whether this is `application/json`, or a type that is JSON by its suffix (RFC 6839).
fn is_json(media_type: &str) -> bool {
    let ends_with = |suffix: &str| {
        let at = media_type.len().checked_sub(suffix.len());
        at.and_then(|at| media_type.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    media_type.eq_ignore_ascii_case("application/json")
        || media_type.contains('/') && ends_with("+json")
}

/// Finds the place of an error by deserializing once more, because a record of all places would
/// slow down all the requests that are right.
#[cold]
fn of_shape<T: DeserializeOwned>(body: &[u8], error: serde_json::Error) -> Rejection {
    let mut again = serde_json::Deserializer::from_slice(body);
    let place = match serde_path_to_error::deserialize::<_, T>(&mut again) {
        Err(error) if error.path().iter().len() > 0 => format!(" at `{}`", error.path()),
        _ => String::new(),
    };
    let reason = format!("the JSON of the body has another shape{place}: {error}");
    Rejection::new(StatusCode::UNPROCESSABLE_ENTITY, reason)
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(json) => response::with_type(json, HeaderValue::from_static("application/json")),
            Err(error) => {
                log::error!("a response cannot be serialized as JSON: {error}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn types_of_json_are_known_by_name_or_suffix() {
        for good in ["application/json", "Application/JSON", "application/problem+json", "a/b+Json"]
        {
            assert!(is_json(good), "{good}");
        }
        for bad in ["text/json", "application/jsonx", "+json", "json", "", "\u{e4}\u{e4}\u{e4}json"]
        {
            assert!(!is_json(bad), "{bad}");
        }
    }
}
