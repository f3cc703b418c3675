//! Base64 as Go's `encoding/base64` reads it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Padded standard base64, line breaks dropped.
///
/// # Errors
/// Go's sentence, with the place of the first byte that cannot be.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let stripped;
    let clean = if text.contains(['\r', '\n']) {
        stripped = text.replace(['\r', '\n'], "");
        stripped.as_str()
    } else {
        text
    };
    if STANDARD.decode(clean).is_ok() {
        return Ok(clean.to_owned());
    }
    Err(format!("illegal base64 data at input byte {}", first_bad(text.as_bytes())))
}

/// Where Go's decoder stops: at a foreign byte, at wrong padding, or at the end of an incomplete group.
fn first_bad(text: &[u8]) -> usize {
    let mut group = 0;
    let mut bytes = text.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => group = (group + 1) % 4,
            b'=' if group == 2 => match bytes.next() {
                Some((_, b'=')) => return bytes.next().map_or(at, |(at, _)| at),
                Some((at, _)) => return at,
                None => return text.len(),
            },
            b'=' if group == 3 => return bytes.next().map_or(at, |(at, _)| at),
            _ => return at,
        }
    }
    // Go reports an incomplete last group at its beginning.
    text.len() - group
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn bad_base64_is_reported_where_go_reports_it() {
        assert_eq!(canonical("AAEC").as_deref(), Ok("AAEC"));
        assert_eq!(canonical("AA\nEC\n").as_deref(), Ok("AAEC"));
        for (text, at) in [("not base64!", 3), ("%%", 0), ("AAE", 0), ("AAAAAA", 4), ("A===", 1), ("AA==A", 4)] {
            assert_eq!(canonical(text), Err(format!("illegal base64 data at input byte {at}")), "{text}");
        }
    }
}
