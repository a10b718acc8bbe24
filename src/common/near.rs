//! Names that are similar to a name.

/// The most names.
const MAX: usize = 3;

/// Returns the names that differ least from a name that does not exist, the nearest first; none if all differ
/// much.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let most = name.chars().count() / 3;
    let mut found: Vec<(usize, &str)> = names
        .filter(|other| !other.is_empty())
        .filter_map(|other| {
            let part = name.len() > 2 && other.contains(name);
            let far = distance(name, other, most).or(part.then_some(most));
            Some((far?, other))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MAX).map(|(_, name)| name).collect()
}

/// Returns the number of letters to change, add or remove, up to a maximum.
fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (pair, y) in row.windows(2).zip(&b) {
            let [before, above] = pair else { continue };
            let left = next.last().copied().unwrap_or(0);
            next.push((before + usize::from(x != y)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let names = ["boxes", "scores", "/head/boxes_out", "x", ""];
        for (name, near) in [
            ("boxs", &["boxes"][..]),
            ("boxes", &["boxes", "/head/boxes_out"]),
            ("score", &["scores"]),
            ("y", &[]),
            ("classes", &[]),
        ] {
            assert_eq!(nearest(name, names.into_iter()), near, "{name}");
        }
    }
}
