//! The result of a conversion, with its strings.

use std::ffi::{CStr, CString, c_char};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::ptr;

use onnx2ncnn::error::Error;
use onnx2ncnn::{Converter, Input, Proof, Refusal, State};

/// The least bytes of a part, but for the last.
const PART: usize = 1 << 20;

/// A comparison of a net with its model: the numbers of windows, which are parts between blobs, of all sizes
/// that were tried.
#[repr(C)]
pub struct Verification {
    /// The windows whose sides move each element to the same place.
    pub proved: usize,
    /// The others whose sides are equal within the rounding of float32.
    pub tested: usize,
    /// The windows of which one side cannot be computed.
    pub not_covered: usize,
    /// The windows that differ.
    pub differs: usize,
    /// The largest error of windows that do not differ, relative to the largest magnitude of the value.
    pub error: f64,
    /// The verdict in one line; NULL if nothing was compared. It is valid until the next comparison.
    pub verdict: *const c_char,
    /// The value of the first window that differs, and what differs; NULL if none does. It is valid as long.
    pub difference: *const c_char,
}

impl Verification {
    /// Nothing was compared.
    pub(crate) const NONE: Verification = Verification {
        proved: 0,
        tested: 0,
        not_covered: 0,
        differs: 0,
        error: 0.0,
        verdict: ptr::null(),
        difference: ptr::null(),
    };
}

/// A converted or refused model.
pub struct Conversion {
    result: Result<Converted, Refusal>,
    message: CString,
    /// Whether no call failed.
    is_done: bool,
    report: Option<CString>,
    param: Option<CString>,
    verdict: CString,
    difference: Option<CString>,
}

/// A converted model.
struct Converted {
    conversion: onnx2ncnn::Conversion,
    converter: Converter,
    input: Input,
}

impl Conversion {
    /// Converts a model.
    pub(crate) fn new(input: Result<Input, Error>, options: Option<&CStr>) -> Conversion {
        let result = Refusal::catch_panic(|| {
            let options = options.unwrap_or(c"{}").to_str();
            let options = options.map_err(|_| Error::usage("options: not UTF-8"))?;
            // A report is made of the refusal itself.
            let (converter, input) = (Converter::new().explain(true).with_json(options)?, input?);
            Ok(Converted { conversion: converter.convert(&input)?, converter, input })
        });
        let message = match &result {
            Ok(converted) => converted.conversion.warnings.join("\n"),
            Err(refusal) => format!("{refusal:#}"),
        };
        let (is_done, message) = (result.is_ok(), string(&message));
        let (verdict, difference) = (CString::default(), None);
        Conversion { result, message, is_done, report: None, param: None, verdict, difference }
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
                    Ok(Converted { conversion, .. }) => conversion.report(conversion.written()?)?,
                };
                Ok(string(&report.to_json()?))
            });
            self.report = self.kept(made);
        }
        self.report.as_deref()
    }

    /// Returns the text of the `.param` file; `None` if the model was refused.
    pub(crate) fn param(&mut self) -> Option<&CStr> {
        if let (None, Ok(Converted { conversion, .. })) = (&self.param, &self.result) {
            let made = Refusal::catch_panic(|| Ok(string(&conversion.net().param_text())));
            self.param = self.kept(made);
        }
        self.param.as_deref()
    }

    /// Passes the bytes of the `.bin` file to a function that returns false to end.
    pub(crate) fn write_bin(&mut self, receive: impl FnMut(&[u8]) -> bool) -> bool {
        let Ok(Converted { conversion, .. }) = &self.result else { return false };
        let made = Refusal::catch_panic(|| {
            let mut bin = BufWriter::with_capacity(PART, Receiver(receive));
            conversion.write_to(io::sink(), &mut bin)?;
            Ok(bin.flush().map_err(|error| Error::io("the .bin file cannot be written", error))?)
        });
        self.kept(made).is_some()
    }

    /// Writes all files.
    pub(crate) fn write(&mut self, param: Result<&Path, Error>, bin: Result<&Path, Error>) -> bool {
        let Ok(Converted { conversion, .. }) = &self.result else { return false };
        let made = Refusal::catch_panic(|| Ok(conversion.write(param?, bin?)?));
        self.kept(made).is_some()
    }

    /// Compares the net in the files, or else the converted net, with the model. `None` after an error.
    pub(crate) fn verify(&mut self, files: Option<[Result<&Path, Error>; 2]>) -> Option<Verification> {
        let Ok(converted) = &self.result else { return None };
        let made = Refusal::catch_panic(|| converted.verify(files));
        let proofs = self.kept(made)?;
        self.verdict = string(&Proof::verdict(&proofs));
        self.difference = Proof::first_difference(&proofs)
            .map(|first| string(&format!("\"{}\": {}", first.value, first.reason)));
        let count = |state| proofs.iter().map(|proof| proof.count(state)).sum();
        Some(Verification {
            proved: count(State::Proved),
            tested: count(State::Tested),
            not_covered: count(State::NotCovered),
            differs: count(State::Differs),
            error: proofs.iter().map(Proof::error).fold(0.0, f64::max),
            verdict: self.verdict.as_ptr(),
            difference: self.difference.as_deref().map_or(ptr::null(), CStr::as_ptr),
        })
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

impl Converted {
    fn verify(&self, files: Option<[Result<&Path, Error>; 2]>) -> Result<Vec<Proof>, Refusal> {
        let read = |path: Result<&Path, Error>| {
            let path = path?;
            std::fs::read(path).map_err(|error| Error::io("the file cannot be read", error).in_file(path))
        };
        let (param, bin) = match files {
            Some([param, bin]) => (read(param)?, read(bin)?),
            None => {
                let (mut param, mut bin) = (Vec::new(), Vec::new());
                self.conversion.write_to(&mut param, &mut bin)?;
                (param, bin)
            }
        };
        let net = self.conversion.read_net(&param, bin.into())?;
        Ok(self.conversion.prove(&self.converter, &self.input, &net)?)
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
