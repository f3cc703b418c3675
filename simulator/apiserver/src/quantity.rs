//! Quantities (`100m`, `1.5Gi`, `1e9`): exact values and their canonical text.
//!
//! Source: `k8s.io/apimachinery/pkg/api/resource/quantity.go`. A value is kept in billionths; finer
//! fractions are rounded away from zero and sizes are capped at 2^63-1, as upstream does.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A quantity: an exact number and the way it is written.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The value in billionths.
    nanos: i128,
    format: Format,
}

/// How a quantity is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    /// `1k`, `1500m`.
    DecimalSi,
    /// `1Ki`.
    BinarySi,
    /// `1e3`.
    DecimalExponent,
}

/// Why a text is not a quantity; the sentences are upstream's.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseQuantityError {
    /// Not a number with a suffix at all.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// A number with a suffix that means nothing.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
const NANOS_MAX: i128 = i64::MAX as i128 * NANO;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Is it zero?
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Is it below zero?
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The whole number at or above the value (`Quantity.Value`).
    #[must_use]
    pub fn ceil(self) -> i64 {
        i64::try_from(self.nanos.div_euclid(NANO) + i128::from(self.nanos.rem_euclid(NANO) != 0)).unwrap_or(i64::MAX)
    }

    /// The nearest floating-point number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an approximation is what is asked for")]
    pub fn approximate(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Is it a whole number?
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The value as a floating-point number, for ratios.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// The sum, written as `self` is unless `self` is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: (self.nanos + other.nanos).clamp(-NANOS_MAX, NANOS_MAX), format }
    }

    /// The difference, written as `self` is.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, ..other })
    }
}

impl From<i64> for Quantity {
    fn from(whole: i64) -> Self {
        Self { nanos: i128::from(whole) * NANO, format: Format::DecimalSi }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// `amount * 10^exponent` in whole units, rounded away from zero, capped.
fn scaled(amount: i128, exponent: i32) -> i128 {
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    match (exponent >= 0, power) {
        (true, Some(power)) => amount.checked_mul(power).unwrap_or(amount.signum() * NANOS_MAX),
        (true, None) => amount.signum() * NANOS_MAX,
        (false, Some(power)) => amount / power + if amount % power == 0 { 0 } else { amount.signum() },
        (false, None) => amount.signum(),
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(ParseQuantityError::Format);
        }
        // Digits past the 30th cannot matter: large values are capped, small ones rounded up.
        let mut amount: i128 = 0;
        let mut dropped = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            if amount < 10_i128.pow(30) {
                amount = amount * 10 + i128::from(digit - b'0');
            } else {
                dropped += 1;
            }
        }
        let point = i32::try_from(fraction.len()).unwrap_or(i32::MAX).saturating_sub(dropped);
        let (format, exponent, shift) = if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(s, _)| *s == suffix)
        {
            (Format::DecimalSi, *exponent, 0)
        } else if let Some((_, shift)) = BINARY_SUFFIXES.iter().find(|(s, _)| *s == suffix) {
            (Format::BinarySi, 0, *shift)
        } else if let Some(exponent) = suffix.strip_prefix(['e', 'E']) {
            (Format::DecimalExponent, exponent.parse().map_err(|_| ParseQuantityError::Suffix)?, 0)
        } else if suffix.bytes().all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte)) {
            return Err(ParseQuantityError::Suffix);
        } else {
            return Err(ParseQuantityError::Format);
        };
        let shifted = amount.checked_mul(1_i128 << shift).unwrap_or(i128::MAX);
        let nanos = scaled(shifted, exponent.saturating_add(9).saturating_sub(point)).min(NANOS_MAX);
        Ok(Self { nanos: if text.starts_with('-') { -nanos } else { nanos }, format })
    }
}

/// The canonical form: no fraction, the largest suffix that keeps the number whole.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Between -1024 and 1024, and for fractions, binary suffixes say nothing.
        if self.format == Format::BinarySi && self.is_whole() && self.nanos.abs() >= 1024 * NANO {
            let mut whole = self.nanos / NANO;
            let mut suffix = "";
            for (larger, _) in BINARY_SUFFIXES {
                if whole % 1024 != 0 {
                    break;
                }
                whole /= 1024;
                suffix = larger;
            }
            return write!(f, "{whole}{suffix}");
        }
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        while mantissa % 1000 == 0 && exponent < 18 {
            mantissa /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{exponent}") };
        }
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, value)| *value == exponent).map_or("", |(suffix, _)| suffix);
        write!(f, "{mantissa}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form() {
        for (text, canonical) in [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2000000000", "2G"),
            ("1e9", "1e9"),
            ("1073741824", "1073741824"),
            ("1000m", "1"),
            ("0.50", "500m"),
            ("0.5Gi", "512Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("-1Gi", "-1Gi"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1E", "1E"),
            ("1E3", "1e3"),
            ("100e-3", "100e-3"),
            ("10E", "9223372036854775807"),
            (".5", "500m"),
            ("5.", "5"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_quantity() {
        for (text, error) in [
            ("", ParseQuantityError::Format),
            ("many", ParseQuantityError::Format),
            ("1.2.3", ParseQuantityError::Format),
            ("1 Gi", ParseQuantityError::Format),
            ("1Kim", ParseQuantityError::Suffix),
            ("1K", ParseQuantityError::Suffix),
            ("1e", ParseQuantityError::Suffix),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn values_compare_whatever_their_form() {
        let parse = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(parse("1"), parse("1000m"));
        assert!(parse("1Gi") > parse("1G"));
        assert_eq!(parse("1500m").ceil(), 2);
        assert_eq!(parse("1Gi").plus(parse("1Gi")).to_string(), "2Gi");
    }
}
