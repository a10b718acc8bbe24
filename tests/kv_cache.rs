//! `--kv-cache`: the runtime keeps the caches of decoders. Each net is called twice, with the caches of the
//! first call.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;

use room::{Room, fixture};

/// The fixtures, with options of the conversion, and layers with their numbers in the net: attentions,
/// and pairs turned by angles.
const RIGHT: [(&str, &str, usize, usize); 14] = [
    // As exported by torch: repeated keys, rotated halves, a mask of padding.
    ("repeated_keys_after_5", "", 1, 2),
    ("repeated_keys_after_0", "--input-shape mask:1,P+S", 1, 2),
    // A cache in another order of its axes, and sizes of the grown cache.
    ("broadcast_keys", "", 1, 0),
    // Heads that share keys as rows of one product; lengths from the mask.
    ("lengths_of_the_mask", "--input-shape mask:1,P+S", 1, 2),
    ("lengths_of_the_mask_and_part_of_the_head", "--input-shape mask:1,P+S", 1, 2),
    ("causal_attention", "", 1, 0),
    ("causal_attention_of_a_prompt", "--ncnn-version 20260526", 1, 0),
    ("attention_to_all", "", 1, 0),
    ("attention_to_all", "--fp16", 1, 0),
    ("masked_attention", "", 1, 0),
    ("computed_causal_mask", "", 1, 0),
    ("computed_causal_mask", "--ncnn-version 20260526", 1, 0),
    ("computed_causal_terms", "", 1, 0),
    ("given_mask_of_causal_attention", "", 1, 0),
];

#[test]
fn caches_of_the_runtime_are_continued() {
    let python = support::python();
    for (name, options, attentions, turned) in RIGHT {
        let (room, model) = (Room::new(), fixture(&format!("decoder/{name}")));
        let said = room.expect(&format!("{model} m.param m.bin --kv-cache --check {options}"), 0, "caches: ");
        assert!(said.contains("a cache, continued by \"nk\""), "{name}: {said}");
        assert!(said.contains("a cache, continues \"pk\""), "{name}: {said}");
        let param = fs::read_to_string(room.path("m.param")).unwrap();
        let count = |kind: &str| param.lines().filter(|line| line.split(' ').next() == Some(kind)).count();
        assert_eq!((count("SDPA"), count("RotaryEmbed")), (attentions, turned), "{name}: {param}");
        assert!(param.contains(" 0 2 pk pv"), "{name}: {param}");
        let options = options.replace("--fp16", "").replace("--ncnn-version 20260526", "");
        let line = format!("verify {model} m.param m.bin --kv-cache {options} --python {}", python.display());
        room.expect(&line, 0, "the same in onnxruntime and ncnn");
        // Each call by itself, without a runtime.
        let text =
            room.expect(&format!("verify {model} m.param m.bin --kv-cache {options}"), 0, "verified: ");
        assert!(text.contains("not covered: 0"), "{name}: {text}");
    }
}

#[test]
fn the_length_of_the_caches_is_an_input_if_no_other_tells_it() {
    let room = Room::new();
    let model = fixture("decoder/repeated_keys_after_5");
    room.expect(&format!("{model} m.param m.bin --kv-cache"), 0, "the net has the input \"kv_length\"");
    let told = room.expect(&format!("{model} m.param m.bin --kv-cache --input-shape mask:1,P+S"), 0, "");
    assert!(!told.contains("kv_length"), "{told}");
}

#[test]
fn a_wrong_cache_is_found() {
    let python = support::python();
    let (room, model) = (Room::new(), fixture("decoder/attention_to_all"));
    room.expect(&format!("{model} m.param m.bin --kv-cache"), 0, "");
    let param = fs::read_to_string(room.path("m.param")).unwrap();
    // The second call attends only to the new keys.
    let line = param.lines().find(|line| line.starts_with("SDPA")).unwrap();
    let without =
        line.replace(" pk pv ", " ").replace(" 5 3 ", " 3 1 ").replace(" nk nv", "").replace(" 7=1", "");
    let split = "Split cut_k 1 2 k_cut k_sdpa nk\nSplit cut_v 1 2 v_cut v_sdpa nv\n";
    let words: Vec<&str> = without.split_whitespace().collect();
    let (k, v) = (words[5], words[6]);
    let split = split.replace("k_cut", k).replace("v_cut", v);
    let without = without.replace(&format!(" {k} {v} "), " k_sdpa v_sdpa ");
    let (head, rest) = param.split_once('\n').unwrap();
    let (counts, layers) = rest.split_once('\n').unwrap();
    let counts: Vec<usize> = counts.split(' ').map(|count| count.parse().unwrap()).collect();
    let changed = layers.replace(line, &format!("{split}{without}"));
    room.put("m.param", format!("{head}\n{} {}\n{changed}", counts[0] + 2, counts[1] + 2).as_bytes());
    let line = format!("verify {model} m.param m.bin --kv-cache --python {}", python.display());
    room.expect(&line, 4, "DIFFERS");
}

#[test]
fn other_caches_are_refused() {
    let room = Room::new();
    for (name, options, code, said) in [
        ("decoder/bounded_scores", "", 1, "its scores are bounded before the Softmax"),
        ("decoder/mask_for_all_queries", "", 1, "its mask has not an element for each new position"),
        ("decoder/cache", "", 1, "it is not read by an attention that SDPA computes"),
        ("decoder/attention_to_all", "--input-shape pk:1,2,5,16", 1, "the length of its cache is fixed"),
        (
            "decoder/attention_to_all",
            "--skip fuse_cached_attention",
            1,
            "it is not read by an attention that SDPA computes",
        ),
        ("decoder/attention_to_all", "--ncnn-version 20250916", 2, "ncnn keeps caches since 20260113"),
        ("network/free_sizes", "", 1, "no attention of the model has a cache"),
    ] {
        let model = fixture(name);
        let text = room.expect(&format!("{model} m.param m.bin --kv-cache {options}"), code, said);
        assert!(text.contains("nothing was written"), "{text}");
    }
}
