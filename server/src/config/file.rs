//! The configuration file: YAML, or JSON, which is YAML.
//!
//! LAYOUT: one mapping. Keys are the flags' names in any case; a value has the flag's type, durations are whole
//! nanoseconds, lists of URLs are one text with commas. Four keys hold mappings of their own:
//! `client-transport-security`, `peer-transport-security`, `socket-options` and `discovery-config`.
//! A key that no flag has is ignored, as by etcd, but not without a warning.

use clap::CommandFactory;
use serde_norway::{Mapping, Value};

use super::error::ConfigError;
use super::flags::Flags;
use super::given::{Given, Origin};
use super::notice::Notice;
use super::values::{Kind, kind_of};

/// Keys of the mappings inside the file, with the flag that each one is.
const NESTED: [(&str, &[(&str, &str)]); 4] = [
    (
        "client-transport-security",
        &[
            ("cert-file", "cert-file"),
            ("key-file", "key-file"),
            ("client-cert-file", "client-cert-file"),
            ("client-key-file", "client-key-file"),
            ("client-cert-auth", "client-cert-auth"),
            ("trusted-ca-file", "trusted-ca-file"),
            ("auto-tls", "auto-tls"),
            ("allowed-cn", "client-cert-allowed-hostname"),
            ("allowed-hostname", "client-cert-allowed-hostname"),
        ],
    ),
    (
        "peer-transport-security",
        &[
            ("cert-file", "peer-cert-file"),
            ("key-file", "peer-key-file"),
            ("client-cert-file", "peer-client-cert-file"),
            ("client-key-file", "peer-client-key-file"),
            ("client-cert-auth", "peer-client-cert-auth"),
            ("trusted-ca-file", "peer-trusted-ca-file"),
            ("auto-tls", "peer-auto-tls"),
            ("allowed-cn", "peer-cert-allowed-cn"),
            ("allowed-hostname", "peer-cert-allowed-hostname"),
            ("skip-client-san-verification", "peer-skip-client-san-verification"),
        ],
    ),
    ("socket-options", &[("reuse-port", "socket-reuse-port"), ("reuse-address", "socket-reuse-address")]),
    ("discovery-config", &[("token", "discovery-token")]),
];

/// The settings that `text`, the content of a configuration file, makes, and notices of keys it ignores.
///
/// # Errors
/// [`ConfigError::Invalid`] if it is no mapping, or a value has not the type its flag takes.
pub(crate) fn settings(text: &str, notices: &mut Vec<Notice>) -> Result<Vec<Given>, ConfigError> {
    let document: Value = serde_norway::from_str(text).map_err(|error| {
        ConfigError::invalid(format!("the configuration file is neither YAML nor JSON: {error}"))
    })?;
    let mut settings = Vec::new();
    for (key, value) in &entries("the configuration file", document)? {
        let name = key.to_ascii_lowercase();
        if value.is_null() {
            continue;
        }
        if let Some((_, nested)) = NESTED.iter().find(|(outer, _)| *outer == name) {
            for (inner_key, inner_value) in &entries(&name, value.clone())? {
                let inner_name = inner_key.to_ascii_lowercase();
                if inner_value.is_null() {
                    continue;
                }
                match discovery_setting(&name, &inner_name, inner_value).or_else(|| {
                    nested.iter().find(|(known, _)| *known == inner_name).map(|(_, flag)| (*flag).to_owned())
                }) {
                    Some(flag) => add(&mut settings, &flag, format!("{key}.{inner_key}"), inner_value)?,
                    None => notices.push(unknown(&format!("{key}.{inner_key}"))),
                }
            }
            continue;
        }
        match name.as_str() {
            "version" | "config-file" => notices.push(unknown(key)),
            flag if is_flag(flag) => add(&mut settings, flag, key.clone(), value)?,
            _ => notices.push(unknown(key)),
        }
    }
    Ok(settings)
}

fn unknown(key: &str) -> Notice {
    Notice::Warning(format!("unknown key {key} in the configuration file; it is ignored"))
}

fn is_flag(name: &str) -> bool {
    Flags::command().get_arguments().any(|argument| argument.get_long() == Some(name))
}

/// The discovery service's endpoints stand one mapping deeper; only whether there are any matters.
fn discovery_setting(outer: &str, inner: &str, value: &Value) -> Option<String> {
    let has_endpoints =
        value.get("endpoints").and_then(Value::as_sequence).is_some_and(|list| !list.is_empty());
    (outer == "discovery-config" && inner == "client" && has_endpoints)
        .then(|| "discovery-endpoints".to_owned())
}

/// The entries of a mapping with text for keys; an empty document is an empty mapping.
fn entries(what: &str, value: Value) -> Result<Vec<(String, Value)>, ConfigError> {
    let mapping = match value {
        Value::Null => Mapping::new(),
        Value::Mapping(mapping) => mapping,
        other => return Err(wrong_type(what, "a mapping", &other)),
    };
    mapping
        .into_iter()
        .map(|(key, value)| match key {
            Value::String(key) => Ok((key, value)),
            other => Err(wrong_type("a key in the configuration file", "text", &other)),
        })
        .collect()
}

/// Adds the setting in the command line's notation.
fn add(settings: &mut Vec<Given>, flag: &str, key: String, value: &Value) -> Result<(), ConfigError> {
    let command = Flags::command();
    let kind = command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(flag))
        .map_or(Kind::Text, kind_of);
    let text = match (kind, value) {
        (Kind::Switch, Value::Bool(on)) => on.to_string(),
        // YAML 1.1, which etcd reads, has these as booleans; YAML 1.2 as text.
        (Kind::Switch, Value::String(word)) => match word.to_ascii_lowercase().as_str() {
            "yes" | "on" | "y" => "true".to_owned(),
            "no" | "off" | "n" => "false".to_owned(),
            _ => return Err(wrong_type(&key, "true or false", value)),
        },
        (Kind::Switch, _) => return Err(wrong_type(&key, "true or false", value)),
        (Kind::Number, Value::Number(number)) => {
            whole(number).ok_or_else(|| wrong_type(&key, "a whole number", value))?
        }
        (Kind::Number, _) => return Err(wrong_type(&key, "a number", value)),
        (Kind::Duration, Value::Number(number)) => {
            let nanoseconds =
                whole(number).ok_or_else(|| wrong_type(&key, "a whole number of nanoseconds", value))?;
            format!("{nanoseconds}ns")
        }
        (Kind::Duration, _) => {
            return Err(wrong_type(&key, "a whole number of nanoseconds (600000000000 for 10m)", value));
        }
        (Kind::List, Value::Sequence(items)) => words(&key, items)?,
        (Kind::List, Value::Mapping(_)) if flag == "discovery-endpoints" => "set".to_owned(),
        (Kind::List, _) => return Err(wrong_type(&key, "a list of texts", value)),
        (Kind::Text, Value::String(text)) => text.clone(),
        (Kind::Text, _) => return Err(wrong_type(&key, "text in quotes", value)),
    };
    settings.push(Given { flag: flag.to_owned(), value: text, origin: Origin::File(key) });
    Ok(())
}

/// The number without fraction, as text.
fn whole(number: &serde_norway::Number) -> Option<String> {
    if let Some(unsigned) = number.as_u64() {
        return Some(unsigned.to_string());
    }
    if let Some(signed) = number.as_i64() {
        return Some(signed.to_string());
    }
    let float = number.as_f64()?;
    // Up to 2^53 a float without fraction is exact.
    (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then(|| format!("{float:.0}"))
}

fn words(key: &str, items: &[Value]) -> Result<String, ConfigError> {
    let texts = items
        .iter()
        .map(|item| item.as_str().ok_or_else(|| wrong_type(key, "a list of texts", item)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(texts.join(","))
}

fn wrong_type(what: &str, wanted: &str, got: &Value) -> ConfigError {
    let got = match got {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Tagged(_) => "a tagged value",
    };
    ConfigError::invalid(format!("configuration file: {what} must be {wanted}, not {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_flags() {
        for (text, want, warned, why) in [
            ("", "", 0, "an empty file is all defaults"),
            ("name: a\ndata-dir: /d", "name=a data-dir=/d", 0, "texts"),
            ("NAME: a", "name=a", 0, "any case"),
            (r#"{"name":"a"}"#, "name=a", 0, "JSON"),
            ("name:", "", 0, "no value is the default"),
            ("name: yes", "name=yes", 0, "YAML 1.2 has no such boolean"),
            ("pre-vote: no", "pre-vote=false", 0, "but a switch takes it"),
            ("pre-vote: true", "pre-vote=true", 0, "boolean"),
            ("election-timeout: 2000.0", "election-timeout=2000", 0, "a float without fraction"),
            ("quota-backend-bytes: -1", "quota-backend-bytes=-1", 0, "negative"),
            (
                "watch-progress-notify-interval: 5000000000",
                "watch-progress-notify-interval=5000000000ns",
                0,
                "nanoseconds",
            ),
            ("log-outputs: [stderr, /a]", "log-outputs=stderr,/a", 0, "list"),
            ("no-such-key: 1\nname: a", "name=a", 1, "unknown keys are ignored"),
            ("version: true\nconfig-file: x", "", 2, "flags about the program mean nothing here"),
            ("client-transport-security: {cert-file: /c, bogus: 1}", "cert-file=/c", 1, "nested"),
            (
                "peer-transport-security: {auto-tls: true, allowed-cn: [a]}",
                "peer-auto-tls=true peer-cert-allowed-cn=a",
                0,
                "nested",
            ),
            ("peer-transport-security:", "", 0, "an empty nested mapping"),
            ("socket-options: {reuse-port: true}", "socket-reuse-port=true", 0, "etcd's name for it"),
            (
                "discovery-config: {token: t, client: {endpoints: [a]}}",
                "discovery-token=t discovery-endpoints=set",
                0,
                "deeper",
            ),
        ] {
            let mut notices = Vec::new();
            let settings = settings(text, &mut notices).expect(text);
            let got: Vec<String> = settings.iter().map(|one| format!("{}={}", one.flag, one.value)).collect();
            assert_eq!(got.join(" "), want, "{text}: {why}");
            assert_eq!(notices.len(), warned, "{text}: {why}: {notices:?}");
        }
    }

    #[test]
    fn types_are_demanded_as_etcd_demands_them() {
        for (text, want) in [
            ("[1, 2]", "must be a mapping, not a list"),
            ("name: x\n foo: [", "neither YAML nor JSON"),
            ("1: x", "must be text"),
            ("name: 5", "name must be text in quotes, not a number"),
            ("election-timeout: abc", "election-timeout must be a number, not text"),
            ("election-timeout: 1.5", "whole number"),
            ("watch-progress-notify-interval: 10m", "nanoseconds (600000000000 for 10m), not text"),
            ("pre-vote: \"false\"", "pre-vote must be true or false, not text"),
            ("pre-vote: 1", "pre-vote must be true or false, not a number"),
            ("log-outputs: stderr", "log-outputs must be a list of texts, not text"),
            ("log-outputs: [1]", "log-outputs must be a list of texts"),
            ("auto-compaction-retention: 5", "must be text in quotes"),
            ("feature-gates: {InitialCorruptCheck: true}", "must be text in quotes, not a mapping"),
            ("peer-transport-security: 3", "peer-transport-security must be a mapping"),
        ] {
            let error = settings(text, &mut Vec::new()).expect_err(text);
            assert_eq!(error.exit_code(), 1, "{text}");
            assert!(error.to_string().contains(want), "{text}: {error}");
        }
    }
}
