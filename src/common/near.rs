//! Names that are similar to a name.

/// The most names.
const MAX: usize = 3;

/// Returns the names that differ least from a name that does not exist, the nearest first; none if all differ
/// much.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let most = name.chars().count() / 3;
    let mut found: Vec<(usize, &str)> = names
        .filter(|other| !other.is_empty())
        .filter_map(|other| {
            let part = name.len() > 2 && other.contains(name);
            let is_far = other.len().abs_diff(name.len()) > 4 * most;
            let distance = match other.eq_ignore_ascii_case(name) {
                true => 0,
                false if is_far => usize::MAX,
                false => strsim::levenshtein(name, other),
            };
            let near = Some(distance).filter(|distance| *distance <= most);
            Some((near.or(part.then_some(most))?, other))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MAX).map(|(_, name)| name).collect()
}

/// Returns the help of an error about a name that does not exist, if there are similar ones.
pub fn near_names<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let near: Vec<String> = nearest(name, names).iter().map(|name| format!("\"{name}\"")).collect();
    (!near.is_empty()).then(|| format!("near names are {}", near.join(", ")))
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
            ("X", &["x"]),
            ("classes", &[]),
        ] {
            assert_eq!(nearest(name, names.into_iter()), near, "{name}");
        }
    }
}
