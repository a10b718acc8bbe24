//! Programs in Python.

use std::fmt::Write as _;

use super::purpose::{Given, Layout, Picture, Purpose, Scale, Source, Tail};
use super::subject::{Constant, Files, Subject, indented, is_loop, quoted};
use crate::common::template::fill;
use crate::tensor::Dim;

const PROGRAM: &str = include_str!("python/program.py");

pub(super) fn program(subject: &Subject, purpose: &Purpose, files: &Files) -> String {
    let (usage, modules, imports, packages) = match purpose.source {
        Source::Picture(_) => ("PICTURE", "", "from PIL import Image\n", "ncnn numpy pillow"),
        Source::Tokens => ("TOKEN...", "", "", "ncnn numpy"),
        Source::Arrays => ("NAME=FILE.npy|FILE.wav|NUMBERS...", "import wave\n", "", "ncnn numpy"),
    };
    let mut parts = super::subject::parts(subject, files, "");
    parts.extend([
        ("usage", usage.to_owned()),
        ("packages", packages.to_owned()),
        ("modules", modules.to_owned()),
        ("imports", imports.to_owned()),
        ("constants", constants(subject, purpose)),
        ("functions", functions(purpose)),
        ("main", main(subject, purpose)),
    ]);
    fill(PROGRAM, &parts)
}

/// Returns a list of strings.
fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(quoted).collect();
    format!("[{}]", items.join(", "))
}

/// Returns a tuple of integers.
fn tuple(numbers: impl IntoIterator<Item = impl ToString>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|n| n.to_string()).collect();
    match numbers.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", numbers.join(", ")),
    }
}

fn constants(subject: &Subject, purpose: &Purpose) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "OUTPUTS = {}", list(subject.outputs.iter().map(|port| port.blob.as_str())));
    let kept: Vec<&str> =
        subject.outputs.iter().filter(|port| port.cache.is_some()).map(|p| p.blob.as_str()).collect();
    let _ = writeln!(text, "# Caches of the runtime.\nKEPT = {}", list(kept));
    if let Source::Picture(picture) = purpose.source {
        text.push_str(&picture_constants(subject, purpose, picture));
    }
    if is_loop(purpose) {
        text.push_str(&array_constants(subject, purpose));
    }
    for constant in super::subject::constants(subject, purpose) {
        let _ = match constant {
            Constant::Remark(remark) => writeln!(text, "# {remark}"),
            Constant::Blob(name, blob) => writeln!(text, "{name} = {}", quoted(blob)),
            Constant::Number(name, number) => writeln!(text, "{name} = {number}"),
            Constant::Names(name, items) => {
                writeln!(text, "{name} = {}", list(items.iter().map(String::as_str)))
            }
        };
    }
    if matches!(purpose.tail, Tail::Next { .. }) {
        text.push_str("STEPS = 32\n");
    }
    text
}

fn picture_constants(subject: &Subject, purpose: &Purpose, picture: Picture) -> String {
    let Picture { width, height, channels, .. } = picture;
    let scaling = super::subject::scaling(subject, purpose, picture);
    let (mode, pixels) = match (channels, scaling.is_bgr) {
        (1, _) => ("L", "PIXEL_GRAY"),
        (_, true) => ("RGB", "PIXEL_RGB2BGR"),
        (_, false) => ("RGB", "PIXEL_RGB"),
    };
    let [mean, norm] = scaling.of_channels(picture, "");
    format!(
        "WIDTH, HEIGHT = {width}, {height}\n\
         MODE, PIXELS = {}, ncnn.Mat.PixelType.{pixels}\n\
         # {}\n\
         MEAN, NORM = [{}], [{}]\n\
         {}",
        quoted(mode),
        scaling.reason,
        mean.join(", "),
        norm.join(", "),
        match purpose.tail {
            Tail::Text { .. } => format!("BORDER = {:?}\n", scaling.border),
            _ => String::new(),
        },
    )
}

/// Returns the constants of arrays and states.
fn array_constants(subject: &Subject, purpose: &Purpose) -> String {
    let mut text = String::new();
    let (mut shapes, mut axes, mut states, mut continued, mut integers) =
        (vec![], vec![], vec![], vec![], vec![]);
    for (port, given) in subject.inputs.iter().zip(&purpose.given) {
        let name = quoted(&port.blob);
        if let Given::State(output) = given {
            let after = subject.outputs.get(*output).map_or("", |port| port.blob.as_str());
            continued.push(format!("{name}: {}", quoted(after)));
            if port.cache.is_none() {
                let dtype = if port.int32 { "np.int32" } else { "np.float32" };
                states.push(format!(
                    "{name}: np.zeros({}, {dtype})",
                    tuple(super::subject::first_sizes(subject, port))
                ));
            }
            continue;
        }
        shapes.push(format!("{name}: {}", tuple(super::subject::given_sizes(subject, purpose, &port.shape))));
        axes.push(format!("{name}: {}", tuple(port.axes().into_iter().map(tuple))));
        if port.int32 {
            integers.push(name);
        }
    }
    if purpose.source == Source::Arrays {
        let _ = writeln!(
            text,
            "# The shapes of the inputs in the model, -1 for a free length, and the axes that each axis of the blob holds."
        );
        let _ = writeln!(text, "SHAPES = {{{}}}\nAXES = {{{}}}", shapes.join(", "), axes.join(", "));
        let _ = writeln!(text, "INTEGERS = [{}]", integers.join(", "));
    }
    let _ = writeln!(
        text,
        "# The states before the first call, and the outputs that are the states of the next call."
    );
    let _ = writeln!(text, "STATES = {{{}}}\nCONTINUED = {{{}}}", states.join(", "), continued.join(", "));
    text
}

fn functions(purpose: &Purpose) -> String {
    let read = match (purpose.source, purpose.tail) {
        (Source::Picture(_), Tail::Boxes { .. }) => include_str!("python/letterbox.py"),
        (Source::Picture(_), Tail::Text { .. }) => include_str!("python/line.py"),
        (Source::Picture(_), _) => include_str!("python/picture.py"),
        (Source::Arrays, _) => include_str!("python/arrays.py"),
        (Source::Tokens, _) => "",
    };
    let candidates = match purpose.tail {
        Tail::Boxes { layout: Layout::Columns, .. } => include_str!("python/boxes_of_columns.py"),
        Tail::Boxes { layout: Layout::Rows, .. } => include_str!("python/boxes_of_rows.py"),
        Tail::Boxes { layout: Layout::Selected, .. } => include_str!("python/boxes_selected.py"),
        Tail::Boxes { layout: Layout::Pair, .. } => include_str!("python/boxes_and_scores.py"),
        _ => "",
    };
    let ends: &[&str] = match purpose.tail {
        Tail::Boxes { .. } => &[include_str!("python/nms.py")],
        Tail::Text { .. } => &[include_str!("python/text.py")],
        Tail::Scores { scale: Scale::Logits, .. } => {
            &[include_str!("python/softmax.py"), include_str!("python/scores.py")]
        }
        Tail::Scores { .. } => &[include_str!("python/scores.py")],
        Tail::Next { .. } | Tail::Shapes => &[],
    };
    let parts = [read, candidates].into_iter().chain(ends.iter().copied()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

/// Returns the function `main`.
fn main(subject: &Subject, purpose: &Purpose) -> String {
    let template = match (purpose.source, purpose.tail) {
        (Source::Picture(_), _) => include_str!("python/main_picture.py"),
        (Source::Tokens, Tail::Next { .. }) => include_str!("python/main_decoder.py"),
        (Source::Tokens, _) => include_str!("python/main_tokens.py"),
        (Source::Arrays, _) => include_str!("python/main_arrays.py"),
    };
    let given = given(subject, purpose);
    let (given, tail) = match is_loop(purpose) {
        true => (indented(&given, 12), indented(tail(purpose), 8)),
        false => (indented(&given, 8), indented(tail(purpose), 4)),
    };
    // Without states, each call is given all tokens.
    let (total, next) = match purpose.states().next() {
        Some(_) => ("total + len(tokens)", "[best]"),
        None => ("len(tokens)", "tokens + [best]"),
    };
    let parts = [("given", given), ("tail", tail), ("total", total.to_owned()), ("next", next.to_owned())];
    fill(template, &parts)
}

/// Returns a line for each input except the states.
fn given(subject: &Subject, purpose: &Purpose) -> String {
    let mut lines = Vec::new();
    for (port, given) in subject.inputs.iter().zip(&purpose.given) {
        let shape = || tuple(subject.sizes_of(purpose, &port.form));
        let dtype = if port.int32 { "np.int32" } else { "np.float32" };
        // A fixed number of tokens: others are filled up.
        let is_row = purpose.source == Source::Tokens && port.form.len() == 1;
        let fixed = port.form.last().and_then(Dim::known).filter(|_| is_row);
        let value = match given {
            Given::Picture => "picture".to_owned(),
            Given::PictureOfPixels => {
                "np.array(picture).reshape(-1, HEIGHT, WIDTH).transpose(1, 2, 0)".to_owned()
            }
            Given::Tokens => match fixed {
                Some(n) => format!("np.array((tokens + [0] * {n})[:{n}], {dtype})"),
                None => format!("np.array(tokens, {dtype})"),
            },
            Given::AllOnes => match fixed {
                Some(n) => format!("(np.arange({n}) < total).astype({dtype})"),
                None => format!("np.ones(total, {dtype})"),
            },
            Given::Positions => match fixed {
                Some(n) => format!("np.arange({n}).astype({dtype})"),
                None => format!("np.arange(total - count, total).astype({dtype})"),
            },
            Given::Length => format!("np.full(1, count, {dtype})"),
            Given::Ones => format!("np.ones({}, {dtype})", shape()),
            Given::Sides => format!("np.array([HEIGHT, WIDTH], {dtype})"),
            Given::Zeros if is_row && fixed.is_none() => format!("np.zeros(count, {dtype})"),
            Given::Zeros | Given::Array => format!("np.zeros({}, {dtype})", shape()),
            Given::State(_) => continue,
        };
        lines.push(format!("{}: {value},\n", quoted(&port.blob)));
    }
    lines.concat()
}

/// Returns the lines that use the results.
fn tail(purpose: &Purpose) -> &'static str {
    match purpose.tail {
        Tail::Scores { scale: Scale::Probabilities, .. } => include_str!("python/tail_probabilities.py"),
        Tail::Scores { scale: Scale::Logits, .. } => include_str!("python/tail_scores.py"),
        Tail::Boxes { layout: Layout::Selected, .. } => include_str!("python/tail_selected.py"),
        Tail::Boxes { .. } => include_str!("python/tail_boxes.py"),
        Tail::Text { .. } => include_str!("python/tail_text.py"),
        Tail::Next { .. } | Tail::Shapes => include_str!("python/tail_shapes.py"),
    }
}
