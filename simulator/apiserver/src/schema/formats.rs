//! String formats that the API server checks (`kube-openapi/pkg/validation/strfmt`); others are ignored.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

/// Does `text` have this format? True for formats that are not checked.
#[must_use]
pub fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_go_duration(text) || is_spaced_duration(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.split('%').next().is_some_and(|text| text.parse::<Ipv6Addr>().is_ok()),
        "cidr" => is_cidr(text),
        "uri" => is_uri(text),
        "k8s-short-name" => is_dns_label(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(is_dns_label),
        _ => pattern(format).is_none_or(|pattern| pattern.is_match(text)),
    }
}

/// A format's regular expression, where it has one.
fn pattern(format: &str) -> Option<&'static Regex> {
    static PATTERNS: OnceLock<Vec<(&str, Regex)>> = OnceLock::new();
    const SOURCES: [(&str, &str); 14] = [
        ("bsonobjectid", "^[0-9a-fA-F]{24}$"),
        (
            "mac",
            r"^([0-9A-Fa-f]{2}[:.-]){5}[0-9A-Fa-f]{2}$|^([0-9A-Fa-f]{2}[:-]){7}[0-9A-Fa-f]{2}$|^([0-9A-Fa-f]{4}\.){2,3}[0-9A-Fa-f]{4}$",
        ),
        ("uuid", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid3", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid4", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("uuid5", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("isbn", "^(?:[0-9][- ]?){9}[0-9xX]$|^(?:[0-9][- ]?){13}$"),
        ("isbn10", "^(?:[0-9][- ]?){9}[0-9xX]$"),
        ("isbn13", "^(?:[0-9][- ]?){13}$"),
        (
            "creditcard",
            r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
        ),
        ("ssn", r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        (
            "rgbcolor",
            r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
        ),
        ("password", "(?s)^.*$"),
    ];
    let patterns = PATTERNS.get_or_init(|| {
        SOURCES.iter().filter_map(|(format, source)| Some((*format, Regex::new(source).ok()?))).collect()
    });
    patterns.iter().find(|(known, _)| *known == format).map(|(_, pattern)| pattern)
}

/// Is the format checked, so that CEL gives its values a meaning?
#[must_use]
pub fn is_checked(format: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "date-time",
        "datetime",
        "date",
        "duration",
        "byte",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "uri",
        "k8s-short-name",
        "k8s-long-name",
    ];
    OTHERS.contains(&format) || pattern(format).is_some()
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.first().copied().is_some_and(inner)
        && bytes.last().copied().is_some_and(inner)
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    // A date, a time with seconds, and a zone: the parser of jiff alone would take less.
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && matches!(bytes[10], b'T' | b't')
        && bytes[13] == b':'
        && bytes[16] == b':'
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// `1h30m`, `-1.5s`: what Go's `time.ParseDuration` takes.
#[must_use]
pub fn is_go_duration(text: &str) -> bool {
    go_duration_nanos(text).is_some()
}

/// A Go duration in nanoseconds; `None` for a text that is none, or one that does not fit 64 bits.
#[must_use]
pub fn go_duration_nanos(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || number.len() > 24 {
            return None;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(nanos)?)?;
        if !fraction.is_empty() {
            let scale = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            total += fraction.parse::<i128>().ok()?.checked_mul(nanos)? / scale;
        }
        rest = next;
    }
    i64::try_from(sign * total).ok()
}

/// `3 days`, `2 weeks`: what strfmt takes besides Go's durations.
fn is_spaced_duration(text: &str) -> bool {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    const UNITS: &str = "(?i)^([0-9]+ *(nanoseconds?|nanos?|ns|microseconds?|micros?|us|µs|milliseconds?|millis?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|wks?|w) *)+$";
    PATTERN.get_or_init(|| Regex::new(UNITS).ok()).as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn is_email(text: &str) -> bool {
    let Some((local, host)) = text.rsplit_once('@') else { return false };
    !local.is_empty()
        && !host.is_empty()
        && !text.contains(char::is_whitespace)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !host.starts_with('.')
        && !host.ends_with('.')
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255
        && text.trim_end_matches('.').split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    address.parse::<Ipv4Addr>().is_ok() && length <= 32 || address.parse::<Ipv6Addr>().is_ok() && length <= 128
}

fn is_uri(text: &str) -> bool {
    // Go's `url.ParseRequestURI`: absolute, or a path.
    text.starts_with('/') || url::Url::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_upstream_takes() {
        let good = [
            ("date-time", "2026-01-02T03:04:05Z"),
            ("date", "2026-01-02"),
            ("duration", "1h30m"),
            ("duration", "3 days"),
            ("byte", "AAEC"),
            ("email", "a@b.example"),
            ("ipv4", "1.2.3.4"),
            ("ipv6", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("uuid", "a9d3f4a0-1c2b-4d5e-8f90-123456789abc"),
            ("mac", "01:23:45:67:89:ab"),
            ("unheard-of", "anything"),
        ];
        for (format, text) in good {
            assert!(is_valid(format, text), "{format} {text}");
        }
        let bad = [
            ("date-time", "yesterday"),
            ("date", "2026-13-40"),
            ("duration", "soon"),
            ("byte", "%%"),
            ("email", "nobody"),
            ("ipv4", "1.2.3"),
            ("ipv6", "1.2.3.4"),
            ("cidr", "10.0.0.0"),
            ("uuid", "x"),
        ];
        for (format, text) in bad {
            assert!(!is_valid(format, text), "{format} {text}");
        }
        assert_eq!(go_duration_nanos("-1.5s"), Some(-1_500_000_000));
    }
}
