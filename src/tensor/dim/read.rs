//! Sizes from the names that exporters give them: `past + sequence`, `2*n - 1`, `(H + 7)//8`.

use super::Dim;

/// The rest of a text, without spaces before it.
struct Reader<'t, F> {
    rest: &'t str,
    symbol: F,
}

impl Dim {
    /// Returns the size that an expression gives, with the sizes that `symbol` gives its names; `None` if the
    /// text has other operators than sums, differences, products and floored quotients.
    pub(crate) fn read(text: &str, symbol: impl Fn(&str) -> Option<Dim>) -> Option<Dim> {
        let mut reader = Reader { rest: text.trim_start(), symbol };
        let size = reader.sum()?;
        reader.rest.is_empty().then_some(size)
    }
}

impl<F: Fn(&str) -> Option<Dim>> Reader<'_, F> {
    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn sum(&mut self) -> Option<Dim> {
        let mut sum = if self.take("-") { -self.product()? } else { self.product()? };
        loop {
            if self.take("+") {
                sum += &self.product()?;
            } else if self.take("-") {
                sum -= &self.product()?;
            } else {
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<Dim> {
        let mut product = self.factor()?;
        loop {
            if self.take("//") {
                product = product.floor_div(&self.factor()?);
            } else if self.take("*") {
                product *= &self.factor()?;
            } else {
                return Some(product);
            }
        }
    }

    fn factor(&mut self) -> Option<Dim> {
        if self.take("(") {
            let sum = self.sum()?;
            return self.take(")").then_some(sum);
        }
        let end = self.rest.find(|c: char| !is_of_name(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        match word.parse() {
            Ok(number) => Some(Dim::Known(number)),
            Err(_) if word.is_empty() => None,
            Err(_) => (self.symbol)(word),
        }
    }
}

/// Returns whether a name may contain a character without being taken for an expression.
pub(super) fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '#' | '$' | '@' | '[' | ']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let [h, n] = ["H", "n"].map(Dim::symbol);
        let known = |name: &str| ["H", "n"].contains(&name).then(|| Dim::symbol(name));
        for (text, size) in [
            ("n", Some(n.clone())),
            ("n + 1", Some(&n + 1)),
            ("n-1", Some(&n - 1)),
            ("-n + H", Some(&h - &n)),
            ("2*(H + n)", Some((&h + &n) * 2)),
            ("(H + 7)//8*8", Some((&h + 7).floor_div(8) * 8)),
            ("n - H - 1", Some(&n - &h - 1)),
            // An unknown name, and texts that are not expressions.
            ("n + m", None),
            ("n +", None),
            ("(n", None),
            ("n H", None),
            ("n/2", None),
            ("", None),
        ] {
            assert_eq!(Dim::read(text, known), size, "{text}");
        }
    }
}
