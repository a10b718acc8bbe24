//! Whether a fault changes what a net computes: both nets are computed in float64 from the same inputs.

use std::collections::BTreeMap;

use fastrand::Rng;
use ndarray::{ArrayD, IxDyn};
use onnx2ncnn::Conversion;
use onnx2ncnn::ncnn::{BlobId, Net};
use onnx2ncnn::reference::{Mat, run};

/// The largest difference, relative to the largest magnitude of a blob, that is no change.
const NOTHING: f64 = 1e-7;

/// The magnitudes of floats, and the bounds of integers.
const LAWS: [(f64, u32); 5] = [(1.0, 4), (1.0, 2), (6.0, 2), (1e-3, 2), (1e-3, 1)];

/// Elements of all inputs of a net, by the names of its blobs.
type Inputs = BTreeMap<String, Mat>;

/// A net, inputs of it, and the blobs that it computes from each of them.
pub struct Effect {
    names: Vec<String>,
    runs: Vec<(Inputs, Vec<Mat>)>,
}

/// What a fault does.
pub enum Change {
    /// All elements are equal.
    Nothing,
    /// The difference is less than the rounding of float32.
    Rounding,
    /// The largest relative difference, and the blob.
    Differs(String),
}

impl Effect {
    /// Computes these blobs of a net at these free sizes.
    pub fn new(conversion: &Conversion, net: &Net, names: Vec<String>, sizes: &[i64]) -> Effect {
        let mut runs = Vec::new();
        for size in sizes {
            for (seed, law) in (0..).zip(LAWS) {
                let inputs = inputs(conversion, *size, law, seed);
                // Integers may be out of range.
                if let Ok(blobs) = compute(net, &inputs, &names) {
                    runs.push((inputs, blobs));
                }
            }
        }
        assert!(!runs.is_empty());
        Effect { names, runs }
    }

    /// Compares a net with a fault.
    pub fn of(&self, net: &Net) -> Change {
        let mut most = 0.0_f64;
        for (inputs, blobs) in &self.runs {
            let others = match compute(net, inputs, &self.names) {
                Ok(others) => others,
                Err(error) => return Change::Differs(error),
            };
            for ((name, blob), other) in self.names.iter().zip(blobs).zip(&others) {
                if blob.shape() != other.shape() {
                    return Change::Differs(format!("{name}: {:?} -> {:?}", blob.shape(), other.shape()));
                }
                let difference = difference(blob, other);
                if difference > NOTHING {
                    return Change::Differs(format!("{name}: {difference:.1e}"));
                }
                most = most.max(difference);
            }
        }
        if most == 0.0 { Change::Nothing } else { Change::Rounding }
    }
}

/// Returns the largest difference relative to the largest magnitude.
fn difference(one: &Mat, other: &Mat) -> f64 {
    let magnitude = one.iter().filter(|x| x.is_finite()).fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let pairs = one.iter().zip(other).filter(|(x, y)| x != y && !(x.is_nan() && y.is_nan()));
    pairs.fold(0.0, |most, (x, y)| {
        let difference = (x - y).abs() / magnitude;
        if difference.is_nan() { f64::INFINITY } else { most.max(difference) }
    })
}

fn compute(net: &Net, inputs: &Inputs, names: &[String]) -> Result<Vec<Mat>, String> {
    let blobs: BTreeMap<&str, BlobId> = net.blob_ids().map(|id| (net.blob(id).name.as_str(), id)).collect();
    let id = |name: &String| blobs.get(name.as_str()).copied().ok_or_else(|| format!("no {name}"));
    let given = inputs.iter().map(|(name, mat)| Ok((id(name)?, mat.clone())));
    let given = given.collect::<Result<BTreeMap<_, _>, String>>()?;
    let wanted = names.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    run(net, given, &wanted).map_err(|error| error.to_string())
}

fn inputs(conversion: &Conversion, size: i64, (magnitude, bound): (f64, u32), seed: u64) -> Inputs {
    let mut random = Rng::with_seed(seed);
    let sizes = conversion.sizes_at(size).unwrap();
    let ports = conversion.inputs.iter().map(|port| {
        let form = port.form.iter().map(|dim| dim.substitute(&sizes).known().unwrap());
        let form: Vec<usize> = form.map(|dim| usize::try_from(dim).unwrap()).collect();
        let is_integer = port.dtype.contains("int") || port.dtype == "bool";
        let number = || match is_integer {
            true => f64::from(random.u32(0..if port.dtype == "bool" { 2 } else { bound })),
            // The sum of uniform numbers is near a normal one.
            false => magnitude * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0),
        };
        (port.blob.clone(), ArrayD::from_shape_simple_fn(IxDyn(&form), number))
    });
    ports.collect()
}
