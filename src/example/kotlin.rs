//! Classes in Kotlin, over the class `NcnnNet`.

use std::fmt::Write as _;
use std::path::Path;

use super::purpose::{Given, Layout, Picture, Purpose, Scale, Source, Tail};
use super::subject::{Constant, Files, Subject, indented, quoted};
use crate::common::template::fill;
use crate::pipeline::Port;
use crate::tensor::Dim;

const PROGRAM: &str = include_str!("kotlin/program.kt");

/// The files that each program needs in its folder: the class `NcnnNet` and its native half, as in
/// the app in `examples/android`.
pub(super) const BESIDE: [(&str, &str); 2] = [
    ("NcnnNet.kt", include_str!("../../examples/android/app/src/main/kotlin/onnx2ncnn/NcnnNet.kt")),
    ("ncnn_net.cpp", include_str!("../../examples/android/app/src/main/cpp/ncnn_net.cpp")),
];

/// Names that the class cannot have: `NcnnNet` or the class itself use them.
const USED: [&str; 21] = [
    "Array",
    "ArrayList",
    "Blob",
    "Boolean",
    "BooleanArray",
    "Box",
    "ByteBuffer",
    "Closeable",
    "Float",
    "FloatArray",
    "Int",
    "IntArray",
    "List",
    "Long",
    "Map",
    "NcnnNet",
    "Order",
    "Score",
    "State",
    "String",
    "System",
];

/// More names are a text that is split: the code of a class that lists them would be too long for Java.
const MAX_LISTED: usize = 100;

pub(super) fn program(subject: &Subject, purpose: &Purpose, files: &Files) -> String {
    let (usage, about) = match purpose.source {
        Source::Picture(_) => ("run(pixels, width, height)", "Reads pictures."),
        Source::Tokens => ("run(tokens)", "Reads the ids of tokens."),
        Source::Arrays => ("run(inputs)", "Reads arrays."),
    };
    let asset = |path: &str| {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        literal(name.unwrap_or(path))
    };
    let mut parts = super::subject::parts(subject, files, "// ");
    parts.extend([
        ("param_asset", asset(files.param)),
        ("bin_asset", asset(files.bin)),
        ("class", class(files.program)),
        ("usage", usage.to_owned()),
        ("about", about.to_owned()),
        ("imports", imports(purpose).to_owned()),
        ("constants", indented(&constants(subject, purpose), 8)),
        ("functions", functions(subject, purpose)),
        ("main", main(subject, purpose)),
    ]);
    fill(PROGRAM, &parts)
}

/// Returns the name of a class, for that of its file.
fn class(file: &str) -> String {
    let stem = file.strip_suffix(".kt").unwrap_or(file);
    let letters = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let mut name: String =
        letters.enumerate().map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "Net");
    }
    if USED.contains(&name.as_str()) {
        name.push_str("Net");
    }
    name
}

/// Returns a string literal, in which a dollar begins no expression.
fn literal(text: &str) -> String {
    quoted(text).replace('$', "\\$")
}

fn ints(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("intArrayOf({})", items.join(", "))
}

/// Returns a list of names.
fn names<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(literal).collect();
    if items.len() <= MAX_LISTED {
        return format!("listOf<String>({})", items.join(", "));
    }
    let lines = items.chunks(MAX_LISTED).map(|chunk| {
        let chunk: Vec<&str> = chunk.iter().filter_map(|item| item.get(1..item.len() - 1)).collect();
        format!("    \"{}\"", chunk.join("\\n"))
    });
    format!("listOf(\n{}\n).flatMap {{ it.split(\"\\n\") }}", lines.collect::<Vec<_>>().join(",\n"))
}

fn blob(ports: &[Port], index: usize) -> String {
    literal(ports.get(index).map_or("", |port| port.blob.as_str()))
}

fn imports(purpose: &Purpose) -> &'static str {
    match (purpose.source, purpose.tail) {
        (Source::Picture(_), Tail::Boxes { .. } | Tail::Text { .. }) => "import kotlin.math.roundToInt\n",
        (_, Tail::Scores { scale: Scale::Logits, .. }) => "import kotlin.math.exp\n",
        _ => "",
    }
}

/// Returns the outputs that a program reads: states stay in the net, but those of which it makes something.
fn read<'a>(subject: &Subject<'a>, purpose: &Purpose) -> Vec<&'a str> {
    let used = match purpose.tail {
        Tail::Boxes { boxes, scores, .. } => [boxes, scores],
        Tail::Scores { output, .. } | Tail::Text { output } | Tail::Next { output } => [output; 2],
        Tail::Shapes => [usize::MAX; 2],
    };
    let is_read = |at: usize| match purpose.tail {
        Tail::Shapes => !purpose.states().any(|(_, output)| output == at),
        _ => used.contains(&at),
    };
    let read = subject.outputs.iter().enumerate().filter(|(at, _)| is_read(*at));
    read.map(|(_, port)| port.blob.as_str()).collect()
}

fn constants(subject: &Subject, purpose: &Purpose) -> String {
    let mut text = String::new();
    let outputs = subject.outputs;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "private val OUTPUTS = {}", names(read(subject, purpose)));
    let states = purpose.states().map(|(input, output)| {
        let is_cache = subject.inputs.get(input).is_some_and(|port| port.cache.is_some());
        let (before, after) = (blob(subject.inputs, input), blob(outputs, output));
        format!("    {before} to State({after}, isCache = {is_cache})")
    });
    let states: Vec<String> = states.collect();
    if !states.is_empty() {
        let _ = writeln!(text, "private val STATES = mapOf(\n{}\n)", states.join(",\n"));
    }
    if let Source::Picture(picture) = purpose.source {
        text.push_str(&picture_constants(subject, purpose, picture));
    }
    if purpose.source == Source::Arrays {
        let inputs = super::subject::given_ports(subject, purpose);
        let shapes = inputs.iter().map(|port| {
            format!(
                "    {} to {}",
                literal(&port.blob),
                ints(super::subject::given_sizes(subject, purpose, &port.form))
            )
        });
        let shapes: Vec<String> = shapes.collect();
        let integers = inputs.iter().filter(|port| port.int32).map(|port| port.blob.as_str());
        let _ = writeln!(text, "// The sizes of the inputs, the outermost first; -1 for a free length.");
        let _ = writeln!(text, "private val SHAPES = mapOf(\n{}\n)", shapes.join(",\n"));
        let _ = writeln!(text, "private val INTEGERS = {}", names(integers));
    }
    for constant in super::subject::constants(subject, purpose) {
        let _ = match constant {
            Constant::Remark(remark) => writeln!(text, "// {remark}"),
            Constant::Blob(name, blob) => writeln!(text, "private const val {name} = {}", literal(blob)),
            Constant::Number(name, number) => writeln!(text, "private const val {name} = {number}"),
            Constant::Names(name, items) => {
                writeln!(text, "private val {name} = {}", names(items.iter().map(String::as_str)))
            }
        };
    }
    text
}

fn picture_constants(subject: &Subject, purpose: &Purpose, picture: Picture) -> String {
    let Picture { width, height, channels, .. } = picture;
    let scaling = super::subject::scaling(subject, purpose, picture);
    let order = match (channels, scaling.is_bgr) {
        (1, _) => "GRAY",
        (_, true) => "BGR",
        (_, false) => "RGB",
    };
    let [mean, norm] = scaling.of_channels(picture, "f");
    format!(
        "private const val WIDTH = {width}\n\
         private const val HEIGHT = {height}\n\
         private const val CHANNELS = {channels}\n\
         private val ORDER = Order.{order}\n\
         // {}\n\
         private val MEAN = floatArrayOf({})\n\
         private val NORM = floatArrayOf({})\n\
         {}",
        scaling.reason,
        mean.join(", "),
        norm.join(", "),
        match purpose.tail {
            Tail::Text { .. } => format!("private const val BORDER = {:?}f\n", scaling.border),
            _ => String::new(),
        },
    )
}

fn functions(subject: &Subject, purpose: &Purpose) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if let Source::Picture(_) = purpose.source {
        parts.push(include_str!("kotlin/framed.kt"));
    }
    if purpose.given.contains(&Given::PictureOfPixels) {
        parts.push(include_str!("kotlin/pixels.kt"));
    }
    if purpose.source == Source::Arrays {
        parts.push(include_str!("kotlin/arrays.kt"));
    }
    match purpose.tail {
        Tail::Boxes { layout, .. } => {
            parts.push(include_str!("kotlin/box.kt"));
            if matches!(layout, Layout::Columns | Layout::Rows) {
                parts.push(include_str!("kotlin/box_of.kt"));
            }
            parts.push(match layout {
                Layout::Columns => include_str!("kotlin/boxes_of_columns.kt"),
                Layout::Rows => include_str!("kotlin/boxes_of_rows.kt"),
                Layout::Selected => include_str!("kotlin/boxes_selected.kt"),
                Layout::Pair => include_str!("kotlin/boxes_and_scores.kt"),
            });
            parts.push(include_str!("kotlin/nms.kt"));
        }
        Tail::Text { .. } => parts.push(include_str!("kotlin/text.kt")),
        Tail::Scores { scale, .. } => {
            parts.push(include_str!("kotlin/scores.kt"));
            if scale == Scale::Logits {
                parts.push(include_str!("kotlin/softmax.kt"));
            }
        }
        Tail::Next { .. } | Tail::Shapes => {}
    }
    let mut text = parts.concat();
    if purpose.states().next().is_some() {
        let states = purpose.states().filter_map(|(input, _)| {
            // The runtime begins with empty caches.
            let port = subject.inputs.get(input).filter(|port| port.cache.is_none())?;
            let sizes = ints(super::subject::first_sizes(subject, port));
            Some(format!("        {} to Blob.constant({sizes}, 0, {})", literal(&port.blob), port.int32))
        });
        let states = states.collect::<Vec<_>>().join(",\n");
        text.push_str(&fill(include_str!("kotlin/first.kt"), &[("states", states)]));
    }
    text
}

/// Returns the function that runs the net.
fn main(subject: &Subject, purpose: &Purpose) -> String {
    let template = match (purpose.source, purpose.tail) {
        (Source::Picture(_), _) => include_str!("kotlin/main_picture.kt"),
        (Source::Tokens, Tail::Next { .. }) => include_str!("kotlin/main_decoder.kt"),
        (Source::Tokens, _) => include_str!("kotlin/main_tokens.kt"),
        (Source::Arrays, _) => include_str!("kotlin/main_arrays.kt"),
    };
    let read = match purpose.tail {
        Tail::Boxes { .. } => include_str!("kotlin/read_letterbox.kt"),
        Tail::Text { .. } => include_str!("kotlin/read_line.kt"),
        _ => include_str!("kotlin/read_picture.kt"),
    };
    let has_states = purpose.states().next().is_some();
    let if_states = |text: &str| if has_states { text.to_owned() } else { String::new() };
    let (total, next) = match has_states {
        true => ("total + count", "intArrayOf(best)"),
        // Without states, each call is given all tokens.
        false => ("count", "now + best"),
    };
    let deep = if matches!(purpose.tail, Tail::Next { .. }) { 16 } else { 12 };
    let (kind, tail) = tail(purpose);
    let parts = [
        ("given", indented(&given(subject, purpose), deep)),
        ("read", read.trim_end().to_owned()),
        ("type", kind.to_owned()),
        ("tail", tail.to_owned()),
        ("first", if_states(" + first()")),
        ("continued", if_states(", STATES")),
        ("sequence", if_states(" States go from call to call, until [reset].")),
        ("total", total.to_owned()),
        ("next", next.to_owned()),
    ];
    fill(template, &parts).trim_end().to_owned()
}

/// Returns a line for each input except the states.
fn given(subject: &Subject, purpose: &Purpose) -> String {
    let mut lines = Vec::new();
    for (port, given) in subject.inputs.iter().zip(&purpose.given) {
        let int32 = port.int32;
        let shape = ints(subject.sizes_of(purpose, &port.form));
        let is_row = purpose.source == Source::Tokens && port.form.len() == 1;
        // A fixed number of tokens: others are filled up.
        let fixed = port.form.last().and_then(Dim::known).filter(|_| is_row);
        let row = |values: &str| match fixed {
            Some(n) => format!("Blob.row({values}, {int32}, {n})"),
            None => format!("Blob.row({values}, {int32})"),
        };
        let value = match given {
            Given::Picture => "picture".to_owned(),
            Given::PictureOfPixels => "withChannelsLast(picture)".to_owned(),
            Given::Tokens => row(if matches!(purpose.tail, Tail::Next { .. }) { "now" } else { "tokens" }),
            Given::AllOnes => row("IntArray(total) { 1 }"),
            Given::Positions => match fixed {
                Some(n) => row(&format!("IntArray({n}) {{ it }}")),
                None => row("IntArray(count) { total - count + it }"),
            },
            Given::Length => format!("Blob.row(intArrayOf(count), {int32})"),
            Given::Ones => format!("Blob.constant({shape}, 1, {int32})"),
            Given::Sides => format!("Blob.row(intArrayOf(HEIGHT, WIDTH), {int32})"),
            Given::Zeros if is_row && fixed.is_none() => {
                format!("Blob.constant(intArrayOf(count), 0, {int32})")
            }
            Given::Zeros | Given::Array => format!("Blob.constant({shape}, 0, {int32})"),
            Given::State(_) => continue,
        };
        lines.push(format!("{} to {value}", literal(&port.blob)));
    }
    lines.join(",\n")
}

/// Returns what the program makes of the results: its type, and the expression.
fn tail(purpose: &Purpose) -> (&'static str, &'static str) {
    match purpose.tail {
        Tail::Scores { scale: Scale::Probabilities, .. } => {
            ("List<Score>", "best(results.getValue(SCORES).elements)")
        }
        Tail::Scores { scale: Scale::Logits, .. } => {
            ("List<Score>", "best(softmax(results.getValue(SCORES).elements))")
        }
        // The net has selected the boxes itself.
        Tail::Boxes { layout: Layout::Selected, .. } => {
            ("List<Box>", "select(candidates(results), 0.25f, 1f).map { it.moved(left, top, scale) }")
        }
        Tail::Boxes { .. } => {
            ("List<Box>", "select(candidates(results), 0.25f, 0.45f).map { it.moved(left, top, scale) }")
        }
        Tail::Text { .. } => ("String", "text(results.getValue(TEXT))"),
        Tail::Next { .. } | Tail::Shapes => ("Map<String, Blob>", "results"),
    }
}
