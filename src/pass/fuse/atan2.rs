//! `t = atan(y / x)`
//! `z = where(x < 0, where(y > 0, t + pi, t - pi), t)`
//! `z = where(isnan(z), 0, z)`
//!
//! becomes `Atan2(y, x)` of this program's domain, with or without the last line.

use std::sync::LazyLock;

use super::matcher::{Found, Matcher, fuse};
use super::terms::WITHOUT_NAN;
use super::text::Pattern;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

static QUADRANTS: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::of(
        "Where(&Less(x, 0) | &Greater(0, x),
               Where(&Greater(y, 0) | &Less(0, y), Add(t, 3.141592653589793), Sub(t, 3.141592653589793) | Add(t, -3.141592653589793)),
               t = Atan(&Div(y, x)))",
    )
});

pub(crate) fn fuse_atan2(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, [y, x]| Ok(made.op("ncnn.Atan2", [made.value(y), made.value(x)], [])))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<[ValueId; 2]>> {
    let z = node.output(0).filter(|_| node.is("Where"))?;
    let found = match WITHOUT_NAN.matches(matcher, z).pop() {
        Some(found) => QUADRANTS.continued(matcher, found.value("kept")?, &found).pop()?,
        // The next Where replaces NaN, and is the last node.
        None if is_tested(matcher, z) => return None,
        None => QUADRANTS.matches(matcher, z).pop()?,
    };
    let [y, x, t] = found.values(["y", "x", "t"])?;
    matcher.is_float(t).then_some(Found { inner: found.inner, parts: [y, x] })
}

/// Returns whether a reader replaces the NaN of a value by 0.
fn is_tested(matcher: &Matcher, z: ValueId) -> bool {
    let readers = matcher.graph.nodes().map(|(_, node)| node).filter(|node| node.is("Where"));
    let mut tests = readers.filter(|node| node.input(2) == Some(z)).filter_map(|node| node.output(0));
    tests.any(|result| !WITHOUT_NAN.matches(matcher, result).is_empty())
}
