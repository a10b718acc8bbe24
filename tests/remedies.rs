//! Commands that a refusal prints: each converts what it says.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;

use room::{Room, fixture};

/// Returns the printed commands and the percentages of the weights that they say to convert.
fn printed(text: &str) -> Vec<(String, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let percent = |line: &str| {
        let told = line.strip_prefix("help: this converts ")?;
        let number = told.strip_prefix("a part with ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.or_else(|| told.starts_with("the whole model").then_some(100))
    };
    let pairs = lines.windows(2).filter_map(|pair| Some((percent(pair[0])?, pair[1])));
    pairs
        .map(|(percent, command)| (command.trim().strip_prefix("onnx2ncnn ").unwrap().to_owned(), percent))
        .collect()
}

/// Returns the commands for a fixture, after running each.
fn commands(name: &str) -> Vec<(String, u64)> {
    let model = fixture(name);
    let room = Room::new();
    let text = room.expect(&format!("{model} a.param a.bin"), 1, "nothing was written");
    let found = printed(&text);
    for (command, _) in &found {
        room.expect(&command.replace('"', ""), 0, "");
        assert_eq!(room.names(), ["a.bin", "a.param"], "{command}");
    }
    let before = format!("{model} a.param a.bin ");
    let options = |command: String| command.strip_prefix(&before).unwrap().to_owned();
    found.into_iter().map(|(command, percent)| (options(command), percent)).collect()
}

#[test]
fn each_class_of_refusal_has_a_command() {
    for (name, options, least) in [
        ("sample_rate", "--set sr=16000", 100),
        ("use_of_a_cache", "--set use_cache_branch=1", 100),
        ("length_of_a_mask", "--set lengths=T", 100),
        ("size_of_a_picture", "--set orig_im_size=1024,1024", 100),
        ("detector", "--outputs boxes,s", 97),
        ("letters", "--inputs ids", 90),
        ("branch_that_nothing_converts", "--outputs y,rows", 95),
        ("unknown_first_node", "--inputs a", 99),
        ("noise_after_weights", "--random-as-input", 100),
    ] {
        let found = commands(&format!("remedy/{name}"));
        let (first, percent) = found.first().unwrap_or_else(|| panic!("{name}"));
        assert!(first == options && *percent >= least, "{name}: {found:?}");
    }
}

#[test]
fn both_sides_of_what_cannot_be_converted_are_proposed() {
    let found: Vec<String> = commands("remedy/both_halves").into_iter().map(|(command, _)| command).collect();
    assert_eq!(found, ["--inputs \"z:float[1,S,1]\"", "--outputs n"]);
}

#[test]
fn the_largest_part_is_cut_out() {
    let room = Room::new();
    let model = fixture("remedy/detector");
    let text = room.expect(
        &format!("{model} a.param --auto-cut"),
        0,
        "only the part to \"boxes\", \"s\" is converted",
    );
    assert!(text.contains("with 98 % of the weights"), "{text}");
    room.expect(
        &format!("{} b.param --auto-cut", fixture("refused/unknown_operator")),
        1,
        "unknown operator",
    );
    assert_eq!(room.names(), ["a.bin", "a.param"]);
}

#[test]
fn nothing_is_proposed_that_does_not_convert() {
    for name in ["refused/unknown_operator", "refused/text", "refused/shapes_do_not_fit"] {
        assert_eq!(commands(name), [], "{name}");
    }
}

#[test]
fn new_inputs_may_have_a_type_and_a_shape() {
    let room = Room::new();
    let model = fixture("remedy/letters");
    room.expect(&format!("{model} a.param a.bin --inputs ids:int64[1,S]"), 0, "w=S");
    room.expect(&format!("{model} a.param a.bin --inputs e:float32[1,5,8]"), 0, "w=8 h=5");
    room.expect(
        &format!("{model} a.param a.bin --inputs e:float32[1,5,8"),
        2,
        "no value \"e:float32[1,5,8\"",
    );
    room.expect(&format!("{model} a.param a.bin --inputs e:float[1,-5]"), 2, "not a size");
}

#[test]
fn sizes_are_values_of_inputs() {
    let model = fixture("remedy/length_of_a_mask");
    let room = Room::new();
    room.expect(&format!("{model} a.param a.bin --set lengths=T"), 0, "h=T");
    room.expect(&format!("{model} a.param a.bin --set lengths=S"), 2, "no input has a free size \"S\"");
}
