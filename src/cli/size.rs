//! Sizes in bytes with a unit: `8GB`, `512MiB`, `1.5G`.

/// Parses a number with an optional fraction and unit. By common convention `MB` is a power of 1000, `MiB`
/// and the bare `M` are powers of 1024.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = unit_bytes(unit.trim()).ok_or_else(|| {
        format!(
            "\"{}\" is not a unit of size; units are B, KB, MB, GB, TB, KiB, MiB, GiB and TiB",
            unit.trim()
        )
    })?;
    let bytes = scale(number, factor)
        .ok_or("a size is a number and a unit, such as 8GB or 512MiB, and fits in 64 bits")?;
    if bytes == 0 { Err("the size is 0".to_owned()) } else { Ok(bytes) }
}

fn unit_bytes(unit: &str) -> Option<u128> {
    let power = |base: u128, exponent: u32| Some(base.pow(exponent));
    match unit.to_ascii_lowercase().as_str() {
        "" | "b" => power(1, 0),
        "kb" => power(1000, 1),
        "mb" => power(1000, 2),
        "gb" => power(1000, 3),
        "tb" => power(1000, 4),
        "k" | "kib" => power(1024, 1),
        "m" | "mib" => power(1024, 2),
        "g" | "gib" => power(1024, 3),
        "t" | "tib" => power(1024, 4),
        _ => None,
    }
}

/// Returns `number * factor`, rounded down, without floating-point rounding.
fn scale(number: &str, factor: u128) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let numerator: u128 = format!("{whole}{fraction}").parse().ok()?;
    let denominator = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    u64::try_from(numerator.checked_mul(factor)? / denominator).ok()
}

/// Formats a number of bytes with three digits and a unit.
pub(super) fn display_bytes(bytes: u64) -> String {
    display_scaled(bytes, ["bytes", "KB", "MB", "GB", "TB"])
}

/// Formats a number with three digits and a unit; each unit is a thousand of the previous one.
pub(super) fn display_scaled(n: u64, units: [&str; 5]) -> String {
    let (mut unit, mut scale, mut next) = ("", 1_u64, 1_u64);
    for larger in units {
        if unit.is_empty() || n >= next {
            (unit, scale) = (larger, next);
        }
        next *= 1000;
    }
    let (whole, rest) = (n / scale, n % scale);
    match (scale, whole) {
        (1, _) | (_, 100..) => format!("{whole} {unit}"),
        (_, 10..) => format!("{whole}.{} {unit}", rest * 10 / scale),
        _ => format!("{whole}.{:02} {unit}", rest * 100 / scale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_in_thousands_or_in_1024s() {
        for (text, bytes) in [
            ("1", 1),
            ("12b", 12),
            ("8GB", 8_000_000_000),
            ("8 gb", 8_000_000_000),
            ("8GiB", 8 << 30),
            ("8G", 8 << 30),
            ("512m", 512 << 20),
            ("1.5KB", 1500),
            ("0.5KiB", 512),
            ("1.9", 1),
            ("2TB", 2_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in [
            "",
            "GB",
            "0",
            "0.4",
            "-1",
            "1e9",
            "1..5GB",
            "1.2.3",
            "8 PB",
            "8GBs",
            "18446744073709551616",
            "99999999TB",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        let digits = "9".repeat(200);
        assert!(parse_bytes(&digits).is_err());
        assert!(parse_bytes(&format!("0.{digits}")).is_err());
    }

    #[test]
    fn bytes_are_written_with_three_digits() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.00 KB"),
            (25_560_000, "25.5 MB"),
            (999_999_999, "999 MB"),
            (4_210_000_000, "4.21 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(display_bytes(bytes), text);
        }
    }
}
