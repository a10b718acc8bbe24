//! Errors as exceptions.

use std::fmt::Display;

use wasm_bindgen::prelude::JsError;

/// A result of a call from JavaScript.
pub type Result<T> = std::result::Result<T, JsError>;

/// Returns an exception with the message of an error and its causes.
pub fn thrown(error: impl Display) -> JsError {
    JsError::new(&format!("{error:#}"))
}
