//! Times and durations as `metav1.Time`, `MicroTime` and `Duration` read and write them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// RFC 3339 to the second, in UTC.
///
/// # Errors
/// Go's sentence for a text that is no such time.
pub(super) fn second(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    written(text, LAYOUT, "%Y-%m-%dT%H:%M:%SZ")
}

/// RFC 3339 with exactly six digits of a second, in UTC.
///
/// # Errors
/// Go's sentence for a text that is no such time.
pub(super) fn micro(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    written(text, LAYOUT, "%Y-%m-%dT%H:%M:%S%.6fZ")
}

fn written(text: &str, layout: &str, format: &str) -> Result<String, String> {
    check(text, layout)?;
    let time: Timestamp = text.parse().map_err(|_| format!("parsing time {text:?}: day out of range"))?;
    Ok(time.to_zoned(TimeZone::UTC).strftime(format).to_string())
}

/// Follows the layout element by element, as Go's `time.Parse` does, to name the first that does not fit.
fn check(text: &str, layout: &str) -> Result<(), String> {
    let micros = layout.contains(".000000");
    let mut rest = text;
    let fail = |rest: &str, element: &str| {
        Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"))
    };
    let range = |what: &str| Err(format!("parsing time {text:?}: {what} out of range"));
    for (element, digits, most) in [
        ("2006", 4, 9999),
        ("-", 0, 0),
        ("01", 2, 12),
        ("-", 0, 0),
        ("02", 2, 31),
        ("T", 0, 0),
        ("15", 2, 23),
        (":", 0, 0),
        ("04", 2, 59),
        (":", 0, 0),
        ("05", 2, 59),
    ] {
        if digits == 0 {
            match rest.strip_prefix(element) {
                Some(after) => rest = after,
                None => return fail(rest, element),
            }
            continue;
        }
        let Some(number) = rest.get(..digits).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) else {
            return fail(rest, element);
        };
        if number.parse::<u32>().is_ok_and(|value| value > most || most == 12 && value == 0 || most == 31 && value == 0)
        {
            let what = match element {
                "01" => "month",
                "02" => "day",
                "15" => "hour",
                "04" => "minute",
                _ => "second",
            };
            return range(what);
        }
        rest = &rest[digits..];
    }
    let fraction = rest.strip_prefix(['.', ',']).map(|after| after.bytes().take_while(u8::is_ascii_digit).count());
    match (micros, fraction) {
        (true, Some(6)) => rest = &rest[7..],
        (true, _) => return fail(rest, ".000000"),
        // A fraction is read though the layout has none.
        (false, Some(digits)) if digits > 0 => rest = &rest[digits + 1..],
        (false, _) => {}
    }
    if let Some(after) = rest.strip_prefix('Z') {
        rest = after;
    } else {
        let zone = rest.as_bytes();
        let digit = |at: usize| zone.get(at).is_some_and(u8::is_ascii_digit);
        let offset = matches!(zone.first(), Some(b'+' | b'-'))
            && digit(1)
            && digit(2)
            && zone.get(3) == Some(&b':')
            && digit(4)
            && digit(5);
        if !offset {
            return fail(rest, "Z07:00");
        }
        rest = &rest[6..];
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("parsing time {text:?}: extra text: {rest:?}")) }
}

/// A Go duration (`1h30m`), checked but not rewritten.
///
/// # Errors
/// Go's sentence for a text that is none.
pub(super) fn duration(text: &str) -> Result<String, String> {
    if crate::schema::formats::is_go_duration(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("time: invalid duration {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_the_precision_of_their_type() {
        assert_eq!(second("2026-01-02T03:04:05.678+01:00").as_deref(), Ok("2026-01-02T02:04:05Z"));
        assert_eq!(micro("2026-01-02T03:04:05.678901-02:00").as_deref(), Ok("2026-01-02T05:04:05.678901Z"));
    }

    #[test]
    fn the_first_element_that_does_not_fit_is_named() {
        let cases = [
            (
                "yesterday",
                r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
            ),
            ("2026-13-02T03:04:05Z", r#"parsing time "2026-13-02T03:04:05Z": month out of range"#),
            ("2026-02-30T03:04:05Z", r#"parsing time "2026-02-30T03:04:05Z": day out of range"#),
            ("2026-01-02", r#"parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#),
            (
                "2026-01-02T03:04:05",
                r#"parsing time "2026-01-02T03:04:05" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
            ),
            ("2026-01-02T03:04:05Zx", r#"parsing time "2026-01-02T03:04:05Zx": extra text: "x""#),
        ];
        for (text, expected) in cases {
            assert_eq!(second(text), Err(expected.to_owned()), "{text}");
        }
    }
}
