//! The body of a server-side apply: an object as YAML, of which JSON is a part.

use serde_json::{Map, Value};

use super::cannot_unmarshal;
use crate::error::ApiError;
use crate::request::Body;
use crate::schema::yaml;

/// Decodes an applied object.
///
/// # Errors
/// 400 in the words of upstream's YAML decoder.
pub fn decode(body: &Body) -> Result<Value, ApiError> {
    let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let value = match body {
        Body::Empty => Value::Null,
        Body::Json { value, .. } => value.clone(),
        Body::Bytes { bytes, .. } => {
            yaml::read(bytes).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?.value
        }
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        other => {
            let why = cannot_unmarshal(&other, "map[string]interface {}");
            Err(refuse(format!("error unmarshaling JSON: while decoding JSON: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_refused_in_gos_words() {
        for (text, message) in [
            (": not yaml: [", "error converting YAML to JSON: yaml: did not find expected key"),
            ("a: [", "error converting YAML to JSON: yaml: line 1: did not find expected node content"),
            (
                "- a",
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type \
                 map[string]interface {}",
            ),
        ] {
            let body = Body::Bytes { content_type: String::new(), bytes: text.as_bytes().to_vec().into() };
            let error = decode(&body).expect_err(text);
            assert_eq!(error.message, format!("error decoding YAML: {message}"), "{text}");
        }
    }
}
