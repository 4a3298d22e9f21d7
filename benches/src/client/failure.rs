//! Why a call gave no answer.

use std::fmt;

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection broke or spoke nonsense. It is of no more use; whether the call took effect is unknown.
    Transport(String),
    /// The server answered with a gRPC status other than 0. The connection lives.
    Status {
        /// The gRPC code.
        code: i32,
        /// The server's text.
        message: String,
    },
    /// The endpoint, an option or a path given by the user is of no use.
    Usage(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Transport(reason) => write!(f, "transport: {reason}"),
            Failure::Status { code, message } => write!(f, "status {code}: {message}"),
            Failure::Usage(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Failure {}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        Failure::Transport(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Transport(error.to_string())
    }
}

impl From<prost::DecodeError> for Failure {
    fn from(error: prost::DecodeError) -> Self {
        Failure::Transport(format!("an answer does not decode: {error}"))
    }
}

/// Decodes gRPC's percent coding of status texts. Broken escapes stay as they are.
pub(crate) fn percent_decode(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let escape = if *first == b'%' { tail.get(..2) } else { None };
        let byte = escape.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_coding() {
        for (text, want, why) in [
            ("etcdserver: key not found", "etcdserver: key not found", "plain"),
            ("a%20b%25", "a b%", "escapes"),
            ("50%", "50%", "an escape cut off stays"),
            ("%zz", "%zz", "no hex stays"),
        ] {
            assert_eq!(percent_decode(text.as_bytes()), want, "{why}");
        }
    }
}
