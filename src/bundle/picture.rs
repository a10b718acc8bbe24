//! Models that name the classes of a picture, or of its pixels.

use serde_json::Value;

use super::folder::{Folder, json, listed};
use super::{Part, Plan, Task};
use crate::api::Converter;
use crate::error::{Error, Result};
use crate::example::{Reading, Resized};
use crate::pipeline::Remedy;
use crate::tensor::Dim;

/// The ends of the names of architectures.
const ARCHITECTURES: [&str; 2] = ["ForImageClassification", SEGMENTATION];
const SEGMENTATION: &str = "ForSemanticSegmentation";

/// The input of a picture.
const INPUT: &str = "pixel_values";

const CONFIG: &str = "preprocessor_config.json";

/// The image processors that do nothing but what [`reading`] reads, without the end of their names.
const PROCESSORS: [&str; 8] =
    ["Beit", "Bit", "ConvNext", "DeiT", "MobileNetV1", "MobileNetV2", "Segformer", "ViT"];

/// The side below which ConvNext's processor cuts off a border, and the part that it keeps by default.
const CROPPED_BELOW: i64 = 384;
const KEPT: f64 = 224.0 / 256.0;

/// The filters of Pillow, by their numbers.
const FILTERS: [&str; 6] = ["NEAREST", "LANCZOS", "BILINEAR", "BICUBIC", "BOX", "HAMMING"];

/// Returns the net of a model of pictures; `None` for another model.
///
/// # Errors
///
/// `Usage` if the model or the file of its image processor is missing, or no program reads pictures so.
pub(super) fn plan(folder: &Folder, converter: &Converter) -> Result<Option<Plan>> {
    let is_known = |name: &str| ARCHITECTURES.iter().any(|end| name.ends_with(end));
    if !folder.architecture.as_deref().is_some_and(is_known) {
        return Ok(None);
    }
    let Some(model) = folder.find("model.onnx") else {
        let what = "model.onnx is missing";
        return Err(listed(Error::usage(what).in_file(&folder.path), folder.models()));
    };
    let config = json(&folder.path, CONFIG)?.ok_or_else(|| {
        let what = format!("{CONFIG} is missing: it says how the model reads a picture");
        Error::usage(what).in_file(&folder.path)
    })?;
    let failed = |what: String| Error::usage(what).in_file(folder.path.join(CONFIG));
    let (reading, [height, width]) = reading(folder, &config).map_err(failed)?;
    let inputs = folder.inspected(converter, model)?.inputs;
    let Some(input) = inputs.iter().find(|input| input.name == INPUT) else {
        return Err(Error::usage(format!("the model has no input {INPUT}")).in_file(model));
    };
    let shape = [1, 3, height, width].map(Dim::from).to_vec();
    let states = |size: &Dim, wanted: &Dim| size.known().is_none_or(|size| wanted.is(size));
    let declared = input.shape.as_deref().unwrap_or_default();
    if declared.len() != shape.len()
        || !declared.iter().zip(&shape).all(|(size, wanted)| states(size, wanted))
    {
        let what = format!("{CONFIG} has pictures of {width} x {height}, and the model reads others");
        return Err(Error::usage(what).in_file(model));
    }
    let is_free = declared.iter().any(|size| size.known().is_none());
    let input_shapes = if is_free { vec![(INPUT.to_owned(), shape)] } else { Vec::new() };
    let added = Remedy { input_shapes, ..Remedy::default() };
    let part = Part { name: super::MODEL, model: model.clone(), added, may_keep: false };
    Ok(Some(Plan { parts: vec![part], task: Task::Picture(reading) }))
}

/// Reads how a picture becomes the input, and its height and width.
fn reading(folder: &Folder, config: &Value) -> std::result::Result<(Reading, [i64; 2]), String> {
    let name =
        ["image_processor_type", "feature_extractor_type"].iter().find_map(|key| config.get(*key)?.as_str());
    let name = name.unwrap_or_default();
    let kind = ["ImageProcessorFast", "ImageProcessor", "FeatureExtractor"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .filter(|kind| PROCESSORS.contains(kind))
        .ok_or_else(|| format!("the processor \"{name}\" has no program"))?;
    let is_on = |key: &str, default: bool| config.get(key).and_then(Value::as_bool).unwrap_or(default);
    for (key, default) in [("do_resize", true), ("do_rescale", true), ("do_normalize", true)] {
        if !is_on(key, default) {
            return Err(format!("\"{key}\" is false, and no program reads pictures so"));
        }
    }
    let size = config.get("size").ok_or("\"size\" is missing")?;
    let side = |value: &Value, key: &str| value.get(key).and_then(Value::as_i64).filter(|n| *n > 0);
    let sides = |value: &Value| match value.as_i64() {
        Some(side) => Some([side, side]),
        None => Some([side(value, "height")?, side(value, "width")?]),
    };
    let crops = is_on("do_center_crop", false);
    let cropped = config.get("crop_size").filter(|_| crops).and_then(sides);
    let (resized, [height, width]) = match (side(size, "shortest_edge"), sides(size)) {
        (Some(side), _) if kind == "ConvNext" => {
            let kept = config.get("crop_pct").and_then(Value::as_f64).unwrap_or(KEPT);
            #[allow(clippy::as_conversions)] // As Python's int.
            let before = (side as f64 / kept) as i64;
            let resized =
                if side < CROPPED_BELOW { Resized::Shorter(before) } else { Resized::Sides(side, side) };
            (resized, [side, side])
        }
        (Some(side), _) if crops => (Resized::Shorter(side), cropped.ok_or("\"crop_size\" is missing")?),
        (None, Some([height, width])) => (Resized::Sides(width, height), cropped.unwrap_or([height, width])),
        _ => {
            return Err("\"size\" has neither a height and a width, nor a shorter side to cut off".to_owned());
        }
    };
    let numbers = |key: &str| -> std::result::Result<[f64; 3], String> {
        let list = config.get(key).and_then(Value::as_array).into_iter().flatten();
        let list: Vec<f64> = list.filter_map(Value::as_f64).collect();
        <[f64; 3]>::try_from(list).map_err(|_| format!("\"{key}\" is not a list of three numbers"))
    };
    let factor = config.get("rescale_factor").and_then(Value::as_f64).unwrap_or(1.0 / 255.0);
    let filter = config.get("resample").and_then(Value::as_u64).unwrap_or(2);
    let filter = usize::try_from(filter).ok().and_then(|filter| FILTERS.get(filter));
    let (mean, std) = (numbers("image_mean")?, numbers("image_std")?);
    let reading = Reading {
        mean: mean.map(|mean| mean / factor),
        norm: std.map(|std| factor / std),
        resized,
        resample: filter.ok_or("\"resample\" is the number of no filter of Pillow")?,
        scale: folder.scale(),
        labels: folder.labels(),
        of_pixels: folder.architecture.as_deref().is_some_and(|name| name.ends_with(SEGMENTATION)),
    };
    Ok((reading, [height, width]))
}
