//! Ages and durations as people read them.

use jiff::Timestamp;
use serde_json::Value;

/// The time since an RFC 3339 time: `5m30s`; `<unknown>` when there is none, `<invalid>` when it cannot
/// be read or lies ahead.
#[must_use]
pub fn age(time: &Value, now: Timestamp) -> String {
    match time.as_str() {
        None | Some("") => "<unknown>".to_owned(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(time) => human_duration(now.as_second() - time.as_second()),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}

/// A duration in seconds, shortened: `k8s.io/apimachinery/pkg/util/duration.HumanDuration`.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |large: i64, unit: i64, large_name: &str, small: i64, small_name: &str| {
        let rest = (seconds - large * unit) / small;
        if rest == 0 { format!("{large}{large_name}") } else { format!("{large}{large_name}{rest}{small_name}") }
    };
    match seconds {
        // Clocks differ a little: upstream forgives two seconds.
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds / MINUTE, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds / HOUR, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds / DAY, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds / YEAR, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_lose_precision_as_they_grow() {
        let (minute, hour, day, year) = (60, 3600, 86_400, 365 * 86_400);
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (5 * minute + 7, "5m7s"),
            (11 * minute + 7, "11m"),
            (3 * hour + 4 * minute, "3h4m"),
            (9 * hour + 4 * minute, "9h"),
            (2 * day + 3 * hour, "2d3h"),
            (9 * day, "9d"),
            (3 * year + 5 * day, "3y5d"),
            (9 * year, "9y"),
        ];
        for (seconds, want) in table {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
