use super::*;

fn h() -> Dim {
    Dim::symbol("H")
}

fn shown(condition: Result<Option<SizeCondition>>) -> String {
    match condition {
        Ok(None) => "always".to_owned(),
        Ok(Some(condition)) => condition.to_string(),
        Err(_) => "never".to_owned(),
    }
}

/// Returns `floor((H + plus) / by)`.
fn part(plus: i64, by: i64) -> Dim {
    (h() + plus).floor_div(by)
}

#[test]
fn conditions_are_simplified() {
    let number = Dim::Known;
    let w = Dim::symbol("W");
    let times = |size: &Dim, n: i64| size * number(n);
    let below = |size: &Dim, n: i64| size - number(n);
    let equal = |a: &Dim, b: &Dim| shown(SizeCondition::equal(a, b));
    let broadcast = |a: &Dim, b: &Dim| shown(SizeCondition::broadcast(a, b));
    let least = |size: &Dim| shown(SizeCondition::at_least(size, 1));
    for (found, expected) in [
        (equal(&h(), &number(48)), "H = 48"),
        (equal(&times(&h(), 2), &number(48)), "H = 24"),
        (equal(&times(&h(), 2), &number(47)), "never"),
        (equal(&h(), &below(&h(), 2)), "never"),
        (equal(&h(), &number(0)), "never"),
        (equal(&h(), &w), "W = H"),
        (equal(&times(&h(), 64), &times(&w, 64)), "W = H"),
        (equal(&h(), &(&w + 3)), "H = W+3"),
        (equal(&(h() + 3), &w), "W = H+3"),
        (equal(&times(&h(), 2), &times(&w, 3)), "3*W = 2*H"),
        (equal(&times(&(h() * &w), 2), &number(12)), "H*W = 6"),
        (equal(&h(), &h().minimum(number(9))), "H <= 9"),
        (equal(&h(), &h().maximum(number(9))), "H >= 9"),
        (equal(&h(), &h().minimum(&w)), "H <= W"),
        (equal(&h(), &h().maximum(&w)), "W <= H"),
        (equal(&times(&part(1, 2), 2), &h()), "H is a multiple of 2"),
        (equal(&times(&part(31, 32), 32), &h()), "H is a multiple of 32"),
        (equal(&part(0, 2), &part(1, 2)), "H is a multiple of 2"),
        (equal(&part(0, 2), &number(5)), "floor_div(H, 2) = 5"),
        (equal(&part(-1, 2), &part(0, 2)), "H-1 is a multiple of 2"),
        (broadcast(&h(), &number(48)), "H is 1 or 48"),
        (broadcast(&h(), &number(1)), "always"),
        (broadcast(&times(&h(), 2), &number(48)), "H = 24"),
        (broadcast(&number(3), &number(48)), "never"),
        (broadcast(&h(), &times(&part(1, 2), 2)), "H is a multiple of 2"),
        (broadcast(&h(), &w), "H = W, or one of them is 1"),
        (broadcast(&h(), &h().minimum(number(9))), "H <= 9"),
        (broadcast(&h(), &h().maximum(number(9))), "H = max(H, 9), or one of them is 1"),
        (broadcast(&h(), &h().minimum(&w)), "H = min(H, W), or one of them is 1"),
        (least(&below(&h(), 6)), "H >= 7"),
        (least(&below(&times(&h(), 4), 6)), "H >= 2"),
        (least(&below(&part(1, 2), 1)), "H >= 3"),
        (least(&(h() - part(1, 2))), "H >= 2"),
        (least(&(below(&h(), 5) - h().minimum(number(2)))), "H >= 8"),
        (least(&(number(7) - h())), "H <= 6"),
        (least(&(h() - below(&h(), 5).maximum(number(0)))), "always"),
        (broadcast(&h(), &h().maximum(&w)), "H = W, or one of them is 1"),
        (least(&(number(7) - part(1, 2))), "H <= 12"),
        (least(&(number(7) - h() - &w)), "H+W <= 6"),
        (shown(SizeCondition::at_most(&part(0, 3), 1 << 20)), "H <= 3145730"),
        (shown(SizeCondition::at_most(&h(), 0)), "never"),
        (shown(SizeCondition::at_most(&h().minimum(number(9)), 9)), "always"),
        (least(&(h() + below(&w, 3))), "H+W-3 >= 1"),
        (least(&(number(0) - h())), "never"),
        (shown(SizeCondition::multiple(&h(), 8)), "H is a multiple of 8"),
        (shown(SizeCondition::multiple(&times(&h(), 4), 8)), "H is a multiple of 2"),
        (shown(SizeCondition::multiple(&times(&h(), 8), 4)), "always"),
        (shown(SizeCondition::multiple(&number(3), 4)), "never"),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn implied_conditions_are_dropped() {
    let least = |n: i64| SizeCondition::AtLeast(h(), n);
    let multiple = |n: i64| SizeCondition::Multiple(h(), n);
    let most = |n: i64| SizeCondition::AtMost(h(), n.into());
    // (H - 8) * H
    let area = (h() - 8) * h();
    for (conditions, left) in [
        ([least(3), least(7), multiple(2)].to_vec(), [least(7), multiple(2)].to_vec()),
        ([least(3), multiple(4), multiple(8)].to_vec(), [multiple(8)].to_vec()),
        ([least(9), SizeCondition::AtLeast(area, 1)].to_vec(), [least(9)].to_vec()),
        ([most(9), most(7)].to_vec(), [most(7)].to_vec()),
        ([multiple(8), SizeCondition::Equal(part(0, 4), part(3, 4))].to_vec(), [multiple(8)].to_vec()),
    ] {
        assert_eq!(SizeCondition::strictest(&conditions.into_iter().collect()), left);
    }
}

#[test]
fn sizes_that_meet_all_conditions_are_found() {
    let [h, w, s] = ["H", "W", "S"].map(Dim::symbol);
    let least = |size: &Dim, n: i64| SizeCondition::AtLeast(size.clone(), n);
    let most = |size: &Dim, n: i64| SizeCondition::AtMost(size.clone(), n.into());
    let multiple = |size: &Dim, n: i64| SizeCondition::Multiple(size.clone(), n);
    let sum = &h + &w;
    for (conditions, start, expected) in [
        (vec![], 64, "H = 64, S = 64, W = 64"),
        (vec![multiple(&h, 32), least(&w, 70), most(&s, 9)], 48, "H = 64, S = 9, W = 70"),
        (vec![multiple(&h, 4), multiple(&h, 6)], 1, "H = 12, S = 1, W = 1"),
        (vec![SizeCondition::AtMost(sum.clone(), s.clone())], 6, "H = 6, S = 12, W = 6"),
        (vec![SizeCondition::Equal(Dim::from(6), &h * &w), least(&w, 3)], 1, "H = 1, S = 1, W = 6"),
        (vec![SizeCondition::Equal(Dim::from(5), part(0, 6)), multiple(&h, 8)], 64, "H = 32, S = 64, W = 64"),
        (vec![SizeCondition::Broadcast(Dim::from(5), h.clone()), least(&h, 2)], 64, "H = 5, S = 64, W = 64"),
        (vec![most(&sum, 4), least(&w, 3)], 64, "H = 1, S = 64, W = 3"),
    ] {
        let names = ["H", "W", "S"].map(str::to_owned).into();
        let Found::Sizes(found) = SizeCondition::sizes_from(&conditions, &names, start) else {
            panic!("{conditions:?}")
        };
        assert!(conditions.iter().all(|condition| condition.is_met(&found)), "{conditions:?}");
        let found: Vec<String> = found.iter().map(|(name, size)| format!("{name} = {size}")).collect();
        assert_eq!(found.join(", "), expected, "{conditions:?}");
    }
}

#[test]
fn single_values_and_contradictions_are_found() {
    let w = Dim::symbol("W");
    let least = |size: &Dim, n: i64| SizeCondition::AtLeast(size.clone(), n);
    let most = |size: &Dim, n: i64| SizeCondition::AtMost(size.clone(), n.into());
    let multiple = |size: &Dim, n: i64| SizeCondition::Multiple(size.clone(), n);
    let sum = h() + &w;
    let past = Dim::length("P");
    for (conditions, expected) in [
        (vec![least(&h(), 10), most(&h(), 10)], "H = 10"),
        (vec![least(&h(), 10), most(&h(), 11)], "free"),
        (vec![least(&h(), 10), most(&h(), 9)], "never"),
        (vec![least(&w, 64), least(&h(), 10), most(&h(), 9)], "never"),
        (vec![multiple(&h(), 7), most(&h(), 13)], "H = 7"),
        (vec![multiple(&h(), 7), most(&h(), 6)], "never"),
        (vec![multiple(&h(), 7), most(&h(), 14)], "free"),
        (vec![multiple(&h(), 1 << 40), least(&w, 9)], "free"),
        (vec![SizeCondition::Equal(Dim::from(5), part(0, 2)), multiple(&h(), 2)], "H = 10"),
        (vec![SizeCondition::Equal(Dim::from(5), part(0, 2)), multiple(&h(), 7)], "never"),
        (vec![SizeCondition::Broadcast(Dim::from(5), h()), least(&h(), 2)], "H = 5"),
        (vec![SizeCondition::Broadcast(Dim::from(5), h()), least(&h(), 6)], "never"),
        (vec![most(&sum, 2)], "H = 1"),
        (vec![most(&sum, 6), least(&h(), 4), least(&w, 3)], "never"),
        (vec![most(&past, 0)], "P = 0"),
        (vec![most(&(past + h()), 1)], "H = 1"),
        (vec![most(&h(), 1 << 30)], "free"),
        (vec![SizeCondition::AtMost(h(), w.clone())], "free"),
    ] {
        let found = match SizeCondition::determined(&conditions.iter().cloned().collect()) {
            Ok(None) => "free".to_owned(),
            Ok(Some((name, value))) => format!("{name} = {value}"),
            Err(_) => "never".to_owned(),
        };
        assert_eq!(found, expected, "{conditions:?}");
    }
}

#[test]
fn conditions_that_follow_from_others_are_left_out() {
    let [h, w] = ["H", "W"].map(Dim::symbol);
    let listed = |conditions: &[Result<Option<SizeCondition>>]| {
        let conditions = conditions.iter().map(|one| one.as_ref().unwrap().clone().unwrap()).collect();
        SizeCondition::strictest(&conditions).iter().map(SizeCondition::to_string).collect::<Vec<_>>()
    };
    let (area, equal) = (&h * &w, SizeCondition::equal);
    let windows = h.floor_div(8) * w.floor_div(8) * 64;
    assert_eq!(listed(&[equal(&windows, &area)]), ["H is a multiple of 8", "W is a multiple of 8"]);
    assert_eq!(
        listed(&[equal(&(&windows * &w), &(&area * &w))]),
        ["H is a multiple of 8", "W is a multiple of 8"]
    );
    let quarters = area.floor_div(4);
    assert_eq!(
        listed(&[equal(&(&quarters * 4), &area), SizeCondition::at_least(&(&quarters * 16), 1)]),
        ["H*W is a multiple of 4"]
    );
    assert_eq!(
        listed(&[SizeCondition::at_most(&(&area * 4), 1 << 24), SizeCondition::at_most(&area, 1 << 20)]),
        ["H*W <= 1048576"]
    );
    let halves = |n: i64| (&h + (n - 1)).floor_div(n);
    assert_eq!(
        listed(&[equal(&(halves(32) * 4), &halves(8)), equal(&(halves(32) * 2), &halves(16))]),
        ["4*floor_div(H+31, 32) = floor_div(H+7, 8)"]
    );
    assert_eq!(
        listed(&[equal(&h.floor_div(8), &Dim::ONE), SizeCondition::at_least(&h, 8)]),
        ["floor_div(H, 8) = 1"]
    );
    let half = |n: i64| equal(&(h.floor_div(2 * n) * 2), &h.floor_div(n));
    assert_eq!(
        listed(&[half(1), half(2), half(4), SizeCondition::at_least(&h, 8)]),
        ["H is a multiple of 8"]
    );
    let two = SizeCondition::broadcast(&h, &Dim::from(2));
    assert_eq!(listed(&[two, SizeCondition::at_most(&h, 6)]), ["H is 1 or 2"]);
}
