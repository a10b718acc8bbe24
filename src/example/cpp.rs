//! Programs in C++.

use std::fmt::Write as _;

use super::purpose::{Given, Layout, Picture, Purpose, Scale, Source, Tail};
use super::subject::{Constant, Files, Subject, indented, is_loop, quoted};
use crate::common::template::fill;
use crate::pipeline::Port;
use crate::tensor::Dim;

const PROGRAM: &str = include_str!("cpp/program.cpp");

pub(super) fn program(subject: &Subject, purpose: &Purpose, files: &Files) -> String {
    let (usage, includes) = match purpose.source {
        Source::Picture(_) => ("PICTURE", include_str!("cpp/includes.cpp")),
        Source::Tokens => ("TOKEN...", ""),
        Source::Arrays => ("NAME=FILE|NUMBERS...", ""),
    };
    let mut parts = super::subject::parts(subject, files, "// ");
    parts.extend([
        ("usage", usage.to_owned()),
        ("includes", includes.to_owned()),
        ("constants", constants(subject, purpose)),
        ("functions", functions(purpose)),
        ("main", main(subject, purpose)),
    ]);
    fill(PROGRAM, &parts)
}

/// Returns an initializer.
fn braces(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("{{{}}}", items.join(", "))
}

fn names<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    braces(items.into_iter().map(quoted))
}

fn blob(ports: &[Port], index: usize) -> String {
    quoted(ports.get(index).map_or("", |port| port.blob.as_str()))
}

fn constants(subject: &Subject, purpose: &Purpose) -> String {
    let mut text = String::new();
    let outputs = subject.outputs;
    let kept = outputs.iter().filter(|port| port.cache.is_some());
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "static const Names OUTPUTS = {};",
        names(outputs.iter().map(|port| port.blob.as_str()))
    );
    let _ = writeln!(text, "// Caches of the runtime.");
    let _ = writeln!(text, "static const Names KEPT = {};", names(kept.map(|port| port.blob.as_str())));
    if let Source::Picture(picture) = purpose.source {
        text.push_str(&picture_constants(subject, purpose, picture));
    }
    if purpose.source == Source::Arrays {
        let inputs = super::subject::given_ports(subject, purpose);
        let shapes = inputs.iter().map(|port| {
            let sizes = super::subject::given_sizes(subject, purpose, &port.form);
            format!("{{{}, {}}}", quoted(&port.blob), braces(sizes))
        });
        let integers = inputs.iter().filter(|port| port.int32).map(|port| port.blob.as_str());
        let _ = writeln!(text, "// The sizes of the inputs, the outermost first; -1 for a free length.");
        let _ = writeln!(
            text,
            "static const std::map<std::string, std::vector<int> > SHAPES = {};",
            braces(shapes)
        );
        let _ = writeln!(text, "static const Names INTEGERS = {};", names(integers));
    }
    for constant in super::subject::constants(subject, purpose) {
        let _ = match constant {
            Constant::Remark(remark) => writeln!(text, "// {remark}"),
            Constant::Blob(name, blob) => {
                writeln!(text, "static const char* const {name} = {};", quoted(blob))
            }
            Constant::Number(name, number) => writeln!(text, "static const int {name} = {number};"),
            Constant::Names(name, items) => {
                writeln!(text, "static const Names {name} = {};", names(items.iter().map(String::as_str)))
            }
        };
    }
    if matches!(purpose.tail, Tail::Next { .. }) {
        text.push_str("static const int STEPS = 32;\n");
    }
    text
}

fn picture_constants(subject: &Subject, purpose: &Purpose, picture: Picture) -> String {
    let Picture { width, height, channels, .. } = picture;
    let scaling = super::subject::scaling(subject, purpose, picture);
    let pixels = match (channels, scaling.is_bgr) {
        (1, _) => "PIXEL_GRAY",
        (_, true) => "PIXEL_BGR",
        (_, false) => "PIXEL_BGR2RGB",
    };
    let [mean, norm] = scaling.of_channels(picture, "f");
    format!(
        "static const int WIDTH = {width}, HEIGHT = {height}, CHANNELS = {channels};\n\
         static const int PIXELS = ncnn::Mat::{pixels};\n\
         // {}\n\
         static const float MEAN[] = {};\n\
         static const float NORM[] = {};\n\
         {}",
        scaling.reason,
        braces(mean),
        braces(norm),
        match purpose.tail {
            Tail::Text { .. } => format!("static const float BORDER = {:?}f;\n", scaling.border),
            _ => String::new(),
        },
    )
}

fn functions(purpose: &Purpose) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if let Source::Picture(_) = purpose.source {
        parts.push(include_str!("cpp/place.cpp"));
        parts.push(match purpose.tail {
            Tail::Boxes { .. } => include_str!("cpp/letterbox.cpp"),
            Tail::Text { .. } => include_str!("cpp/line.cpp"),
            _ => include_str!("cpp/picture.cpp"),
        });
    }
    if purpose.given.contains(&Given::PictureOfPixels) {
        parts.push(include_str!("cpp/pixels.cpp"));
    }
    if purpose.given.iter().any(|given| !matches!(given, Given::Picture | Given::PictureOfPixels)) {
        parts.push(include_str!("cpp/blobs.cpp"));
    }
    match purpose.source {
        Source::Tokens => parts.push(include_str!("cpp/tokens.cpp")),
        Source::Arrays => parts.push(include_str!("cpp/arrays.cpp")),
        Source::Picture(_) => {}
    }
    match purpose.tail {
        Tail::Boxes { layout, .. } => {
            parts.push(include_str!("cpp/box.cpp"));
            if matches!(layout, Layout::Columns | Layout::Rows) {
                parts.push(include_str!("cpp/box_of.cpp"));
            }
            parts.push(match layout {
                Layout::Columns => include_str!("cpp/boxes_of_columns.cpp"),
                Layout::Rows => include_str!("cpp/boxes_of_rows.cpp"),
                Layout::Selected => include_str!("cpp/boxes_selected.cpp"),
                Layout::Pair => include_str!("cpp/boxes_and_scores.cpp"),
            });
            parts.push(include_str!("cpp/nms.cpp"));
        }
        Tail::Text { .. } => parts.push(include_str!("cpp/text.cpp")),
        Tail::Scores { scale, .. } => {
            if scale == Scale::Logits {
                parts.push(include_str!("cpp/softmax.cpp"));
            }
            parts.push(include_str!("cpp/scores.cpp"));
        }
        Tail::Next { .. } => {}
        Tail::Shapes => parts.push(include_str!("cpp/shapes.cpp")),
    }
    parts.concat()
}

/// Returns the function `main`.
fn main(subject: &Subject, purpose: &Purpose) -> String {
    let template = match (purpose.source, purpose.tail) {
        (Source::Picture(_), _) => include_str!("cpp/main_picture.cpp"),
        (Source::Tokens, Tail::Next { .. }) => include_str!("cpp/main_decoder.cpp"),
        (Source::Tokens, _) => include_str!("cpp/main_tokens.cpp"),
        (Source::Arrays, _) => include_str!("cpp/main_arrays.cpp"),
    };
    let deep = if is_loop(purpose) { 8 } else { 4 };
    let (total, next) = match purpose.states().next() {
        Some(_) => ("total + count", "tokens.assign(1, (float)best);"),
        // Without states, each call is given all tokens.
        None => ("count", "tokens.push_back((float)best);"),
    };
    let (mut states, mut continued) = (String::new(), String::new());
    for (input, output) in purpose.states() {
        let (before, after) = (blob(subject.inputs, input), blob(subject.outputs, output));
        let port = subject.inputs.get(input).filter(|port| port.cache.is_none());
        if let Some(port) = port {
            let sizes = braces(super::subject::first_sizes(subject, port));
            let _ = writeln!(states, "states[{before}] = constant({sizes}, 0.f, {});", port.int32);
        }
        let _ = writeln!(continued, "states[{before}] = results.at({after});");
    }
    let parts = [
        ("given", indented(&given(subject, purpose), deep)),
        ("tail", indented(tail(purpose), deep)),
        ("states", indented(&states, 4)),
        ("continued", indented(&continued, 8)),
        ("total", total.to_owned()),
        ("next", next.to_owned()),
    ];
    fill(template, &parts)
}

/// Returns a line for each input except the states.
fn given(subject: &Subject, purpose: &Purpose) -> String {
    let mut text = String::new();
    for (port, given) in subject.inputs.iter().zip(&purpose.given) {
        let int32 = port.int32;
        let shape = braces(subject.sizes_of(purpose, &port.form));
        let is_row = purpose.source == Source::Tokens && port.form.len() == 1;
        // A fixed number of tokens: others are filled up.
        let fixed = port.form.last().and_then(Dim::known).filter(|_| is_row);
        let row = |count: &str, values: &str| match fixed {
            Some(n) => format!("filled({{{n}}}, fitted({values}, {n}), {int32})"),
            None => format!("filled({{{count}}}, {values}, {int32})"),
        };
        let value = match given {
            Given::Picture => "picture".to_owned(),
            Given::PictureOfPixels => "with_channels_last(picture)".to_owned(),
            Given::Tokens => row("count", "tokens"),
            Given::AllOnes => row("total", "numbers(total, 1, 0)"),
            Given::Positions => match fixed {
                Some(n) => format!("filled({{{n}}}, numbers({n}, 0, 1), {int32})"),
                None => row("count", "numbers(count, total - count, 1)"),
            },
            Given::Length => format!("constant({{1}}, (float)count, {int32})"),
            Given::Ones => format!("constant({shape}, 1.f, {int32})"),
            Given::Sides => format!("filled({{2}}, {{(float)HEIGHT, (float)WIDTH}}, {int32})"),
            Given::Zeros if is_row && fixed.is_none() => format!("constant({{count}}, 0.f, {int32})"),
            Given::Zeros | Given::Array => format!("constant({shape}, 0.f, {int32})"),
            Given::State(_) => continue,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "given[{}] = {value};", quoted(&port.blob));
    }
    text
}

/// Returns the lines that use the results.
fn tail(purpose: &Purpose) -> &'static str {
    match purpose.tail {
        Tail::Scores { scale: Scale::Probabilities, .. } => "print_best(elements(results.at(SCORES)), 5);",
        Tail::Scores { scale: Scale::Logits, .. } => "print_best(softmax(elements(results.at(SCORES))), 5);",
        // The net has selected the boxes itself.
        Tail::Boxes { layout: Layout::Selected, .. } => {
            "print_boxes(select(candidates(results), 0.25f, 1.f), place);"
        }
        Tail::Boxes { .. } => "print_boxes(select(candidates(results), 0.25f, 0.45f), place);",
        Tail::Text { .. } => "printf(\"%s\\n\", read_text(results.at(TEXT)).c_str());",
        Tail::Next { .. } | Tail::Shapes => "print_shapes(results);",
    }
}
