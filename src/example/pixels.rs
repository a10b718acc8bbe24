//! How a program makes numbers of pixels.

use serde::Serialize;

use super::purpose::Picture;
use super::subject::{Reading, Subject};
use super::tail::{IMAGENET, Tail};

/// The scaling of pixels, `(pixel - mean) * norm`, as programs state it.
#[derive(Debug, Serialize)]
pub(super) struct Pixels {
    /// `GRAY`, `RGB` or `BGR`.
    order: &'static str,
    /// The means and the factors of the channels.
    mean: Vec<String>,
    norm: Vec<String>,
    /// The number around a line of text, as the net reads it.
    border: String,
    reason: &'static str,
}

impl Pixels {
    pub fn of(subject: &Subject, picture: Picture, tail: &Tail) -> Pixels {
        let Scaling { mean, norm, is_bgr, border, reason } = scaling(subject, picture, tail);
        let channels = usize::try_from(picture.channels).unwrap_or(3);
        let [mean, norm] =
            [mean, norm].map(|list| list.iter().take(channels).map(|x| format!("{x:?}")).collect());
        let order = match (channels, is_bgr) {
            (1, _) => "GRAY",
            (_, true) => "BGR",
            (_, false) => "RGB",
        };
        Pixels { order, mean, norm, border: format!("{border:?}"), reason }
    }
}

struct Scaling {
    mean: [f64; 3],
    norm: [f64; 3],
    is_bgr: bool,
    border: f64,
    reason: &'static str,
}

/// Returns the scaling that is left to the program: the net may scale them itself.
fn scaling(subject: &Subject, picture: Picture, tail: &Tail) -> Scaling {
    let pixels = subject.pixels;
    let usual = match subject.reading() {
        Some(Reading { mean, norm, .. }) => Scaling {
            mean: *mean,
            norm: *norm,
            is_bgr: false,
            border: 0.0,
            reason: "As preprocessor_config.json says.",
        },
        None => usual_scaling(subject, picture, tail),
    };
    if pixels.are_plain() {
        return usual;
    }
    // Without numbers, only the order of the channels is another.
    let is_scaled = [&pixels.scale, &pixels.mean, &pixels.norm].iter().any(|list| !list.is_empty());
    let is_bgr = picture.channels == 3 && usual.is_bgr != pixels.is_bgr;
    match is_scaled {
        true => Scaling {
            mean: [0.0; 3],
            norm: [1.0; 3],
            is_bgr,
            border: pixels.border(),
            reason: "The net scales pixels itself, as it was asked to.",
        },
        false => Scaling { is_bgr, ..usual },
    }
}

/// Returns the scaling of pixels that models of such a use have, whatever the net does.
fn usual_scaling(subject: &Subject, picture: Picture, tail: &Tail) -> Scaling {
    let same =
        |mean, norm, reason| Scaling { mean: [mean; 3], norm: [norm; 3], is_bgr: false, border: 0.0, reason };
    let classes = match tail {
        Tail::Scores { output, .. } => subject.output_at(*output).and_then(|shape| shape.into_iter().max()),
        _ => None,
    };
    match tail {
        _ if picture.is_raw => same(0.0, 1.0, "The model scales pixels itself."),
        Tail::Text { .. } => Scaling {
            is_bgr: picture.channels == 3,
            ..same(
                127.5,
                1.0 / 127.5,
                "Pixels from -1 to 1, as PaddleOCR reads them; the model does not tell.",
            )
        },
        _ if subject.metadata.is_of_ultralytics() => {
            same(0.0, 1.0 / 255.0, "Pixels from 0 to 1, as the networks of ultralytics read them.")
        }
        Tail::Boxes(_) => same(
            0.0,
            1.0 / 255.0,
            "Assumed: red, green and blue from 0 to 1, inside a gray border. The model does not tell; compare how its library reads pictures.",
        ),
        Tail::Scores { .. } if picture.channels == 3 && classes == Some(IMAGENET) => Scaling {
            mean: [123.675, 116.28, 103.53],
            norm: [1.0 / 58.395, 1.0 / 57.12, 1.0 / 57.375],
            is_bgr: false,
            border: 0.0,
            reason: "As networks of ImageNet read pixels; the model does not tell.",
        },
        _ => same(0.0, 1.0 / 255.0, "Pixels from 0 to 1; the model does not tell how it reads them."),
    }
}
