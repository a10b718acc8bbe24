//! A small drawing of a net as SVG, for notebooks and documents; the page has the graph to move in.
//!
//! Layers stand in columns by their distance from the inputs. The colours are that of the text around the
//! drawing, and a blue that is legible on light and on dark.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::page::text;
use super::{LayerPart, NetPart};

/// The most layers of a drawing.
const MOST: usize = 1500;
/// The largest width; more columns are narrower.
const WIDTH: i64 = 960;
/// The width of a letter, and the space around a word.
const LETTER: i64 = 7;
const PAD: i64 = 16;
/// The room above the boxes for edges that pass over columns.
const ABOVE: i64 = 26;

/// The position of a layer: its column, and its row in the column.
#[derive(Clone, Copy)]
struct Position {
    column: i64,
    row: i64,
}

/// The sizes of boxes and of the space between them.
struct Measure {
    has_words: bool,
    /// Whether boxes are so narrow that outlines would hide them.
    is_dense: bool,
    width: i64,
    height: i64,
    space: i64,
    /// The number of layers of each column, and the largest one.
    counts: BTreeMap<i64, i64>,
    most: i64,
}

/// Returns the drawing of a net; `None` if it has no layers, or too many.
pub(super) fn draw(net: &NetPart) -> Option<String> {
    // A Split has the blob of its bottom.
    let layers: Vec<&LayerPart> = net.layers.iter().filter(|layer| layer.type_name != "Split").collect();
    if layers.is_empty() || layers.len() > MOST {
        return None;
    }
    let sources = sources(net, &layers);
    let columns = columns(&layers, &sources);
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    let positions: Vec<Position> = columns
        .into_iter()
        .map(|column| {
            let count = counts.entry(column).or_default();
            *count += 1;
            Position { column, row: *count - 1 }
        })
        .collect();
    let measure = Measure::of(&layers, counts);
    let (mut edges, mut boxes) = (String::new(), String::new());
    for ((position, layer), sources) in positions.iter().zip(&layers).zip(&sources) {
        for from in sources.iter().filter_map(|from| positions.get(*from)) {
            measure.edge(&mut edges, *from, *position);
        }
        measure.layer(&mut boxes, *position, layer);
    }
    let (width, height) = measure.sides();
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{}\" \
         height=\"{height}\" preserveAspectRatio=\"{}\" role=\"img\" aria-label=\"The layers of the net\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" text-anchor=\"middle\" \
         style=\"max-width: 100%\">\n\
         <path d=\"{edges}\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.45\" \
         vector-effect=\"non-scaling-stroke\"/>\n{boxes}</svg>\n",
        width.min(WIDTH),
        if measure.has_words { "xMidYMid" } else { "none" },
    ))
}

/// Returns the layers that compute what each layer reads, by their indices.
fn sources(net: &NetPart, layers: &[&LayerPart]) -> Vec<Vec<usize>> {
    let mut producers: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, layer) in layers.iter().enumerate() {
        producers.extend(layer.tops.iter().map(|top| (top.as_str(), index)));
    }
    for split in net.layers.iter().filter(|layer| layer.type_name == "Split") {
        let from = split.bottoms.first().and_then(|blob| producers.get(blob.as_str())).copied();
        producers.extend(split.tops.iter().filter_map(|top| Some((top.as_str(), from?))));
    }
    let of = |layer: &&LayerPart| {
        layer.bottoms.iter().filter_map(|blob| producers.get(blob.as_str()).copied()).collect()
    };
    layers.iter().map(of).collect()
}

/// Returns the column of each layer: after those that it reads, and a constant before its first reader.
fn columns(layers: &[&LayerPart], sources: &[Vec<usize>]) -> Vec<i64> {
    let mut columns: Vec<i64> = Vec::with_capacity(layers.len());
    for sources in sources {
        let before = sources.iter().filter_map(|from| columns.get(*from)).max();
        columns.push(before.map_or(0, |column| column + 1));
    }
    for (index, layer) in layers.iter().enumerate() {
        if !layer.bottoms.is_empty() || layer.type_name == "Input" {
            continue;
        }
        let readers = sources.iter().zip(&columns).filter(|(sources, _)| sources.contains(&index));
        let first = readers.map(|(_, column)| *column).min().unwrap_or(1);
        if let Some(column) = columns.get_mut(index) {
            *column = first - 1;
        }
    }
    columns
}

impl Measure {
    fn of(layers: &[&LayerPart], counts: BTreeMap<i64, i64>) -> Measure {
        let longest = layers.iter().map(|layer| layer.type_name.len()).max().unwrap_or(0);
        let words = LETTER * i64::try_from(longest).unwrap_or(WIDTH) + PAD;
        let columns = counts.keys().max().map_or(0, |last| last + 1);
        let most = counts.values().copied().max().unwrap_or(0);
        let has_words = columns * (words + PAD) <= WIDTH && most <= 8;
        let (width, height, space) = if has_words { (words, 26, PAD) } else { (14, 14, 8) };
        let is_dense = columns * (width + space) > WIDTH;
        Measure { has_words, is_dense, width, height, space, counts, most }
    }

    fn sides(&self) -> (i64, i64) {
        let columns = self.counts.keys().max().map_or(0, |last| last + 1);
        (columns * (self.width + self.space), ABOVE + self.most * (self.height + 8))
    }

    /// The left upper corner of a box.
    fn corner(&self, position: Position) -> (i64, i64) {
        let fewer = self.most - self.counts.get(&position.column).copied().unwrap_or(0);
        let row = self.height + 8;
        (
            position.column * (self.width + self.space) + self.space / 2,
            ABOVE + fewer * row / 2 + position.row * row,
        )
    }

    fn edge(&self, path: &mut String, from: Position, to: Position) {
        let ((x0, top0), (x1, top1)) = (self.corner(from), self.corner(to));
        let (x0, y0, y1) = (x0 + self.width, top0 + self.height / 2, top1 + self.height / 2);
        let half = (x0 + x1) / 2;
        let _ = match to.column - from.column {
            1 => write!(path, "M{x0} {y0}C{half} {y0} {half} {y1} {x1} {y1}"),
            // Over the boxes between both.
            span => {
                let over = top0.min(top1) - (6 + 2 * span).min(ABOVE - 2);
                write!(path, "M{x0} {y0}C{x0} {over} {x0} {over} {half} {over}S{x1} {over} {x1} {y1}")
            }
        };
    }

    fn layer(&self, boxes: &mut String, position: Position, layer: &LayerPart) {
        let ((x, y), Measure { width, height, .. }) = (self.corner(position), self);
        let (name, kind) = (text(&layer.name), text(layer.type_name));
        let [color, fill] = match layer.weights.is_empty() {
            true => ["currentColor", if self.is_dense { "0.35" } else { "0.1" }],
            false => ["#3b82f6", if self.has_words { "0.25" } else { "0.9" }],
        };
        let stroke = if self.is_dense { "none" } else { color };
        let round = if layer.type_name == "Input" { height / 2 } else { 3 };
        let _ = write!(
            boxes,
            "<g><title>{kind} {name}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             rx=\"{round}\" fill=\"{color}\" fill-opacity=\"{fill}\" stroke=\"{stroke}\" \
             stroke-opacity=\"0.8\" vector-effect=\"non-scaling-stroke\"/>"
        );
        if self.has_words {
            let (x, y) = (x + width / 2, y + 17);
            let _ = write!(boxes, "<text x=\"{x}\" y=\"{y}\" fill=\"currentColor\">{kind}</text>");
        }
        boxes.push_str("</g>\n");
    }
}
