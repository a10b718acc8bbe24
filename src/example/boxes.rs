//! How a program reads boxes out of the outputs of a detector, and selects them.

use serde::Serialize;

use super::probe::{BoxForm, Cells, Probe};
use super::purpose::Picture;
use super::subject::Subject;
use super::tail::{Scale, computing_layer, rank};
use crate::common::int::Int;
use crate::pipeline::Port;
use crate::tensor::Dim;

/// The number of classes of COCO, which detectors without names usually have, and the number with its unused
/// classes.
const COCO: i64 = 80;
const ALL_OF_COCO: i64 = 91;

/// The maximum number of boxes of a detector that selects them itself.
const MAX_SELECTED: i64 = 1000;

/// The thresholds of programs for models that do not tell theirs.
const THRESHOLD: f32 = 0.25;
const OVERLAP: f32 = 0.45;
const MOST: i64 = 300;

/// The overlap of ultralytics.
const ULTRALYTICS_OVERLAP: f32 = 0.7;

/// The boxes of a detector.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Boxes {
    pub layout: Layout,
    /// The outputs that hold boxes, scores, and classes if these are not those of the best scores.
    pub boxes: usize,
    pub scores: usize,
    pub labels: Option<usize>,
    /// The number of classes.
    pub classes: i64,
    /// Whether rows have a score of an object before those of classes.
    pub has_objects: bool,
    /// Whether a box is a centre and a size.
    pub are_centres: bool,
    /// Whether y comes before x, as in TensorFlow.
    pub are_rows_first: bool,
    /// What is assumed about the boxes, if neither the layers nor the metadata show it.
    pub assumed: Option<&'static str>,
    pub scale: Scale,
    /// Whether one more score follows the scores of the classes, for no object.
    pub has_none: bool,
    /// What follows the scores of each box.
    pub further: Further,
    pub select: Select,
}

/// The layout of boxes and scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layout {
    /// A column for each box: the box, scores.
    Columns,
    /// A row for each box: the box, scores.
    Rows,
    /// A row for each selected box: corners, score, class unless an output has the classes.
    Selected,
    /// An output of boxes, and one of scores.
    Pair,
}

/// What a detector says about a box, next to its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Further {
    Nothing,
    /// Key points: coordinates, and maybe how visible they are.
    Points {
        count: i64,
        numbers: i64,
    },
    /// A factor for each mask of an output.
    Masks {
        output: usize,
        count: i64,
        width: i64,
        height: i64,
    },
    /// The angle of the box.
    Angle,
}

/// How a program selects boxes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Select {
    threshold: String,
    /// `None` if the net leaves no boxes that hide each other.
    overlap: Option<String>,
    most: i64,
    /// Where the numbers come from.
    reason: &'static str,
}

impl Boxes {
    pub fn of(subject: &Subject, picture: Picture) -> Option<Boxes> {
        selected_by_model(subject)
            .or_else(|| of_one_output(subject, picture))
            .or_else(|| of_cells(subject, picture))
            .or_else(|| by_names(subject, picture))
    }

    fn new(layout: Layout, output: usize, classes: i64, select: Select) -> Boxes {
        Boxes {
            layout,
            boxes: output,
            scores: output,
            labels: None,
            classes,
            has_objects: false,
            are_centres: false,
            are_rows_first: false,
            assumed: None,
            scale: Scale::Probabilities,
            has_none: false,
            further: Further::Nothing,
            select,
        }
    }

    /// Returns what the numbers of a box are, as a comment of a program states it.
    pub fn described(&self) -> String {
        let form = match (self.are_centres, self.are_rows_first) {
            (true, _) => "a centre, a width and a height",
            (false, true) => "two corners, y before x",
            (false, false) => "two corners",
        };
        let scores = match (self.scale, self.has_none) {
            (Scale::Independent, _) => " before a Sigmoid",
            (Scale::Logits, _) => " before a Softmax, and one for no object",
            (_, true) => ", and one for no object",
            _ => "",
        };
        let of_classes = match self.classes {
            1 => format!("a score{scores}"),
            classes => format!("a score for each of {classes} classes{scores}"),
        };
        let scores = match self.layout {
            Layout::Selected | Layout::Pair if self.labels.is_some() => {
                "a score; another output has the class".to_owned()
            }
            Layout::Selected => "a score, a class".to_owned(),
            Layout::Pair => format!("another output has {of_classes}"),
            _ if self.has_objects => format!("a score for any object, {of_classes}"),
            _ => of_classes,
        };
        let further = match self.further {
            Further::Nothing => "",
            Further::Points { .. } => ", key points",
            Further::Masks { .. } => ", a factor for each mask",
            Further::Angle => ", an angle",
        };
        format!("{form}; {scores}{further}")
    }

    /// Returns whether a program reads an output.
    pub fn reads(&self, output: usize) -> bool {
        let is_mask = matches!(self.further, Further::Masks { output: masks, .. } if masks == output);
        [self.boxes, self.scores].contains(&output) || self.labels == Some(output) || is_mask
    }
}

impl Select {
    fn of(subject: &Subject) -> Select {
        let is_ultralytics = subject.metadata.is_of_ultralytics();
        let (overlap, reason) = match is_ultralytics {
            true => (ULTRALYTICS_OVERLAP, "The least score, and the most boxes: the numbers of ultralytics."),
            false => (OVERLAP, "The least score, and the most boxes: usual numbers, as the model has none."),
        };
        Select { threshold: number(THRESHOLD), overlap: Some(number(overlap)), most: MOST, reason }
    }

    /// The same for a net that selects boxes itself.
    fn of_selected(subject: &Subject) -> Select {
        Select { overlap: None, ..Select::of(subject) }
    }

    /// All boxes that the model selects.
    fn of_all() -> Select {
        let reason = "The model has selected these boxes: a larger threshold leaves out more of them.";
        Select { threshold: number(0.0), overlap: None, most: MAX_SELECTED, reason }
    }
}

/// Returns a float as programs write it.
fn number(number: f32) -> String {
    format!("{number:?}")
}

/// Returns the boxes that the model selects, by the types and shapes of its outputs: an output of boxes, one
/// of scores and one of classes; or rows with all of them. A program computes the selection.
fn selected_by_model(subject: &Subject) -> Option<Boxes> {
    subject.computed()?;
    let outputs = || subject.outputs.iter().enumerate();
    let is_float = |port: &Port| port.dtype.contains("float");
    let is_labels = |port: &Port| port.dtype.contains("int") && rank(port) == 1;
    let labels = || outputs().find(|(_, port)| is_labels(port)).map(|(at, _)| at);
    let columns = |port: &Port| port.shape.last().and_then(Dim::known).filter(|_| is_float(port));
    let of =
        |columns_of: i64| outputs().find(|(_, port)| rank(port) == 2 && columns(port) == Some(columns_of));
    let classes = subject.metadata.classes.len().int().max(1);
    let selected = |output| Boxes::new(Layout::Selected, output, classes, Select::of_all());
    if let Some((boxes, _)) = of(4) {
        let mut others = outputs().filter(|(at, port)| *at != boxes && is_float(port) && rank(port) == 1);
        let (scores, _) = others.next()?;
        let pair = Boxes::new(Layout::Pair, boxes, classes, Select::of_all());
        let are_rows_first = are_rows_first(subject, boxes);
        return Some(Boxes { scores, labels: Some(labels()?), are_rows_first, ..pair });
    }
    if let (Some((boxes, _)), Some(labels)) = (of(5), labels()) {
        return Some(Boxes { labels: Some(labels), ..selected(boxes) });
    }
    let further = further(subject);
    let is_oriented = subject.metadata.task.as_deref() == Some("obb");
    let (boxes, columns) = outputs().find_map(|(at, port)| {
        let columns =
            columns(port).filter(|columns| *columns == 6 || further(columns - 6) != Further::Nothing);
        Some((at, columns.filter(|_| rank(port) == 2)?))
    })?;
    Some(Boxes { are_centres: is_oriented, further: further(columns - 6), ..selected(boxes) })
}

/// Returns the boxes of an output that holds all about them.
fn of_one_output(subject: &Subject, picture: Picture) -> Option<Boxes> {
    let named = subject.metadata.classes.len().int();
    let is_oriented = subject.metadata.task.as_deref() == Some("obb");
    let further = further(subject);
    let shapes = (0..subject.outputs.len()).filter_map(|at| Some((at, subject.output_at(at)?)));
    shapes.into_iter().find_map(|(at, shape)| {
        let &[1, rows, columns] = shape.as_slice() else { return None };
        let is_told = subject.metadata.has("end2end", "true");
        // Rows of two classes have as many numbers.
        let is_usual = (rows, columns) == (300, 6) || (named > 2 && columns == 6);
        if (is_told || is_usual) && columns >= 6 && rows <= MAX_SELECTED {
            let assumed = "The model is assumed to select these boxes: corners, score and class of each.";
            return Some(Boxes {
                are_centres: is_oriented,
                further: further(columns - 6),
                assumed: (!is_told).then_some(assumed),
                ..Boxes::new(Layout::Selected, at, named.max(1), Select::of_selected(subject))
            });
        }
        let of = |layout, count, numbers| of_rows(subject, picture, (layout, at), count, numbers);
        of(Layout::Columns, columns, rows).or_else(|| of(Layout::Rows, rows, columns))
    })
}

/// Returns the boxes of an output that has so many, with so many numbers for each.
fn of_rows(
    subject: &Subject,
    picture: Picture,
    (layout, output): (Layout, usize),
    count: i64,
    numbers: i64,
) -> Option<Boxes> {
    let cells = Cells::of(picture, count);
    let is_transposed = layout == Layout::Columns;
    let probe = (!cells.is_empty()).then(|| Probe::of(subject, output, numbers, is_transposed))?;
    let named = subject.metadata.classes.len().int();
    let further = further(subject);
    let after = numbers - 4;
    // Networks with three boxes in a cell have a score of an object.
    let has_anchors =
        layout == Layout::Rows && cells.iter().all(|cells| cells.boxes == 3 && cells.are_of_pyramid);
    let has_objects = match named {
        0 => after == COCO + 1 || (after != COCO && has_anchors),
        named => after == named + 1 && further(1) == Further::Nothing,
    };
    let after = after - i64::from(has_objects);
    let coefficients = masks(subject).map_or(0, |(_, count, ..)| count);
    let classes = if named > 0 { named } else { after - coefficients };
    let further = further(after - classes);
    let are_all_known = after == classes || (after > classes && further != Further::Nothing);
    (classes > 0 && are_all_known).then_some(())?;
    let boxes = Boxes { has_objects, further, ..Boxes::new(layout, output, classes, Select::of(subject)) };
    let Some(probe) = probe else {
        // Without names, such rows may have a score of an object, and coordinates within their cell.
        let has_one = cells.iter().any(|cells| cells.boxes == 1 && cells.are_of_pyramid);
        let is_likely = has_anchors || (has_one && (is_transposed || named > 0));
        let assumed = "Each box is assumed to be a centre and a size in pixels.";
        let assumed = (!subject.metadata.is_of_ultralytics()).then_some(assumed);
        return is_likely.then_some(Boxes { are_centres: true, assumed, ..boxes });
    };
    let BoxForm { is_centre, is_row_first: false, is_part: false } = probe.form(&cells)? else { return None };
    let scores = 4..numbers - (after - classes);
    let scale = probe.scale(scores);
    let boxes = Boxes { are_centres: is_centre, scale, ..boxes };
    (!has_objects || scale == Scale::Probabilities).then_some(boxes)
}

/// Returns the boxes of two outputs whose layers show that they have a box and scores for each cell.
fn of_cells(subject: &Subject, picture: Picture) -> Option<Boxes> {
    let [_, _] = subject.outputs else { return None };
    [(0, 1), (1, 0)].into_iter().find_map(|(boxes, scores)| {
        let (count, classes) = pair(subject, boxes, scores)?;
        let cells = Cells::of(picture, count);
        let probe = || Probe::of(subject, boxes, 4, false);
        let form = (!cells.is_empty()).then(probe)??.form(&cells)?;
        let scale = Probe::of(subject, scores, classes, false)?.scale(0..classes);
        Some(Boxes {
            scores,
            are_centres: form.is_centre,
            are_rows_first: form.is_row_first,
            scale,
            ..Boxes::new(Layout::Pair, boxes, classes, Select::of(subject))
        })
    })
}

/// Returns the masks of which each box has factors: their output, number, width and height.
fn masks(subject: &Subject) -> Option<(usize, i64, i64, i64)> {
    let shapes = (0..subject.outputs.len()).map(|at| subject.output_at(at));
    shapes.enumerate().find_map(|(output, shape)| match *shape?.as_slice() {
        [_, count, height, width] => Some((output, count, width, height)),
        _ => None,
    })
}

/// Returns a function from how many numbers follow the class of each box to their meaning.
fn further(subject: &Subject) -> impl Fn(i64) -> Further {
    let is_oriented = subject.metadata.task.as_deref() == Some("obb");
    let (masks, points) = (masks(subject), points(subject));
    move |numbers| match (points, masks) {
        _ if numbers <= 0 => Further::Nothing,
        (Some((count, each)), _) if count * each == numbers => Further::Points { count, numbers: each },
        _ if is_oriented => Further::Angle,
        (_, Some((output, count, width, height))) if count == numbers => {
            Further::Masks { output, count, width, height }
        }
        _ => Further::Nothing,
    }
}

/// Returns the number of key points of a box, and of the numbers of each.
fn points(subject: &Subject) -> Option<(i64, i64)> {
    let shape = subject.metadata.entries.get("kpt_shape")?.trim_matches(['[', ']', '(', ')']);
    let (count, numbers) = shape.split_once(',')?;
    let (count, numbers) = (count.trim().parse().ok()?, numbers.trim().parse().ok()?);
    (count > 0 && matches!(numbers, 2 | 3)).then_some((count, numbers))
}

/// Returns the boxes of two or three outputs, by their names.
fn by_names(subject: &Subject, picture: Picture) -> Option<Boxes> {
    let named = subject.metadata.classes.len().int();
    let find = |words: &[&str]| {
        let is_named = |port: &Port| words.iter().any(|word| port.name.to_lowercase().contains(word));
        subject.outputs.iter().position(is_named)
    };
    // Networks of queries, which need no selection: DETR and its successors.
    if let (Some(boxes), Some(scores)) = (find(&["pred_boxes", "dets"]), find(&["logits", "labels"]))
        && let Some((1.., count)) = pair(subject, boxes, scores)
        && subject.outputs.get(scores).is_some_and(|port| port.dtype.contains("float"))
    {
        let layer = subject.outputs.get(scores).and_then(|port| computing_layer(subject.net, &port.blob));
        let is_named = named > 0 && count == named + 1;
        let has_none = layer == Some("Softmax") || is_named || count == ALL_OF_COCO + 1;
        let scale = match layer {
            Some("Softmax" | "Sigmoid") => Scale::Probabilities,
            _ if has_none => Scale::Logits,
            _ => Scale::Independent,
        };
        return Some(Boxes {
            scores,
            are_centres: true,
            scale,
            has_none,
            assumed: Some("Each box is assumed to be a centre and a size, as parts of the picture."),
            ..Boxes::new(Layout::Pair, boxes, count - i64::from(has_none), Select::of_selected(subject))
        });
    }
    let (boxes, scores) = (find(&["box"])?, find(&["score", "conf", "prob"])?);
    let (count, classes) = pair(subject, boxes, scores)?;
    let cells = Cells::of(picture, count);
    let probe = || Probe::of(subject, boxes, 4, false);
    let is_offset = !cells.is_empty() && probe().is_some_and(|probe| probe.form(&cells).is_none());
    (!is_offset).then_some(())?;
    let labels = find(&["label", "class"]).filter(|at| {
        let numbers = subject.output_at(*at).map(|shape| shape.iter().product::<i64>());
        classes == 1 && *at != scores && *at != boxes && numbers == Some(count)
    });
    let (select, classes) = match labels {
        Some(_) => (Select::of_selected(subject), named.max(1)),
        None => (Select::of(subject), classes),
    };
    let are_rows_first = are_rows_first(subject, boxes);
    let assumed = (!are_rows_first).then_some("Each box is assumed to be two corners.");
    let pair = Boxes::new(Layout::Pair, boxes, classes, select);
    Some(Boxes { scores, labels, are_rows_first, assumed, ..pair })
}

/// Returns whether an output has the name that detectors of TensorFlow give their boxes.
fn are_rows_first(subject: &Subject, output: usize) -> bool {
    subject.outputs.get(output).is_some_and(|port| port.name.contains("detection_boxes"))
}

/// Returns the number of boxes, and of scores of each, if an output of boxes and one of scores belong
/// together.
fn pair(subject: &Subject, boxes: usize, scores: usize) -> Option<(i64, i64)> {
    match (subject.output_at(boxes)?.as_slice(), subject.output_at(scores)?.as_slice()) {
        ([.., n, 4], [.., m, classes]) if n == m && boxes != scores => Some((*n, *classes)),
        ([.., n, 4], [.., m]) if n == m && boxes != scores => Some((*n, 1)),
        _ => None,
    }
}
