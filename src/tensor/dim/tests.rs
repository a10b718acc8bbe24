//! Equality, division, broadcasting and bounds of sizes.

use super::*;

fn h() -> Dim {
    Dim::symbol("H")
}

#[test]
fn equal_sizes_compare_equal() {
    let two = Dim::Known(2);
    let a = h().add(&h()).unwrap();
    let b = h().mul(&two).unwrap();
    assert_eq!(a, b);
    assert_eq!(a.floor_div(&two).unwrap(), h());
    assert_eq!(a.sub(&b).unwrap(), Dim::Known(0));
    let w = Dim::symbol("W");
    assert_eq!(h().mul(&w).unwrap().exact_div(&w), Some(h()));
    assert_eq!(h().modulo(&Dim::Known(1)).unwrap(), Dim::Known(0));
}

fn half_up(dim: &Dim) -> Dim {
    dim.add(&Dim::Known(1)).unwrap().floor_div(&Dim::Known(2)).unwrap()
}

#[test]
fn multiples_divide_exactly() {
    let odd = h().mul(&Dim::Known(16)).unwrap().sub(&Dim::Known(16)).unwrap();
    let three = odd.mul(&Dim::Known(3)).unwrap();
    assert_eq!(three.exact_div(&odd), Some(Dim::Known(3)));
    assert_eq!(three.add(&Dim::Known(1)).unwrap().exact_div(&odd), None);
}

#[test]
fn division_rounds_down() {
    for (a, b, q) in [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-8, 2, -4), (0, 5, 0)] {
        assert_eq!(Dim::Known(a).floor_div(&Dim::Known(b)).unwrap(), Dim::Known(q), "{a} / {b}");
    }
    assert_eq!(Dim::Known(7).ceil_div(&Dim::Known(2)).unwrap(), Dim::Known(4));
    // Multiples of the divisor are split off, and nested divisions are merged.
    let (two, three) = (Dim::Known(2), Dim::Known(3));
    let dividend = h().mul(&Dim::Known(4)).unwrap().add(&three).unwrap();
    assert_eq!(dividend.floor_div(&two).unwrap().to_string(), "2*H+1");
    let quarter = h().floor_div(&two).unwrap().floor_div(&two).unwrap();
    assert_eq!(quarter.to_string(), "floor_div(H, 4)");
    let rounded = half_up(&half_up(&h()));
    assert_eq!(rounded.to_string(), "floor_div(H+3, 4)");
    assert_eq!(
        rounded,
        half_up(&h().floor_div(&Dim::Known(1)).unwrap())
            .add(&Dim::Known(1))
            .unwrap()
            .floor_div(&two)
            .unwrap()
    );
    let odd = h().mul(&three).unwrap().sub(&Dim::Known(1)).unwrap();
    let row = h().mul(&Dim::symbol("W")).unwrap();
    let blocks = Dim::symbol("W").mul(&Dim::Known(6)).unwrap();
    assert_eq!(row.mul(&Dim::Known(3)).unwrap().floor_div(&blocks).unwrap().to_string(), "floor_div(H, 2)");
    let halves = h().mul(&Dim::Known(512)).unwrap().add(&Dim::Known(700)).unwrap();
    assert_eq!(halves.floor_div(&Dim::Known(1024)).unwrap().to_string(), "floor_div(H+1, 2)");
    assert_eq!(odd.floor_div(&two).unwrap().to_string(), "floor_div(3*H+1, 2)-1");
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
    assert_eq!(shape(&[&h], &[&w]), Some(vec![h.larger(&w).unwrap()]));
    // A slice of a table of 9 rows, added to a value with as many rows.
    assert_eq!(shape(&[&h], &[&h.smaller(&Dim::Known(9)).unwrap()]), Some(vec![h.clone()]));
}

#[test]
fn bounds_assume_positive_sizes() {
    let (one, three) = (Dim::Known(1), Dim::Known(3));
    assert_eq!(h().smaller(&one).unwrap(), one);
    assert_eq!(h().larger(&one).unwrap(), h());
    assert_eq!(h().smaller(&three).unwrap().to_string(), "min(H, 3)");
    assert_eq!(h().smaller(&three).unwrap().bounds(), (Some(1), Some(3)));
    let few = h().smaller(&three).unwrap();
    assert_eq!((few.larger(&h()).unwrap(), h().smaller(&few).unwrap()), (h(), few.clone()));
    assert_eq!(h().sub(&one).unwrap().bounds(), (Some(0), None));
    assert_eq!(Dim::Known(0).sub(&h()).unwrap().bounds(), (None, Some(-1)));
    assert_eq!(h().modulo(&three).unwrap().bounds(), (Some(0), Some(2)));
    assert_eq!(h().floor_div(&three).unwrap().bounds(), (Some(0), None));
    // The last two of H elements but one, as many as there are.
    let from = h().sub(&Dim::Known(2)).unwrap().larger(&Dim::Known(0)).unwrap();
    let end = h().sub(&one).unwrap();
    assert_eq!(from.smaller(&end).unwrap(), from);
    assert_eq!(end.sub(&from).unwrap().bounds(), (Some(0), Some(1)));
    // A sum of forty maxima has bounds at once, if rough ones.
    let maxima = (1..41).map(|n| h().modulo(&Dim::Known(n + 1)).unwrap().larger(&Dim::Known(2)).unwrap());
    let sum = maxima.reduce(|a, b| a.add(&b).unwrap()).unwrap();
    assert!(matches!(sum.sub(&h()).unwrap().bounds(), (_, Some(_))));
    // The remainder of a division, and that of the quotient of another one.
    let (two, four) = (Dim::Known(2), Dim::Known(4));
    let left = |whole: Dim, part: Dim| whole.sub(&part.mul(&two).unwrap()).unwrap().bounds();
    let missing = |part: Dim, whole: Dim| part.mul(&two).unwrap().sub(&whole).unwrap().bounds();
    assert_eq!(missing(h().ceil_div(&two).unwrap(), h()), (Some(0), Some(1)));
    assert_eq!(left(h(), h().floor_div(&two).unwrap()), (Some(0), Some(1)));
    assert_eq!(left(h().floor_div(&two).unwrap(), h().floor_div(&four).unwrap()), (Some(0), Some(1)));
    assert_eq!(left(h().floor_div(&three).unwrap(), h().floor_div(&four).unwrap()), (None, None));
}

#[test]
fn substitution_evaluates() {
    let half =
        h().sub(&Dim::Known(1)).unwrap().floor_div(&Dim::Known(2)).unwrap().add(&Dim::Known(1)).unwrap();
    assert_eq!(half.to_string(), "floor_div(H+1, 2)");
    let values = BTreeMap::from([("H".to_owned(), Dim::Known(8))]);
    assert_eq!(half.substitute(&values).unwrap(), Dim::Known(4));
}

#[test]
fn nonnegative_expressions_have_a_bound() {
    let minus = |n: i64| h().sub(&Dim::Known(n)).unwrap();
    for (dim, bound) in [
        (h(), Some(1)),
        (minus(-3), Some(4)),
        (minus(3), Some(-2)),
        (Dim::Known(1).sub(&h()).unwrap(), None),
        (h().mul(&h()).unwrap().add(&h()).unwrap(), Some(2)),
        (minus(-7).floor_div(&Dim::Known(2)).unwrap(), Some(4)),
        (h().larger(&Dim::Known(5)).unwrap(), Some(5)),
        (h().smaller(&Dim::Known(5)).unwrap(), Some(1)),
        (h().modulo(&Dim::Known(4)).unwrap(), Some(0)),
    ] {
        assert_eq!(dim.lower_bound(), bound, "{dim}");
    }
}

#[test]
fn hostile_expressions_are_bounded() {
    let mut dim = h();
    for _ in 0..10_000 {
        match dim.floor_div(&Dim::Known(2)).and_then(|d| d.mul(&Dim::Known(3))) {
            Ok(next) => dim = next,
            Err(_) => return,
        }
    }
    panic!("the depth of an expression is not bounded");
}
