//! Codes of errors: numbers that stay the same in all versions of the program, with explanations.

use super::ErrorKind;

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorCode(u16);

impl ErrorCode {
    /// An operator is not known.
    pub(crate) const UNKNOWN_OPERATOR: ErrorCode = ErrorCode(9);
    /// The shape or the type of a value is not known.
    pub(crate) const UNKNOWN_SHAPE: ErrorCode = ErrorCode(10);
    /// `--strict` refuses an assumed fact.
    pub(crate) const ASSUMED: ErrorCode = ErrorCode(11);
    /// A quantized model rounds what is rounded already.
    pub(crate) const ROUNDED_TWICE: ErrorCode = ErrorCode(12);
    /// A node makes random numbers.
    pub(crate) const RANDOM: ErrorCode = ErrorCode(13);
    /// An input has elements of float64.
    pub(crate) const DOUBLE: ErrorCode = ErrorCode(14);
    /// No sizes meet the conditions.
    pub(crate) const NO_SIZES: ErrorCode = ErrorCode(15);
    /// Elements are not real numbers.
    pub(crate) const NO_NUMBERS: ErrorCode = ErrorCode(16);
    /// For these numbers, onnxruntime computes something else than the quantized operator.
    pub(crate) const FAULTY_KERNEL: ErrorCode = ErrorCode(17);

    /// Returns the code of an error of a kind without a separate code.
    pub(super) fn of(kind: ErrorKind) -> ErrorCode {
        ErrorCode(match kind {
            ErrorKind::Io => 1,
            ErrorKind::Parse => 2,
            ErrorKind::Invalid => 3,
            ErrorKind::Unsupported => 4,
            ErrorKind::Limit => 5,
            ErrorKind::Internal => 6,
            ErrorKind::Usage => 7,
            ErrorKind::Mismatch => 8,
            ErrorKind::InvalidNet => 18,
        })
    }

    /// Returns all codes.
    pub fn all() -> impl Iterator<Item = ErrorCode> {
        EXPLANATIONS.iter().map(|(number, ..)| ErrorCode(*number))
    }

    /// Returns the code of a name, as `E0012` or `12`.
    pub fn parse(name: &str) -> Option<ErrorCode> {
        let digits = name.strip_prefix(['E', 'e']).unwrap_or(name);
        let number: u16 = digits.parse().ok()?;
        ErrorCode::all().find(|code| code.0 == number)
    }

    /// Returns a title of a few words.
    pub fn title(self) -> &'static str {
        self.entry().map_or("", |(_, title, _)| title)
    }

    /// Returns what the error means and what helps.
    pub fn explanation(self) -> &'static str {
        self.entry().map_or("", |(.., text)| text)
    }

    fn entry(self) -> Option<(u16, &'static str, &'static str)> {
        EXPLANATIONS.iter().copied().find(|(number, ..)| *number == self.0)
    }
}

/// `E0012`.
impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

/// The codes with their titles and explanations.
const EXPLANATIONS: [(u16, &str, &str); 18] = [
    (
        1,
        "a file cannot be read or written",
        "The message names the file and the reason of the system. Results are written completely or not at all, so existing files \
         are unchanged. External data, the weights of models above 2 GB, are expected next to the model; --data-dir names another \
         folder.",
    ),
    (
        2,
        "the file is not an ONNX model",
        "The bytes cannot be decoded as an ONNX model. Downloads are often the page of a web site instead of the file, or a file \
         of Git LFS with the name of the real one; archives have to be unpacked. Checkpoints of other frameworks have to be \
         exported first, for example with torch.onnx.export or tf2onnx.",
    ),
    (
        3,
        "the model breaks the ONNX specification",
        "The message names the node and the rule. onnx.checker.check_model(model, full_check=True) of the Python package onnx \
         reports most of these errors, too. If the shapes of --input-shape contradict the model, omit the option or change them.",
    ),
    (
        4,
        "the node cannot be expressed in ncnn",
        "The model is valid, but no layers of ncnn compute what the node computes, for these types, shapes and attributes; the \
         message says which of them is in the way. If other sizes or a part of the model can be converted, the run prints the \
         options. --outputs cuts the graph before a node, whose work the program then does itself, and --input-shape fixes sizes.",
    ),
    (
        5,
        "a limit is exceeded",
        "Sizes or counts are larger than the runtime or this program handles. The message has the limit.",
    ),
    (
        6,
        "a fault of the converter",
        "A rule of the program is broken, whatever the model is. Nothing was written. Please report it, with the model if possible; \
         --skip may avoid the pass that is at fault.",
    ),
    (
        7,
        "the options do not fit",
        "An option names what the model does not have, contradicts another one, or would overwrite a file of the model. \
         onnx2ncnn inspect lists inputs and outputs.",
    ),
    (
        8,
        "the results differ",
        "The net or the simplified model computes something else than the model, or the net does not load. verify needs the options \
         of the conversion; --layers names the first blob that differs. Random inputs may be outside of what the model is made \
         for: --data takes typical ones.",
    ),
    (
        9,
        "the operator is not known",
        "No conversion exists for the operator in its domain. SUPPORTED.md lists the operators that are converted. If a layer \
         of your own computes it, --custom-layers declares it, and the refusal prints a declaration. --outputs cuts \
         the graph before the node; a node in the middle can be left out with --outputs for the part before it and --inputs for \
         the part after it.",
    ),
    (
        10,
        "a shape or type is not known",
        "The layers of ncnn depend on shapes that follow neither from the inputs nor from constants, as where elements decide the \
         size of a result: NonMaxSuppression, NonZero, Unique. --outputs cuts the graph before such a node, whose work the \
         program then does itself. --input-shape states the shapes of inputs without one, and --set makes an input that \
         decides a size a constant.",
    ),
    (
        11,
        "the net would rely on an assumed fact",
        "Of some values it can not be proved that they are as the layers need them, such as integers within 2^24, which float32 \
         holds exactly. Without --strict the net is written, and the facts are printed as assumed. It is right as long as they \
         hold.",
    ),
    (
        12,
        "a quantized model rounds again what it has rounded",
        "The last bits of the values before a rounding differ between runtimes, and a chain of roundings makes whole steps of such \
         differences. --int8 computes the model with int8 layers, by its scales; --dequantize removes the rounding and computes \
         in float32. Best results come of the model before its quantization.",
    ),
    (
        13,
        "the node makes random numbers",
        "ncnn has no layers for random numbers. With --random-as-input they become an input of the net, which the program fills.",
    ),
    (
        14,
        "an input has float64",
        "ncnn computes in float32, whose range and precision are smaller. Where the values fit, --double-as-float converts them.",
    ),
    (
        15,
        "no sizes are valid",
        "The conditions on the free sizes of the inputs contradict each other: the net would be valid for no size at all. Shapes \
         that are fixed with --input-shape may have other layers, without the condition.",
    ),
    (
        16,
        "the elements are not real numbers",
        "Blobs of ncnn hold numbers: neither text, nor complex numbers, nor sequences. Tokenizers and the like are parts of the \
         program; --inputs names the values after them.",
    ),
    (
        17,
        "onnxruntime has a fault for these numbers",
        "The kernel of a quantized operator overflows, or computes something else than the operator. A net would differ from \
         onnxruntime or repeat the fault. --dequantize removes the rounding and computes in float32.",
    ),
    (
        18,
        "the runtime does not load the files of a net",
        "A line of the .param file is not a layer as ncnn reads it, or the .bin file has more or fewer bytes than the layers read. \
         Files that were copied in part, or as text, are damaged: convert the model again. onnx2ncnn check lists all faults.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_from_one_on() {
        let names: Vec<String> = ErrorCode::all().map(|code| code.to_string()).collect();
        let expected: Vec<String> = (1..=EXPLANATIONS.len()).map(|n| format!("E{n:04}")).collect();
        assert_eq!(names, expected);
        for code in ErrorCode::all() {
            assert_eq!(ErrorCode::parse(&code.to_string()), Some(code));
            assert!(!code.title().is_empty() && !code.explanation().is_empty(), "{code}");
        }
        assert_eq!(ErrorCode::parse("e12"), Some(ErrorCode::ROUNDED_TWICE));
        assert_eq!(ErrorCode::parse("E9999"), None);
    }
}
