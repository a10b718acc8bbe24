//! Equality, division, broadcasting and bounds of sizes.

use super::*;

fn h() -> Dim {
    Dim::symbol("H")
}

#[test]
fn equal_sizes_compare_equal() {
    let two = Dim::from(2);
    let a = h() + h();
    let b = h() * &two;
    assert_eq!(a, b);
    assert_eq!(a.floor_div(&two), h());
    assert_eq!(a - &b, Dim::ZERO);
    let w = Dim::symbol("W");
    assert_eq!((h() * &w).exact_div(&w), Some(h()));
    assert_eq!(h().modulo(1), Dim::ZERO);
}

fn half_up(dim: &Dim) -> Dim {
    (dim + 1).floor_div(2)
}

#[test]
fn multiples_divide_exactly() {
    let odd = h() * 16 - 16;
    let three = &odd * 3;
    assert_eq!(three.exact_div(&odd), Some(Dim::from(3)));
    assert_eq!((three + 1).exact_div(&odd), None);
}

#[test]
fn division_rounds_down() {
    for (a, b, q) in [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-8, 2, -4), (0, 5, 0)] {
        assert_eq!(Dim::from(a).floor_div(b), Dim::from(q), "{a} / {b}");
    }
    assert_eq!(Dim::from(7).ceil_div(2), Dim::from(4));
    // Multiples of the divisor are split off, and nested divisions are merged.
    let (two, three) = (Dim::from(2), Dim::from(3));
    let dividend = h() * 4 + &three;
    assert_eq!(dividend.floor_div(&two).to_string(), "2*H+1");
    let quarter = h().floor_div(&two).floor_div(&two);
    assert_eq!(quarter.to_string(), "floor_div(H, 4)");
    let rounded = half_up(&half_up(&h()));
    assert_eq!(rounded.to_string(), "floor_div(H+3, 4)");
    assert_eq!(rounded, (half_up(&h().floor_div(1)) + 1).floor_div(&two));
    let odd = h() * &three - 1;
    let row = h() * Dim::symbol("W");
    let blocks = Dim::symbol("W") * 6;
    assert_eq!((row * 3).floor_div(&blocks).to_string(), "floor_div(H, 2)");
    let halves = h() * 512 + 700;
    assert_eq!(halves.floor_div(1024).to_string(), "floor_div(H+1, 2)");
    assert_eq!(odd.floor_div(&two).to_string(), "floor_div(3*H+1, 2)-1");
}

#[test]
fn shapes_broadcast_from_their_end() {
    let (h, w) = (h(), Dim::symbol("W"));
    let [one, two, three] = [1, 2, 3].map(Dim::Known);
    let shape = |a: &[&Dim], b: &[&Dim]| {
        let [a, b] = [a, b].map(|s| s.iter().map(|d| (*d).clone()).collect::<Vec<_>>());
        broadcast_shapes(&a, &b).ok()
    };
    assert_eq!(shape(&[&two, &one, &h], &[&three, &one]), Some(vec![two.clone(), three.clone(), h.clone()]));
    assert_eq!(shape(&[&h], &[&three]), Some(vec![three.clone()]));
    assert_eq!(shape(&[], &[&h]), Some(vec![h.clone()]));
    assert_eq!(shape(&[&two], &[&three]), None);
    assert_eq!(shape(&[&h], &[&w]), Some(vec![h.maximum(&w)]));
    // A slice of a table of 9 rows, added to a value with as many rows.
    assert_eq!(shape(&[&h], &[&h.minimum(9)]), Some(vec![h.clone()]));
}

#[test]
fn bounds_assume_positive_sizes() {
    let (one, three) = (Dim::ONE, Dim::from(3));
    assert_eq!(h().minimum(&one), one);
    assert_eq!(h().maximum(&one), h());
    assert_eq!(h().minimum(&three).to_string(), "min(H, 3)");
    assert_eq!(h().minimum(&three).bounds(), (Some(1), Some(3)));
    let few = h().minimum(&three);
    assert_eq!((few.maximum(h()), h().minimum(&few)), (h(), few.clone()));
    assert_eq!((h() - &one).bounds(), (Some(0), None));
    assert_eq!((0 - h()).bounds(), (None, Some(-1)));
    assert_eq!(h().modulo(&three).bounds(), (Some(0), Some(2)));
    assert_eq!(h().floor_div(&three).bounds(), (Some(0), None));
    // The last two of H elements but one, as many as there are.
    let from = (h() - 2).maximum(0);
    let end = h() - &one;
    assert_eq!(from.minimum(&end), from);
    assert_eq!((end - &from).bounds(), (Some(0), Some(1)));
    // A sum of forty maxima has bounds at once, if rough ones.
    let maxima = (1..41).map(|n| h().modulo(n + 1).maximum(2));
    let sum = maxima.reduce(|a, b| a + &b).unwrap();
    assert!(matches!((sum - h()).bounds(), (_, Some(_))));
    // The remainder of a division, and that of the quotient of another one.
    let (two, four) = (Dim::from(2), Dim::from(4));
    let left = |whole: Dim, part: Dim| (whole - part * &two).bounds();
    let missing = |part: Dim, whole: Dim| (part * &two - &whole).bounds();
    assert_eq!(missing(h().ceil_div(&two), h()), (Some(0), Some(1)));
    assert_eq!(left(h(), h().floor_div(&two)), (Some(0), Some(1)));
    assert_eq!(left(h().floor_div(&two), h().floor_div(&four)), (Some(0), Some(1)));
    assert_eq!(left(h().floor_div(&three), h().floor_div(&four)), (None, None));
}

#[test]
fn substitution_evaluates() {
    let half = (h() - 1).floor_div(2) + 1;
    assert_eq!(half.to_string(), "floor_div(H+1, 2)");
    let values = BTreeMap::from([("H".to_owned(), Dim::from(8))]);
    assert_eq!(half.substitute(&values), Dim::from(4));
}

#[test]
fn nonnegative_expressions_have_a_bound() {
    let minus = |n: i64| h() - n;
    for (dim, bound) in [
        (h(), Some(1)),
        (minus(-3), Some(4)),
        (minus(3), Some(-2)),
        (1 - h(), None),
        (h() * h() + h(), Some(2)),
        (minus(-7).floor_div(2), Some(4)),
        (h().maximum(5), Some(5)),
        (h().minimum(5), Some(1)),
        (h().modulo(4), Some(0)),
    ] {
        assert_eq!(dim.lower_bound(), bound, "{dim}");
    }
}

#[test]
fn hostile_expressions_are_bounded() {
    let mut dim = h();
    for _ in 0..10_000 {
        dim = dim.floor_div(2) * 3;
    }
    assert!(matches!(dim, Dim::Undefined(Undefined::Complexity)), "{dim}");
    let mut dim = h();
    for n in 0..10_000 {
        dim = (dim * 3).modulo(1_000_000 - n) + 1;
    }
    assert!(matches!(dim, Dim::Undefined(Undefined::Complexity)), "{dim}");
}

#[test]
fn results_beyond_a_limit_are_undefined() {
    let beyond = Dim::from(i64::MAX) + 1;
    for dim in [&beyond - 1, &beyond * h(), beyond.maximum(h()), h().floor_div(0), h().modulo(0), 1 - beyond]
    {
        assert_eq!((dim.known(), dim.bounds()), (None, (None, None)));
        assert!(dim.check().is_err() && dim.exact_div(1).is_none());
    }
}

#[test]
fn a_size_and_what_it_lacks_to_a_multiple_are_that_multiple() {
    let multiple = (h() + 7).floor_div(8) * 8;
    for lacking in [(-h()).modulo(8), (8 - h().modulo(8)).modulo(8), (h().modulo(8) * 7).modulo(8)] {
        assert_eq!(h() + &lacking, multiple);
        assert_eq!(lacking.bounds(), (Some(0), Some(7)));
    }
    assert_eq!((h() * 2).minimum(&multiple * 2), h() * 2);
    assert_eq!((h() * 2 - h().floor_div(3)).to_string(), "2*H-floor_div(H, 3)");
}

#[test]
fn shared_parts_are_visited_once() {
    let values = BTreeMap::from([("N".to_owned(), Dim::from(3))]);
    // Each step needs the size of the step before three times.
    let step = |size: Dim| &size * 2 - size.minimum(1);
    let (mut size, mut steps) = (Dim::length("N"), 0);
    while let Dim::Expr(_) = size {
        assert!(size.lower_bound().is_none_or(|least| least <= 1 << (steps + 1)));
        assert_eq!(size.substitute(&values), Dim::from((1 << (steps + 1)) + 1));
        assert!(size.has_length() && size < size.clone() + 1);
        (size, steps) = (step(size), steps + 1);
    }
    assert_eq!(size, Dim::Undefined(Undefined::Complexity));
    assert!(steps > 12, "{steps}");
}
