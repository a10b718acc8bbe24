//! Nets with a fault, and whether the check of `verify` finds it.
//!
//! A mutant is a net of a fixture with one fault in its files: in a weight, a param, or the names of blobs.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "mutants/effect.rs"]
mod effect;
#[path = "mutants/faults.rs"]
mod faults;
#[path = "mutants/files.rs"]
mod files;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use effect::{Change, Effect};
use faults::{Source, mutants};
use files::Files;
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::{Converter, Input, Proof, State};

/// The fewest mutants that change what a net computes.
const LEAST: usize = 2000;

/// The least part of them that is found.
const FOUND: f64 = 0.98;

/// Nets of all kinds of layers with weights, and of most without.
const NETS: &[&str] = &[
    "attention/attention",
    "attention/attention_merged_heads",
    "attention/rotaryembedding",
    "elementwise/celu",
    "elementwise/clip_6",
    "elementwise/elu",
    "elementwise/gelu",
    "elementwise/hard_swish",
    "elementwise/hardsigmoid",
    "elementwise/leakyrelu",
    "elementwise/mish",
    "elementwise/selu",
    "elementwise/shrink",
    "elementwise/slope_for_every_element",
    "elementwise/slopes_of_volume",
    "elementwise/softplus",
    "elementwise/thresholded_relu",
    "fuse/attention",
    "fuse/attention_causal",
    "fuse/attention_mask_at_run_time",
    "fuse/attention_of_windows",
    "fuse/gelu_erf",
    "fuse/gelu_tanh",
    "fuse/glu",
    "fuse/group_norm",
    "fuse/hard_sigmoid",
    "fuse/hard_swish",
    "fuse/instance_norm_affine",
    "fuse/l2_rows",
    "fuse/layer_norm",
    "fuse/layer_norm_channels",
    "fuse/patch_merging",
    "fuse/pixel_shuffle",
    "fuse/rms_norm",
    "fuse/shuffle_channel",
    "fuse/softmax_written_out",
    "fuse/space_to_depth",
    "fuse/split_slices",
    "indexing/embedding",
    "indexing/frames_of_channels",
    "indexing/scatter_of_constants",
    "linear/constants_sliced",
    "linear/constants_split",
    "linear/einsum_outer",
    "linear/gemm",
    "linear/gemm_transposed_left",
    "linear/relative_values",
    "linear/weights_of_a_batch",
    "network/convolutional",
    "network/detection_head",
    "network/free_sizes",
    "network/normalization_by_squares",
    "network/transformer_block",
    "normalization/instance",
    "normalization/layer",
    "normalization/lp_2",
    "normalization/softmax_of_packed_rows",
    "recurrent/gru",
    "recurrent/gru_bidirectional",
    "recurrent/gru_state",
    "recurrent/lstm",
    "recurrent/lstm_bidirectional",
    "recurrent/lstm_cell_state",
    "recurrent/lstm_reverse",
    "recurrent/lstm_states",
    "reduction/log_sum_exp",
    "reduction/reduce_l2",
    "shape/concat_batch",
    "shape/pad_constant",
    "shape/pad_reflect",
    "shape/roll",
    "shape/slice_several_axes",
    "shape/split_unequal",
    "shape/tile",
    "spatial/conv_batch_of_three",
    "spatial/cubic_torch",
    "spatial/grid_sample",
    "spatial/linear_half_pixel",
    "spatial/pool_average_ceil",
    "spatial/pool_max_ceil",
    "spatial/transpose_plain",
];

/// The mutants of a kind.
#[derive(Default)]
struct Row {
    /// Those that are refused, or found.
    caught: usize,
    /// Those that compute the same.
    without_effect: usize,
    /// Those that compute the same but for the rounding of float32.
    rounding: usize,
    /// What the others change.
    survivors: Vec<String>,
}

type Table = BTreeMap<&'static str, Row>;

/// Adds the mutants of a net to the table.
fn count(name: &str, seed: u64, table: &mut Table) {
    let path = format!("{}/fixtures/{name}/model.onnx", env!("CARGO_MANIFEST_DIR"));
    let model = Input::from(fs::read(path).unwrap());
    let converter = Converter::new();
    let conversion = converter.convert(&model).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (mut param, mut bin) = (Vec::new(), Vec::new());
    conversion.write_to(&mut param, &mut bin).unwrap();
    let files = Files::of(&String::from_utf8(param).unwrap(), bin);
    let net = files.net().unwrap();
    let is_free = conversion.inputs.iter().flat_map(|port| &port.shape).any(|size| size.known().is_none());
    let sizes: &[i64] = if is_free { &[1, 2, 7] } else { &[1] };
    let tops = conversion.net().layers.iter().flat_map(|layer| &layer.tops);
    let blobs = tops.map(|id| conversion.net().blob(*id));
    let shapes = blobs.map(|blob| (blob.name.clone(), format!("{:?}", blob.shape))).collect();
    let prove = |net: &Net| conversion.prove(&converter, &model, net);
    let proofs = prove(&net).unwrap();
    for proof in &proofs {
        let is_covered = proof.count(State::NotCovered) == 0;
        assert!(proof.is_right() && is_covered, "{name} without a fault: {proof:?}");
    }
    let is_right = |net: &Net| prove(net).is_ok_and(|proofs| proofs.iter().all(Proof::is_right));
    // The blobs with the elements of values of the model.
    let names = proofs.into_iter().flat_map(|proof| proof.windows).map(|window| window.blob).collect();
    let effect = Effect::new(&conversion, &net, names, sizes);
    for mutant in mutants(&Source { files: &files, net: &net, shapes }, seed) {
        let row = table.entry(mutant.kind).or_default();
        match mutant.files.net() {
            Ok(net) if is_right(&net) => match effect.of(&net) {
                Change::Nothing => row.without_effect += 1,
                Change::Rounding => row.rounding += 1,
                Change::Differs(change) => {
                    row.survivors.push(format!("{name}: {}: {change}", mutant.what));
                }
            },
            _ => row.caught += 1,
        }
    }
}

#[test]
fn faults_of_nets_are_found() {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut table = Table::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = NETS.get(index) else { return table };
            count(name, u64::try_from(index).unwrap(), &mut table);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut table = Table::new();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for (kind, row) in all.into_iter().flat_map(|thread| thread.join().unwrap()) {
            let sum = table.entry(kind).or_default();
            sum.caught += row.caught;
            sum.without_effect += row.without_effect;
            sum.rounding += row.rounding;
            sum.survivors.extend(row.survivors);
        }
    });
    println!("{:30} {:>8} {:>8} {:>12} {:>8}", "fault", "caught", "missed", "no effect", "rounding");
    for (kind, row) in &table {
        let missed = row.survivors.len();
        println!("{kind:30} {:8} {missed:8} {:12} {:8}", row.caught, row.without_effect, row.rounding);
    }
    for (kind, row) in &mut table {
        row.survivors.sort();
        row.survivors.iter().for_each(|survivor| println!("missed: {kind}: {survivor}"));
    }
    let caught: usize = table.values().map(|row| row.caught).sum();
    let all = caught + table.values().map(|row| row.survivors.len()).sum::<usize>();
    println!("{caught} of {all} are found");
    assert!(all >= LEAST, "{all} mutants");
    let least = FOUND * f64::from(u32::try_from(all).unwrap());
    assert!(f64::from(u32::try_from(caught).unwrap()) >= least, "{caught} of {all} are found");
}
