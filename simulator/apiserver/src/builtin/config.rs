//! ConfigMaps, Secrets, ServiceAccounts.
//!
//! Source: `pkg/apis/core/validation/validation.go` (`ValidateConfigMap`, `ValidateSecret`),
//! `pkg/apis/core/v1/conversion.go` (`stringData`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::at::{At, Errors, same};
use super::fill::{fill_zero, object_in, put, take};
use super::names;
use super::{OnUpdate, Strategy};

/// Bytes of all values of a ConfigMap or Secret together.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) static CONFIG_MAPS: Strategy = Strategy {
    validate: config_map,
    validate_update: |new, old, errors| immutable(new, old, &["data", "binaryData"], errors),
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

pub(super) static SECRETS: Strategy = Strategy {
    default: |secret| {
        fold_string_data(secret);
        fill_zero(secret, "type", "Opaque");
    },
    validate: secret,
    validate_update: |new, old, errors| {
        let root = At::root(new);
        root.get("type").immutable(errors, &old["type"]);
        immutable(new, old, &["data"], errors);
    },
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

pub(super) static SERVICE_ACCOUNTS: Strategy = Strategy { on_update: OnUpdate::ChangesThenWhole, ..Strategy::PLAIN };

/// `stringData` is write-only: it goes into `data`, over what is there.
fn fold_string_data(secret: &mut Value) {
    let Value::Object(texts) = take(secret, "stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let Some(data) = object_in(secret, "data") else { return };
    for (key, text) in texts {
        put(data, &key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
    }
}

/// How many bytes base64 stands for.
fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
}

fn config_map(map: &Value, errors: &mut Errors) {
    let root = At::root(map);
    let mut total = 0;
    let binary = root.get("binaryData");
    for (key, value) in root.get("data").entries() {
        key_errors(key, &value, errors);
        if !binary.get(key).is_absent() {
            value.invalid_as(errors, Value::from(key).to_string(), "duplicate of key present in binaryData");
        }
        total += value.text().len();
    }
    for (key, value) in binary.entries() {
        key_errors(key, &value, errors);
        total += decoded_len(value.text());
    }
    if total > DATA_BYTES_MAX {
        // Upstream's path has no name, and an empty path prints as an index without a number.
        At::named("[]", &Value::Null).too_long(errors, DATA_BYTES_MAX);
    }
}

fn key_errors(key: &str, at: &At<'_, '_>, errors: &mut Errors) {
    for wrong in names::config_key(key) {
        at.invalid_as(errors, Value::from(key).to_string(), wrong);
    }
}

fn secret(secret: &Value, errors: &mut Errors) {
    let root = At::root(secret);
    let data = root.get("data");
    let mut total = 0;
    for (key, value) in data.entries() {
        key_errors(key, &value, errors);
        total += decoded_len(value.text());
    }
    if total > DATA_BYTES_MAX {
        data.too_long(errors, DATA_BYTES_MAX);
    }
    let present = |keys: &[&'static str], errors: &mut Errors| {
        for key in keys {
            let place = data.key(key);
            if place.is_absent() {
                place.missing(errors, "");
            }
        }
    };
    match root.get("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = root.get("metadata");
            let annotations = metadata.get("annotations");
            annotations.key("kubernetes.io/service-account.name").required(errors);
        }
        "kubernetes.io/dockercfg" => json_under(&data.key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => json_under(&data.key(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" if data.key("username").is_absent() && data.key("password").is_absent() => {
            present(&["username", "password"], errors);
        }
        "kubernetes.io/ssh-auth" => {
            data.key("ssh-privatekey").required(errors);
        }
        "kubernetes.io/tls" => present(&["tls.crt", "tls.key"], errors),
        _ => {}
    }
}

fn json_under(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_absent() {
        at.missing(errors, "");
        return;
    }
    let bytes = STANDARD.decode(at.text()).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        at.invalid_as(errors, "\"<secret contents redacted>\"", json_sentence(&bytes, &error));
    }
}

/// What Go's decoder says of the same bytes.
fn json_sentence(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    if error.is_data() {
        let what = match serde_json::from_slice(bytes) {
            Ok(Value::Array(_)) => "array",
            Ok(Value::String(_)) => "string",
            Ok(Value::Number(_)) => "number",
            _ => "bool",
        };
        return format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}");
    }
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let line = lines.get(error.line().saturating_sub(1)).copied().unwrap_or_default();
    let found = line.get(error.column().saturating_sub(1)).map_or(' ', |byte| char::from(*byte));
    let first = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
    let at_start = first.is_some_and(|first| bytes[first] as char == found && error.line() == 1);
    let context = if at_start { "looking for beginning of value" } else { "in JSON value" };
    format!("invalid character '{found}' {context}")
}

/// With `immutable: true` neither the mark nor the data can change.
fn immutable(new: &Value, old: &Value, fields: &[&'static str], errors: &mut Errors) {
    if old["immutable"] != true {
        return;
    }
    let root = At::root(new);
    if new["immutable"] != true {
        root.get("immutable").forbidden(errors, IMMUTABLE);
    }
    for field in fields {
        if !same(&new[*field], &old[*field]) {
            root.get(field).forbidden(errors, IMMUTABLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_data_wins_and_is_never_kept() {
        let mut secret = json!({"stringData": {"a": "s3cret"}, "data": {"a": "b2xk", "b": "eA=="}});
        SECRETS.default(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "czNjcmV0", "b": "eA=="}, "type": "Opaque"}));
    }

    #[test]
    fn base64_counts_as_what_it_stands_for() {
        for (text, bytes) in [("", 0), ("eA==", 1), ("QUI=", 2), ("QUFB", 3)] {
            assert_eq!(decoded_len(text), bytes, "{text}");
        }
    }
}
