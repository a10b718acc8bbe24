//! `y = where(x < 0, (x >> n) | ones, x >> n)`
//!
//! of the bits of a signed integer as an unsigned one, where `ones` are its `n` highest bits, becomes
//! `floor(x / 2^n)`: the shift of a signed integer, which ONNX does not have before operator set 28.

use std::sync::LazyLock;

use num_traits::AsPrimitive;

use super::matcher::{Found, Matcher, fuse};
use super::text::Pattern;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::{producer, text};
use crate::tensor::DType;

static SHIFT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::of(
        "Where(&Less(x, 0) | &Greater(0, x),
               Cast(BitwiseOr(r, ones)),
               Cast(r = BitShift(u = Cast(x), n)))",
    )
});

pub(crate) fn fuse_signed_shift(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, (x, dtype, factor)| {
        let x = made.value(x).cast(DType::F32);
        Ok(made.op("Floor", [x * factor], []).cast(dtype))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, DType, f32)>> {
    let y = node.output(0).filter(|_| node.is("Where"))?;
    let found = SHIFT.matches(matcher, y).pop()?;
    let [x, u, r, n, ones] = found.values(["x", "u", "r", "n", "ones"])?;
    let dtype = |value: ValueId| matcher.graph.value(value).dtype;
    let (signed, unsigned) = (dtype(x)?, dtype(u)?);
    let bits = u32::try_from(signed.bits()).ok()?;
    let is_of_bits = unsigned.is_unsigned() && unsigned.bits() == signed.bits() && dtype(y) == Some(signed);
    let shift = producer(matcher.graph, r, "BitShift")?;
    let is_right = text(shift, "direction") == Some("RIGHT");
    let n = u32::try_from(matcher.int(n)?).ok().filter(|n| (1..bits).contains(n))?;
    // The n highest bits: the opposite of 2^(bits - n), as an unsigned number of the type.
    let highest = (1_i128 << bits) - (1_i128 << (bits - n));
    let is_highest = i128::from(matcher.int(ones)?) & ((1_i128 << bits) - 1) == highest;
    let is_shift = signed.is_int() && !signed.is_unsigned() && is_of_bits && is_right && is_highest;
    is_shift
        .then_some(Found { inner: found.inner, parts: (x, signed, libm::exp2f(-AsPrimitive::<f32>::as_(n))) })
}
