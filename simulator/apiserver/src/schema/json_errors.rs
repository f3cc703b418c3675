//! What Go calls a syntax error in JSON (`encoding/json/scanner.go`).

/// Deepest nesting that is followed, as Go's scanner.
const MAX_DEPTH: usize = 10_000;

/// The sentence for the first syntax error; `None` when there is none.
#[must_use]
pub(super) fn describe(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.document().err()
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Scanned = Result<(), String>;

impl Scanner<'_> {
    /// Values are scanned with a stack of our own, for nesting is the sender's choice.
    fn document(&mut self) -> Scanned {
        let mut open: Vec<u8> = Vec::new();
        loop {
            // At the beginning of a value.
            self.space();
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    open.push(b'}');
                    self.space();
                    if self.peek() != Some(b'}') {
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    open.push(b']');
                    self.space();
                    if self.peek() != Some(b']') {
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            if open.len() > MAX_DEPTH {
                return Err("exceeded max depth".to_owned());
            }
            // After a value: close what ends here, until another value begins.
            loop {
                self.space();
                match (open.last().copied(), self.peek()) {
                    (None, None) => return Ok(()),
                    (None, Some(_)) => return Err(self.invalid("after top-level value")),
                    (Some(end), Some(next)) if end == next => {
                        self.at += 1;
                        open.pop();
                    }
                    (Some(b'}'), Some(b',')) => {
                        self.at += 1;
                        self.space();
                        self.name()?;
                        break;
                    }
                    (Some(_), Some(b',')) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b'}'), _) => return Err(self.invalid("after object key:value pair")),
                    (Some(_), _) => return Err(self.invalid("after array element")),
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn invalid(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quote(byte)),
        }
    }

    /// A member's name and the colon after it.
    fn name(&mut self) -> Scanned {
        if self.peek() != Some(b'"') {
            return Err(self.invalid("looking for beginning of object key string"));
        }
        self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.invalid("after object key"));
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Scanned {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.invalid("looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Scanned {
        for (index, expected) in word.bytes().enumerate() {
            if self.peek() != Some(expected) {
                debug_assert!(index > 0, "the first letter was seen");
                return Err(self.invalid(&format!("in literal {word} (expecting {})", quote(expected))));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Scanned {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return Err(self.invalid("in \\u hexadecimal character escape"));
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.invalid("in string escape code")),
                    }
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    fn number(&mut self) -> Scanned {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.invalid("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return Err(self.invalid("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return Err(self.invalid("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

/// A byte as Go quotes it: as the Latin-1 character it would be.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x20..=0x7e | 0xa1..=0xac | 0xae.. => format!("'{}'", char::from(byte)),
        _ => format!("'\\x{byte:02x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn syntax_errors_are_worded_as_go_words_them() {
        let cases = [
            (r#"{"apiVersion":"#, "unexpected end of JSON input"),
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{not", "invalid character 'n' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("data", "invalid character 'd' looking for beginning of value"),
            ("trve", "invalid character 'v' in literal true (expecting 'u')"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("-", "unexpected end of JSON input"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            (r#""\q""#, "invalid character 'q' in string escape code"),
        ];
        for (text, expected) in cases {
            assert_eq!(describe(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
        for text in [r#"{"a":[1,-2.5e+3,true,null,{"b":"\u00e9"}]}"#, " [] ", "0", r#"{"a":{}}"#] {
            assert_eq!(describe(text.as_bytes()), None, "{text}");
        }
    }
}
