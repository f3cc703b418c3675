//! Schedules of CronJobs, as `github.com/robfig/cron/v3` parses them.

/// Bounds and names of the five fields.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule, in the parser's words.
pub(super) fn problem(schedule: &str) -> Option<String> {
    let mut schedule = schedule;
    if let Some(rest) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        let (zone, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if !is_time_zone(zone) {
            return Some(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        schedule = rest.trim();
    }
    if let Some(duration) = schedule.strip_prefix("@every ") {
        let valid =
            duration.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) && duration.ends_with(['s', 'm', 'h']);
        return (!valid).then(|| format!("failed to parse duration {schedule}: time: invalid duration \"{duration}\""));
    }
    if schedule.starts_with('@') {
        return (!DESCRIPTORS.contains(&schedule)).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields
        .iter()
        .zip(FIELDS)
        .find_map(|(field, bounds)| field.split(',').find_map(|range| range_problem(range, bounds)))
}

fn range_problem(range: &str, (min, max, names): (u32, u32, &[&str])) -> Option<String> {
    let number = |text: &str| -> Result<u32, String> {
        if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(u32::try_from(index).unwrap_or_default() + min);
        }
        match text.parse::<i64>() {
            Ok(negative) if negative < 0 => Err(format!("negative number ({negative}) not allowed: {text}")),
            Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
            Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
        }
    };
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let bounds = if matches!(ends[0], "*" | "?") {
        Ok((min, max))
    } else {
        match ends[..] {
            [only] => number(only).map(|only| (only, if parts.len() > 1 { max } else { only })),
            [first, last] => number(first).and_then(|first| number(last).map(|last| (first, last))),
            _ => Err(format!("too many hyphens: {range}")),
        }
    };
    let (first, last) = match bounds {
        Ok(bounds) => bounds,
        Err(wrong) => return Some(wrong),
    };
    let step = match parts[..] {
        [_] => Ok(1),
        [_, step] => number(step),
        _ => Err(format!("too many slashes: {range}")),
    };
    match step {
        Err(wrong) => Some(wrong),
        Ok(_) if first < min => Some(format!("beginning of range ({first}) below minimum ({min}): {range}")),
        Ok(_) if last > max => Some(format!("end of range ({last}) above maximum ({max}): {range}")),
        Ok(_) if first > last => Some(format!("beginning of range ({first}) beyond end of range ({last}): {range}")),
        Ok(0) => Some(format!("step of range should be a positive number: {range}")),
        Ok(_) => None,
    }
}

/// First parts of the names of the IANA time zone database, and its names without one.
const REGIONS: [&str; 13] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
];
const MORE_REGIONS: [&str; 3] = ["Mexico", "Pacific", "US"];
const ZONES: [&str; 42] = [
    "CET",
    "CST6CDT",
    "Cuba",
    "EET",
    "EST",
    "EST5EDT",
    "Egypt",
    "Eire",
    "Factory",
    "GB",
    "GB-Eire",
    "GMT",
    "GMT+0",
    "GMT-0",
    "GMT0",
    "Greenwich",
    "HST",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "MET",
    "MST",
    "MST7MDT",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "PST8PDT",
    "Poland",
    "Portugal",
    "ROC",
    "ROK",
    "Singapore",
    "Turkey",
    "UCT",
    "UTC",
    "Zulu",
];

/// Could this be a time zone? Places within a region are not looked up: the answer would depend on the
/// machine's time zone database.
pub(super) fn is_time_zone(name: &str) -> bool {
    let well_formed = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte));
    match name.split_once('/') {
        Some((region, place)) => {
            well_formed && !place.is_empty() && (REGIONS.contains(&region) || MORE_REGIONS.contains(&region))
        }
        None => ZONES.contains(&name) || matches!(name, "W-SU" | "WET" | "Universal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for (schedule, wrong) in [
            ("0 3 * * *", None),
            ("*/5 0-6/2 1,15 jan-mar MON", None),
            ("@daily", None),
            ("@every 1h30m", None),
            ("sometimes", Some("expected exactly 5 fields, found 1: [sometimes]")),
            ("@never", Some("unrecognized descriptor: @never")),
            ("60 * * * *", Some("end of range (60) above maximum (59): 60")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("5-3 * * * *", Some("beginning of range (5) beyond end of range (3): 5-3")),
            ("x * * * *", Some("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax")),
        ] {
            assert_eq!(problem(schedule).as_deref(), wrong, "{schedule}");
        }
    }
}
