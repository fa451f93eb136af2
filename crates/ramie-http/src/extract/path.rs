//! The parameters of the path.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use smallvec::SmallVec;

use super::{
    FromParts, Rejection,
    fields::{self, Field, FieldsOf},
};
use crate::request::Parts;

/// The parameters of the route, such as `{id}` of `/users/{id}`, decoded.
///
/// `T` is one of these:
/// - a single value, if the route has one parameter: a number, a string, an enum without fields, or
///   any type that is deserialized from a string;
/// - a tuple or a [`Vec`] of such values, in the order of the route;
/// - a struct whose fields have the names of the parameters, or a map;
/// - a `Vec` of pairs of names and values.
///
/// # Errors
/// 400 if a parameter is not a value of its type, with a sentence that names the parameter and the
/// values that are possible. 500 if the route does not have the parameters of `T`.
///
/// # Examples
/// ```
/// use serde::Deserialize;
/// use ramie_http::{Request, Router, StatusCode, extract::Path, get};
///
/// #[derive(Deserialize)]
/// struct Place {
///     city: String,
///     zip: u32,
/// }
///
/// let router = Router::new()
///     .route("/users/{id}", get(|Path(id): Path<u64>| format!("user {id}")))
///     .route("/sums/{a}/{b}", get(|Path((a, b)): Path<(i32, i32)>| (a + b).to_string()))
///     .route("/places/{city}/{zip}", get(|Path(place): Path<Place>| {
///         format!("{} {}", place.zip, place.city)
///     }));
/// let text = |target| {
///     let response = router.call(Request::get(target));
///     String::from_utf8(response.into_body().into_bytes(100).unwrap().into()).unwrap()
/// };
///
/// assert_eq!(text("/users/7"), "user 7");
/// assert_eq!(text("/sums/2/-5"), "-3");
/// assert_eq!(text("/places/K%C3%B6ln/50667"), "50667 Köln");
/// assert_eq!(
///     text("/sums/2/x"),
///     "the parameter `b` of the path is `x`, but must be an integer \
///      from -2147483648 to 2147483647\n"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned, S> FromParts<S> for Path<T> {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let params = parts.params().map(|(name, value)| (Cow::from(name), Cow::from(value)));
        let params: SmallVec<[Field<'_>; 4]> = params.collect();
        fields::deserialize(&params, FieldsOf::Path).map(Path)
    }
}
