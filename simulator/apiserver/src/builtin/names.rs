//! What names may look like: objects, labels, annotations, finalizers, ports.
//!
//! Source of rules and sentences: `k8s.io/apimachinery/pkg/util/validation/validation.go` and
//! `k8s.io/apimachinery/pkg/api/validation`. Every check answers sentences; none means valid.

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_PATTERN: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// Longest DNS label, label value and name part of a label key, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// Longest DNS subdomain, in bytes.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Which rule a kind has for `metadata.name`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NameRule {
    /// A DNS-1123 subdomain.
    Subdomain,
    /// A DNS-1123 label.
    Label,
    /// A DNS-1123 label; the message for a dot is its own (Namespaces).
    Namespace,
    /// Anything that can stand in a path (RBAC kinds).
    PathSegment,
    /// The canonical text of an IP address (`IPAddress`).
    IpAddress,
}

impl NameRule {
    /// What is wrong with a name. `prefix` says that a suffix will follow (`generateName`).
    #[must_use]
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        // A trailing dash of a prefix is covered by the suffix that follows.
        let masked;
        let masked_name = match name.strip_suffix('-') {
            Some(rest) if prefix => {
                masked = format!("{rest}a");
                masked.as_str()
            }
            _ => name,
        };
        match self {
            Self::Subdomain => subdomain(masked_name),
            Self::Label => label(masked_name),
            Self::Namespace if name.contains('.') => vec!["must not contain dots".to_owned()],
            Self::Namespace => label(masked_name),
            Self::PathSegment => path_segment(name, prefix),
            Self::IpAddress if name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_string() == name) => Vec::new(),
            Self::IpAddress => vec!["must be a valid address in canonical form".to_owned()],
        }
    }
}

fn pattern_sentence(what: &str, examples: &[&str], pattern: &str) -> String {
    // Upstream joins examples so that every one but the last is followed by two blanks.
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    format!("{what} (e.g. {}, regex used for validation is '{pattern}')", examples.join(",  or "))
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !bytes.is_empty()
        && bytes.iter().all(|byte| inner(byte) || *byte == b'-')
        && bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// DNS-1123 label.
#[must_use]
pub fn label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        wrong.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if !is_label(text) {
        wrong.push(pattern_sentence(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character",
            &["my-name", "123-abc"],
            LABEL_PATTERN,
        ));
    }
    wrong
}

/// DNS-1123 subdomain.
#[must_use]
pub fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        wrong.push(format!("must be no more than {SUBDOMAIN_BYTES_MAX} characters"));
    }
    if !text.split('.').all(is_label) {
        wrong.push(pattern_sentence(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &["example.com"],
            SUBDOMAIN_PATTERN,
        ));
    }
    wrong
}

/// DNS-1035 label: begins with a letter.
#[must_use]
pub fn label_1035(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        wrong.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(pattern_sentence(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            &["my-name", "abc-123"],
            "[a-z]([-a-z0-9]*[a-z0-9])?",
        ));
    }
    wrong
}

/// What can stand in a path: no `/` or `%`, not `.` or `..`.
#[must_use]
pub fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|bad| text.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// The key of a label or annotation, a finalizer: an optional subdomain and `/`, then a name.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (prefix, name) = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            let sentence = pattern_sentence(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character",
                &["MyName", "my.name", "123-abc"],
                QUALIFIED_PATTERN,
            );
            return vec![format!(
                "{sentence} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    match prefix {
        Some("") => wrong.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => wrong.extend(subdomain(prefix).into_iter().map(|sentence| format!("prefix part {sentence}"))),
        None => {}
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES_MAX {
        wrong.push(format!("name part must be no more than {LABEL_BYTES_MAX} bytes"));
    }
    if !is_qualified_part(name) {
        wrong.push(pattern_sentence(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character",
            &["MyName", "my.name", "123-abc"],
            QUALIFIED_PATTERN,
        ));
    }
    wrong
}

/// The value of a label.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        wrong.push(format!("must be no more than {LABEL_BYTES_MAX} bytes"));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        wrong.push(pattern_sentence(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            LABEL_VALUE_PATTERN,
        ));
    }
    wrong
}

/// A key of a ConfigMap or Secret.
#[must_use]
pub fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        wrong.push(format!("must be no more than {SUBDOMAIN_BYTES_MAX} characters"));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        wrong.push(pattern_sentence(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
            "[-._a-zA-Z0-9]+",
        ));
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of a container or Service port (IANA service name).
#[must_use]
pub fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The name of an environment variable: any printable ASCII but `=`.
#[must_use]
pub fn environment_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.is_empty() {
        wrong.push("environment variable name must be non-empty".to_owned());
    }
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        wrong.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_checked_with_a_suffix_in_mind() {
        assert!(NameRule::Subdomain.check("backup-", true).is_empty());
        assert_eq!(NameRule::Subdomain.check("backup-", false).len(), 1);
        assert_eq!(NameRule::Subdomain.check("Bad_Prefix-", true).len(), 1);
    }

    #[test]
    fn qualified_names_say_everything_that_is_wrong() {
        for (text, problems) in
            [("a", 0), ("db.example/Name_1", 0), ("", 2), ("/a", 1), ("a/b/c", 1), ("-bad", 1), ("Bad.Prefix_/x", 1)]
        {
            assert_eq!(qualified_name(text).len(), problems, "{text}");
        }
    }

    #[test]
    fn port_names_have_a_letter_and_no_stray_hyphens() {
        assert!(port_name("http-2").is_empty());
        assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
        assert_eq!(port_name("-a--b").len(), 2);
    }
}
