//! What the template of Kotlin needs: the files next to a class over `NcnnNet`, names, and literals.

use std::path::Path;

/// The files that each program needs in its folder: the class `NcnnNet` and its native half, as in
/// the app in `examples/android`.
pub(super) const COMPANIONS: [(&str, &str); 5] = [
    ("NcnnNet.kt", include_str!("../../examples/android/app/src/main/kotlin/onnx2ncnn/NcnnNet.kt")),
    ("Results.kt", include_str!("../../examples/android/app/src/main/kotlin/onnx2ncnn/Results.kt")),
    ("Drawing.kt", include_str!("../../examples/android/app/src/main/kotlin/onnx2ncnn/Drawing.kt")),
    ("ncnn_net.cpp", include_str!("../../examples/android/app/src/main/cpp/ncnn_net.cpp")),
    (super::BUILD_FILE, include_str!("../../examples/android/app/src/main/cpp/CMakeLists.txt")),
];

/// Names that the class cannot have: `NcnnNet` or the class itself use them.
const USED: &str = "Array ArrayList Bitmap Blob Boolean BooleanArray Box ByteBuffer Candidate Canvas Closeable \
                    Colours Drawing Float FloatArray Int IntArray Layer List Long Map NcnnNet OnnxArray Op Order Paint Point \
                    RectF Results Score State String System";

/// More names are a text that is split: the code of a class that lists them would be too long for Java.
const MAX_LISTED: usize = 100;

/// The file with the functions of the nodes behind a net.
pub(super) const OPERATORS: (&str, &str) = ("OnnxOperators.kt", include_str!("operators/OnnxOperators.kt"));

/// Returns the name of a function that has underscores in other languages.
pub(super) fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        name.chars().chain(letters.next().into_iter().flat_map(char::to_uppercase)).chain(letters).collect()
    })
}

/// Returns the name of a class, for that of its file.
pub(super) fn class(file: &str) -> String {
    let stem = file.strip_suffix(".kt").unwrap_or(file);
    let letters = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let mut name: String =
        letters.enumerate().map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "Net");
    }
    if USED.split(' ').any(|used| used == name) {
        name.push_str("Net");
    }
    name
}

/// Returns the name under which an app has a file among its assets.
pub(super) fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    name.unwrap_or(path).to_owned()
}

/// Returns a string literal, in which a dollar begins no expression.
pub(super) fn literal(text: &str) -> String {
    super::literal(text).replace('$', "\\$")
}

/// Returns a list of strings.
pub(super) fn listed(items: Vec<String>) -> String {
    let items: Vec<String> = items.iter().map(|item| literal(item)).collect();
    if items.len() <= MAX_LISTED {
        return format!("listOf<String>({})", items.join(", "));
    }
    let lines = items.chunks(MAX_LISTED).map(|chunk| {
        let chunk: Vec<&str> = chunk.iter().filter_map(|item| item.get(1..item.len() - 1)).collect();
        format!("    \"{}\"", chunk.join("\\n"))
    });
    format!("listOf(\n{}\n).flatMap {{ it.split(\"\\n\") }}", lines.collect::<Vec<_>>().join(",\n"))
}
