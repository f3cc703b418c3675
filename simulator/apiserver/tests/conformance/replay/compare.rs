//! Where answers differ.

use std::collections::BTreeSet;

use serde_json::Value;

/// Letters of a value that a difference shows.
const SHOWN_MAX: usize = 200;

/// Compares answers one by one; each difference names the step and the place.
pub(crate) fn answers(want: &[Value], got: &[Value]) -> Vec<String> {
    let mut out = Vec::new();
    if want.len() != got.len() {
        out.push(format!("want {} answers, got {}", want.len(), got.len()));
    }
    for (want, got) in want.iter().zip(got) {
        values(want, got, want["id"].as_str().unwrap_or_default(), &mut out);
    }
    out
}

fn values(want: &Value, got: &Value, at: &str, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            let keys: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
            for key in keys {
                match (want.get(key), got.get(key)) {
                    (Some(want), Some(got)) => values(want, got, &format!("{at}/{key}"), out),
                    (Some(want), None) => out.push(format!("{at}/{key}: missing, want {}", brief(want))),
                    (None, Some(got)) => out.push(format!("{at}/{key}: not expected, got {}", brief(got))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(want), Value::Array(got)) => {
            if want.len() != got.len() {
                out.push(format!("{at}: want {} items, got {}", want.len(), got.len()));
            }
            for (index, (want, got)) in want.iter().zip(got).enumerate() {
                values(want, got, &format!("{at}/{index}"), out);
            }
        }
        _ if same(want, got) => {}
        _ => out.push(format!("{at}: want {}, got {}", brief(want), brief(got))),
    }
}

/// `1` and `1.0` are the same number.
fn same(want: &Value, got: &Value) -> bool {
    want == got || (want.is_number() && got.is_number() && want.as_f64() == got.as_f64())
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
