//! The result of a conversion, with its strings.

use std::ffi::{CStr, CString};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use onnx2ncnn::error::Error;
use onnx2ncnn::{Converter, Input, Refusal};

/// The least bytes of a part, but for the last.
const PART: usize = 1 << 20;

/// A converted or refused model.
pub struct Conversion {
    result: Result<onnx2ncnn::Conversion, Refusal>,
    message: CString,
    /// Whether no call failed.
    is_done: bool,
    report: Option<CString>,
    param: Option<CString>,
}

impl Conversion {
    /// Converts a model.
    pub(crate) fn new(input: Result<Input, Error>, options: Option<&CStr>) -> Conversion {
        let result = Refusal::catch_panic(|| {
            let options = options.unwrap_or(c"{}").to_str();
            let options = options.map_err(|_| Error::usage("options: not UTF-8"))?;
            // A report is made of the refusal itself.
            Converter::new().explain(true).with_json(options)?.convert(&input?)
        });
        let message = match &result {
            Ok(conversion) => conversion.warnings.join("\n"),
            Err(refusal) => format!("{refusal:#}"),
        };
        let (is_done, message) = (result.is_ok(), string(&message));
        Conversion { result, message, is_done, report: None, param: None }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(crate) fn message(&self) -> &CStr {
        &self.message
    }

    /// Returns the report as JSON; `None` after an error.
    pub(crate) fn report(&mut self) -> Option<&CStr> {
        if self.report.is_none() {
            let made = Refusal::catch_panic(|| {
                let report = match &self.result {
                    Err(refusal) => refusal.report(),
                    Ok(conversion) => conversion.report(conversion.written()?)?,
                };
                Ok(string(&report.to_json()?))
            });
            self.report = self.kept(made);
        }
        self.report.as_deref()
    }

    /// Returns the text of the `.param` file; `None` if the model was refused.
    pub(crate) fn param(&mut self) -> Option<&CStr> {
        if let (None, Ok(conversion)) = (&self.param, &self.result) {
            let made = Refusal::catch_panic(|| Ok(string(&conversion.net().param_text())));
            self.param = self.kept(made);
        }
        self.param.as_deref()
    }

    /// Passes the bytes of the `.bin` file to a function that returns false to end.
    pub(crate) fn write_bin(&mut self, receive: impl FnMut(&[u8]) -> bool) -> bool {
        let Ok(conversion) = &self.result else { return false };
        let made = Refusal::catch_panic(|| {
            let mut bin = BufWriter::with_capacity(PART, Receiver(receive));
            conversion.write_to(io::sink(), &mut bin)?;
            Ok(bin.flush().map_err(|error| Error::io("the .bin file cannot be written", error))?)
        });
        self.kept(made).is_some()
    }

    /// Writes all files.
    pub(crate) fn write(&mut self, param: Result<&Path, Error>, bin: Result<&Path, Error>) -> bool {
        let Ok(conversion) = &self.result else { return false };
        let made = Refusal::catch_panic(|| Ok(conversion.write(param?, bin?)?));
        self.kept(made).is_some()
    }

    /// Keeps the message of an error.
    fn kept<T>(&mut self, made: Result<T, Refusal>) -> Option<T> {
        made.map_err(|refusal| {
            self.message = string(&format!("{refusal:#}"));
            self.is_done = false;
        })
        .ok()
    }
}

/// Returns a text as a string of C, without zeros in it.
fn string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// A writer that passes bytes to a function.
struct Receiver<F>(F);

impl<F: FnMut(&[u8]) -> bool> Write for Receiver<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.0)(bytes) {
            true => Ok(bytes.len()),
            false => Err(io::Error::other("the function that receives the bytes ended the call")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
