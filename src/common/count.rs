//! Numbers of things in messages.

/// Returns `1 node` or `2 nodes`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
