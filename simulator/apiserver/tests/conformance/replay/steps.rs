//! Runs the steps of a case and normalises the answers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::corpus::Case;
use super::normalise::Normaliser;
use super::stage::{Reply, Stage, Stages, WatchNumber};
use super::webhook::Webhook;

/// The word that makes cluster-scoped names unique; any will do, each case has its own control plane.
const TAG: &str = "qzkwxvjy";

/// Between two polls of a step that waits.
const POLL: SignedDuration = SignedDuration::from_millis(50);

/// Seconds after which a watch is given up that is read as if it were a plain body.
const WHOLE_WATCH: f64 = 20.0;

/// An answer before normalisation.
struct Answered<'c> {
    id: String,
    step: &'c Value,
    status: u16,
    body: Value,
}

/// Runs the case; one entry for each answer, as recorded.
pub(crate) fn run(case: &Case, stages: &Stages) -> Result<Vec<Value>, String> {
    let script = &case.script;
    let mut stage = stages.stage(case.area(), Webhook::of(script))?;
    let mut names = vec![
        ("ns".to_owned(), format!("ns-{TAG}")),
        ("ns2".to_owned(), format!("ns2-{TAG}")),
        ("tag".to_owned(), TAG.to_owned()),
    ];
    for (mark, real) in &names {
        stage.scope.0.insert(mark.clone(), real.as_str().into());
    }
    let hooks: Vec<(String, Value)> = stage.webhooks.iter().map(|hook| (hook.name.clone(), hook.shown())).collect();
    for (name, shown) in &hooks {
        for (field, value) in shown.as_object().into_iter().flatten() {
            names.push((format!("webhook.{name}.{field}"), value.as_str().unwrap_or_default().to_owned()));
        }
    }
    stage.scope.0.insert("webhook".to_owned(), hooks.into_iter().collect());
    let default = json!(["ns"]);
    for namespace in script.get("namespaces").unwrap_or(&default).as_array().into_iter().flatten() {
        let name = &stage.scope.0[namespace.as_str().unwrap_or_default()];
        let request = json!({"method": "POST", "path": "/api/v1/namespaces", "body": {"metadata": {"name": name}}});
        send(&mut stage, &request, (0.0, 0))?;
    }
    stage.settle()?;
    let mut answers = Vec::new();
    steps(script, &mut stage, &mut answers)?;
    Ok(normalised(script, names, answers))
}

fn steps<'c>(script: &'c Value, stage: &mut Stage, answers: &mut Vec<Answered<'c>>) -> Result<(), String> {
    let mut in_background: Vec<(usize, WatchNumber)> = Vec::new();
    for (index, step) in script["steps"].as_array().into_iter().flatten().enumerate() {
        let id = step["id"].as_str().map_or_else(|| format!("s{}", index + 1), str::to_owned);
        if let Some(seconds) = step["sleep"].as_f64() {
            stage.pass(SignedDuration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?)?;
            continue;
        }
        if let Some(change) = step.get("setWebhook") {
            hook(stage, &change["name"])?.change(change);
            continue;
        }
        if let Some(name) = step.get("reviews") {
            let count = step["count"].as_u64().and_then(|count| usize::try_from(count).ok());
            let deadline = stage.now + seconds(&step["timeout"], 10.0)?;
            while count.is_some_and(|count| hook(stage, name).is_ok_and(|hook| hook.waiting() < count))
                && stage.now < deadline
            {
                stage.pass(POLL)?;
            }
            let body = hook(stage, name)?.take(count);
            reviewed(script, id, step, body, stage, answers);
            continue;
        }
        let request = stage.scope.fill(&step["request"])?;
        let (status, mut body, headers) = match step.get("watch") {
            Some(watch) => {
                let wanted = watch["events"].as_u64().and_then(|count| usize::try_from(count).ok());
                let reply =
                    send(stage, &request, (watch["seconds"].as_f64().unwrap_or(3.0), wanted.unwrap_or(usize::MAX)))?;
                match reply {
                    Reply::Response(response) if response.status() == 200 => (200, lines(&response, watch), None),
                    Reply::Response(response) => read(&response),
                    Reply::Watch(number) if watch["background"] == true => {
                        in_background.push((answers.len(), number));
                        (200, Value::Null, None)
                    }
                    Reply::Watch(number) => (200, watched(stage, watch, number)?, None),
                }
            }
            None => poll(stage, step, &request)?,
        };
        stage.scope.0.insert(id.clone(), json!({"status": status, "body": body}));
        if let (Some(wanted), Some(headers), Some(fields)) = (step["headers"].as_array(), headers, body.as_object_mut())
        {
            let shown = wanted.iter().filter_map(Value::as_str).map(|name| {
                let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
                (name.to_owned(), if values.is_empty() { Value::Null } else { json!(values) })
            });
            fields.insert("<headers>".to_owned(), shown.collect());
        }
        answers.push(Answered { id, step, status, body });
    }
    for (at, number) in in_background {
        answers[at].body = watched(stage, &answers[at].step["watch"], number)?;
    }
    // What no step took.
    let left: Vec<(String, Value)> =
        stage.webhooks.iter_mut().map(|hook| (format!("reviews.{}", hook.name), hook.take(None))).collect();
    for (id, body) in left {
        if body["reviews"].as_array().is_some_and(|reviews| !reviews.is_empty()) {
            reviewed(script, id, &Value::Null, body, stage, answers);
        }
    }
    Ok(())
}

fn hook<'s>(stage: &'s mut Stage, name: &Value) -> Result<&'s mut Webhook, String> {
    stage.webhooks.iter_mut().find(|hook| hook.name == *name).ok_or_else(|| format!("no webhook {name}"))
}

fn seconds(value: &Value, default: f64) -> Result<SignedDuration, String> {
    SignedDuration::try_from_secs_f64(value.as_f64().unwrap_or(default)).map_err(|error| error.to_string())
}

/// Sends a request, again and again where the step waits for something.
fn poll(stage: &mut Stage, step: &Value, request: &Value) -> Result<(u16, Value, Option<http::HeaderMap>), String> {
    let until = step.get("until").map(|until| stage.scope.fill(until)).transpose()?;
    let deadline = stage.now + seconds(&step["timeout"], 15.0)?;
    loop {
        let response = match send(stage, request, (WHOLE_WATCH, usize::MAX))? {
            Reply::Response(response) => response,
            Reply::Watch(number) => {
                // Read like any other body, up to its end.
                let (events, _) = stage.finish(number)?;
                return Ok((200, json!(events), None));
            }
        };
        let (status, body, headers) = read(&response);
        let met = until.as_ref().is_none_or(|until| contains(until, &json!({"status": status, "body": body})));
        if met || stage.now > deadline {
            return Ok((status, body, headers));
        }
        stage.pass(POLL)?;
    }
}

/// A body that is no watch, read as if it were one.
fn lines(response: &http::Response<Bytes>, watch: &Value) -> Value {
    let text = String::from_utf8_lossy(response.body());
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let wanted = watch["events"].as_u64().and_then(|count| usize::try_from(count).ok());
    json!({"events": events.take(wanted.unwrap_or(usize::MAX)).collect::<Vec<_>>()})
}

fn watched(stage: &mut Stage, watch: &Value, number: WatchNumber) -> Result<Value, String> {
    let (mut events, closed) = stage.finish(number)?;
    if let Some(only) = watch["only"].as_array() {
        events.retain(|event| only.contains(&event["type"]));
    }
    if let Some(count) = watch["events"].as_u64().and_then(|count| usize::try_from(count).ok()) {
        events.truncate(count);
    }
    let mut body = json!({"events": events});
    if watch.get("closed").is_some() {
        body["closed"] = closed.into();
    }
    Ok(body)
}

/// The reviews that a webhook got are an answer too; what the case ignores everywhere is ignored in
/// their objects.
fn reviewed<'c>(
    script: &Value,
    id: String,
    step: &'c Value,
    mut body: Value,
    stage: &mut Stage,
    answers: &mut Vec<Answered<'c>>,
) {
    stage.scope.0.insert(id.clone(), json!({"status": 200, "body": body}));
    for pointer in texts(&script["ignore"]) {
        for object in ["object", "oldObject"] {
            drop_at(&mut body, &parts(&format!("/reviews/*/request/{object}{pointer}")));
        }
    }
    answers.push(Answered { id, step, status: 200, body });
}

fn send(stage: &mut Stage, request: &Value, watch: (f64, usize)) -> Result<Reply, String> {
    let mut uri = request["path"].as_str().unwrap_or_default().to_owned();
    if let Some(query) = request["query"].as_object() {
        let mut encoded = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in query {
            let values = value.as_array().map_or_else(|| vec![value.clone()], Clone::clone);
            for value in values {
                encoded.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
        }
        uri = format!("{uri}?{}", encoded.finish());
    }
    let mut headers = vec![
        ("Accept", Some("application/json".to_owned())),
        ("User-Agent", Some("replay".to_owned())),
        ("Authorization", Some("Bearer admin".to_owned())),
    ];
    let body = match (request["rawBody"].as_str(), request.get("body")) {
        (Some(raw), _) => Bytes::from(raw.to_owned()),
        (None, Some(body)) if !body.is_null() => {
            headers.push(("Content-Type", Some("application/json".to_owned())));
            Bytes::from(python_json(body))
        }
        _ => Bytes::new(),
    };
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        headers.retain(|(known, _)| known != name);
        headers.push((name, value.as_str().map(str::to_owned)));
    }
    let mut builder = Request::builder().method(request["method"].as_str().unwrap_or("GET")).uri(uri);
    for (name, value) in headers {
        if let Some(value) = value {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            builder = builder.header(name, HeaderValue::try_from(value).map_err(|error| error.to_string())?);
        }
    }
    let (parts, ()) = builder.body(()).map_err(|error| error.to_string())?.into_parts();
    stage.send(&parts, body, watch)
}

fn read(response: &http::Response<Bytes>) -> (u16, Value, Option<http::HeaderMap>) {
    let is_json = response
        .headers()
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("json"));
    let parsed = if is_json { serde_json::from_slice(response.body()).ok() } else { None };
    let body = parsed.unwrap_or_else(|| json!({"<text>": String::from_utf8_lossy(response.body())}));
    (response.status().as_u16(), body, Some(response.headers().clone()))
}

/// Is `part` contained in `whole`? Maps by key, lists by position; `{"<some>": x}` is a list that has x.
pub(crate) fn contains(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), _) if part.contains_key("<some>") => {
            whole.as_array().is_some_and(|items| items.iter().any(|item| contains(&part["<some>"], item)))
        }
        (Value::Object(part), Value::Object(whole)) => part.iter().all(|(key, part)| match whole.get(key) {
            Some(whole) => part != "<absent>" && contains(part, whole),
            None => part == "<absent>",
        }),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| contains(part, whole))
        }
        _ => part == whole,
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn parts(pointer: &str) -> Vec<String> {
    let trimmed = pointer.trim_matches('/');
    trimmed.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

/// Removes what a pointer names; `*` stands for every item.
fn drop_at(value: &mut Value, path: &[String]) {
    let Some((head, rest)) = path.split_first() else { return };
    match value {
        Value::Array(items) => match head.parse::<usize>() {
            Ok(at) => items.get_mut(at).into_iter().for_each(|item| drop_at(item, rest)),
            Err(_) if head == "*" => items.iter_mut().for_each(|item| drop_at(item, rest)),
            Err(_) => {}
        },
        Value::Object(fields) if rest.is_empty() && head == "*" => fields.clear(),
        Value::Object(fields) if rest.is_empty() => {
            fields.remove(head);
        }
        Value::Object(fields) if head == "*" => fields.values_mut().for_each(|field| drop_at(field, rest)),
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(head) {
                drop_at(field, rest);
            }
        }
        _ => {}
    }
}

/// What a pointer names; `*` gives a list, one entry for each item.
fn pick(value: &Value, path: &[String]) -> Value {
    let Some((head, rest)) = path.split_first() else { return value.clone() };
    let next = match value {
        Value::Array(items) if head == "*" => return items.iter().map(|item| pick(item, rest)).collect(),
        Value::Object(fields) if head == "*" => return fields.values().map(|item| pick(item, rest)).collect(),
        Value::Array(items) => head.parse::<usize>().ok().and_then(|at| items.get(at)),
        Value::Object(fields) => fields.get(head),
        _ if head == "*" => return json!([]),
        _ => None,
    };
    next.map_or(Value::Null, |next| pick(next, rest))
}

/// The answers as recorded ones are: only what a step compares takes part in the numbering.
fn normalised(script: &Value, names: Vec<(String, String)>, answers: Vec<Answered<'_>>) -> Vec<Value> {
    let mut normaliser = Normaliser::new(names);
    let mut views: Vec<Option<Vec<(String, Value)>>> = Vec::new();
    for Answered { step, body, .. } in &answers {
        normaliser.find_generated(body);
        if step["compare"].as_str().unwrap_or("body") != "body" {
            views.push(None);
            continue;
        }
        let mut view = body.clone();
        Normaliser::own_versions(&mut view);
        for pointer in texts(&script["ignore"]).chain(texts(&step["ignore"])) {
            drop_at(&mut view, &parts(pointer));
        }
        let picked: Vec<(String, Value)> = match step["only"].as_array() {
            Some(_) => texts(&step["only"]).map(|pointer| (pointer.to_owned(), pick(&view, &parts(pointer)))).collect(),
            None => vec![(String::new(), view)],
        };
        for (pointer, value) in &picked {
            normaliser.collect(value, parts(pointer).last().map_or("", String::as_str));
        }
        views.push(Some(picked));
    }
    normaliser.freeze();
    let mut out = Vec::new();
    for (Answered { id, step, status, .. }, view) in answers.into_iter().zip(views) {
        let mut row = json!({"id": id, "status": status});
        if let Some(view) = view {
            let mut shown: Vec<(String, Value)> = view
                .into_iter()
                .map(|(pointer, value)| {
                    let value = normaliser.apply(&value, parts(&pointer).last().map_or("", String::as_str));
                    (pointer, value)
                })
                .collect();
            let only = step["only"].is_array();
            if let Some(unordered) = step["unordered"].as_str().or((step["unordered"] == true).then_some("")) {
                if only {
                    shown.iter_mut().for_each(|(_, value)| sort(value));
                } else if let Some(list) = at_mut(&mut shown[0].1, &parts(unordered)) {
                    sort(list);
                }
            }
            row["body"] =
                if only { shown.into_iter().collect() } else { shown.pop().map_or(Value::Null, |(_, value)| value) };
        }
        out.push(row);
    }
    out
}

fn at_mut<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, part| match value {
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        other => other.get_mut(part),
    })
}

fn sort(value: &mut Value) {
    if let Value::Array(items) = value {
        // As Python writes JSON, which is how recorded lists were sorted.
        items.sort_by_key(python_json);
    }
}

/// JSON with blanks after commas and colons and everything beyond ASCII escaped.
fn python_json(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(python_json).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{}: {}", python_json(&key.as_str().into()), python_json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other
            .to_string()
            .chars()
            .map(|letter| if letter.is_ascii() { letter.to_string() } else { format!("\\u{:04x}", u32::from(letter)) })
            .collect(),
    }
}
