//! The C interface of the library: `onnx2ncnn.h`.
//!
//! Options are JSON with the names of the library, as in `{"fp16": true, "outputs": ["boxes"]}`; reports are the
//! JSON of `--report`. A panic of the library is a refusal. Strings that a function returns belong to their
//! conversion.

// Every function takes or returns pointers of C. What they require of the caller is at the head of the header.
#![allow(unsafe_code, clippy::missing_safety_doc)]

mod conversion;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::slice;

use onnx2ncnn::error::Error;
use onnx2ncnn::{Input, ModelBytes};

pub use conversion::{Conversion, Verification};

/// Receives the next bytes of a file, with the context of the call. False ends the call.
pub type Receive = Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, size: usize) -> bool>;

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn onnx2ncnn_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Converts a model file. `options` is a JSON object, or NULL.
///
/// The result is freed with `onnx2ncnn_free`, also if the model is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_convert_file(
    model: *const c_char,
    options: *const c_char,
) -> *mut Conversion {
    // SAFETY: the caller passes strings.
    let (model, options) = unsafe { (text(model), text(options)) };
    let input = path(model).map(Input::from);
    Box::into_raw(Box::new(Conversion::new(input, options)))
}

/// Converts a model in memory, of which a copy is kept until the result is freed.
///
/// `options` is a JSON object, or NULL. The result is freed with `onnx2ncnn_free`, also if the model is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_convert_memory(
    model: *const u8,
    size: usize,
    options: *const c_char,
) -> *mut Conversion {
    let bytes = match model.is_null() {
        true => Vec::new(),
        // SAFETY: the caller passes a pointer to this many bytes.
        false => unsafe { slice::from_raw_parts(model, size) }.to_vec(),
    };
    // SAFETY: the caller passes a string.
    let options = unsafe { text(options) };
    let input = Input::from(ModelBytes::new(bytes));
    Box::into_raw(Box::new(Conversion::new(Ok(input), options)))
}

/// Returns whether the model was converted, and every later call of this conversion did what it was asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_is_done(conversion: *const Conversion) -> bool {
    // SAFETY: the caller passes a conversion.
    unsafe { conversion.as_ref() }.is_some_and(Conversion::is_done)
}

/// Returns the errors, or the warnings of a converted model, a line each. What is assumed of the inputs is in the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_message(conversion: *const Conversion) -> *const c_char {
    // SAFETY: the caller passes a conversion.
    unsafe { conversion.as_ref() }.map_or(c"".as_ptr(), |conversion| conversion.message().as_ptr())
}

/// Returns the report as JSON; NULL after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_report(conversion: *mut Conversion) -> *const c_char {
    // SAFETY: the caller passes a conversion.
    unsafe { conversion.as_mut() }.and_then(Conversion::report).map_or(std::ptr::null(), CStr::as_ptr)
}

/// Returns the text of the `.param` file; NULL if the model was refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_param(conversion: *mut Conversion) -> *const c_char {
    // SAFETY: the caller passes a conversion.
    unsafe { conversion.as_mut() }.and_then(Conversion::param).map_or(std::ptr::null(), CStr::as_ptr)
}

/// Passes the bytes of the `.bin` file to a function, in parts, and returns whether all were received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_write_bin(
    conversion: *mut Conversion,
    receive: Receive,
    context: *mut c_void,
) -> bool {
    // SAFETY: the caller passes a conversion.
    let (Some(conversion), Some(receive)) = (unsafe { conversion.as_mut() }, receive) else { return false };
    // SAFETY: the function takes these bytes with the context of the call.
    conversion.write_bin(|bytes| unsafe { receive(context, bytes.as_ptr(), bytes.len()) })
}

/// Writes the files of the net, and those that the options name. Returns whether all were written; after an error,
/// none is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_write(
    conversion: *mut Conversion,
    param: *const c_char,
    bin: *const c_char,
) -> bool {
    // SAFETY: the caller passes strings.
    let (param, bin) = unsafe { (text(param), text(bin)) };
    // SAFETY: the caller passes a conversion.
    let Some(conversion) = (unsafe { conversion.as_mut() }) else { return false };
    conversion.write(path(param), path(bin))
}

/// Compares the files of a net with the model, without a runtime: each window is computed from both.
///
/// `param` and `bin` are the paths of the files; if both are NULL, the converted net is compared. Returns
/// whether they were compared and no window differs. `result` may be NULL; it has no verdict after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_verify(
    conversion: *mut Conversion,
    param: *const c_char,
    bin: *const c_char,
    result: *mut Verification,
) -> bool {
    // SAFETY: the caller passes strings, or NULL.
    let (param, bin) = unsafe { (text(param), text(bin)) };
    let files = (param.is_some() || bin.is_some()).then(|| [path(param), path(bin)]);
    // SAFETY: the caller passes a conversion.
    let verified = unsafe { conversion.as_mut() }.and_then(|conversion| conversion.verify(files));
    let is_right = verified.as_ref().is_some_and(|verified| verified.differs == 0);
    if !result.is_null() {
        // SAFETY: the caller passes a place for the result, which may hold nothing yet.
        unsafe { result.write(verified.unwrap_or(Verification::NONE)) };
    }
    is_right
}

/// Frees a conversion and its strings. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx2ncnn_free(conversion: *mut Conversion) {
    if !conversion.is_null() {
        // SAFETY: it was made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(conversion) });
    }
}

/// Returns a string of C; `None` for NULL.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as above.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Returns the path of a string: its bytes on Unix, UTF-8 elsewhere.
fn path(text: Option<&CStr>) -> Result<&Path, Error> {
    let text = text.ok_or_else(|| Error::usage("the path is NULL"))?;
    #[cfg(unix)]
    return Ok(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text.to_bytes())));
    #[cfg(not(unix))]
    return text.to_str().map(Path::new).map_err(|_| Error::usage("the path is not UTF-8"));
}
