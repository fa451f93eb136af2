//! Empty, because no strand of a model has a name or a scope.

#[derive(Default)]
pub(crate) struct AttributesWord;
