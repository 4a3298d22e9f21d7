//! `/health`, and the checks behind `/livez` and `/readyz`.
//!
//! `/health` answers JSON with the first thing that is wrong. The other two run named checks, each of which
//! can be excluded or asked for alone; what fails is always listed, what is well only if `verbose`.

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use raft::request::{AlarmKind, Range};

use super::{PLAIN, View, error, not_found_page, refuse_method};

/// A check by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

const LIVEZ: &[Check] = &[Check::SerializableRead];
const READYZ: &[Check] =
    &[Check::DataCorruption, Check::SerializableRead, Check::LinearizableRead, Check::NonLearner];

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::DataCorruption => "data_corruption",
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }

    async fn run(self, view: &View) -> Result<(), String> {
        match self {
            Check::DataCorruption => {
                let corrupt = view.store.alarms().iter().any(|alarm| alarm.kind == AlarmKind::Corrupt);
                if corrupt { Err("alarm activated: CORRUPT".to_owned()) } else { Ok(()) }
            }
            Check::SerializableRead => read(view, true).await,
            Check::LinearizableRead => read(view, false).await,
            Check::NonLearner => {
                if view.store.status().is_learner {
                    Err("not supported for learner".to_owned())
                } else {
                    Ok(())
                }
            }
        }
    }
}

/// Reads the first key there is; gives the text of what went wrong.
async fn read(view: &View, serializable: bool) -> Result<(), String> {
    let first = Bytes::from_static(&[0]);
    let range = Range {
        key: first.clone(),
        range_end: first,
        limit: 1,
        keys_only: true,
        serializable,
        ..Range::default()
    };
    match tokio::time::timeout(view.request_timeout, view.store.range(range)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(crate::error::answer(&error).1.into_owned()),
        Err(_) => Err("context deadline exceeded".to_owned()),
    }
}

/// The parameters of a query.
struct Query(Vec<(String, String)>);

impl Query {
    fn new(query: Option<String>) -> Self {
        let pairs = query.unwrap_or_default();
        let split = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Query(pairs.split('&').filter(|pair| !pair.is_empty()).map(split).collect())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.all(name).any(|given| given == value)
    }
}

/// A word of a query as it was meant: `%2f` is a slash, `+` a blank. What is no such escape stays.
fn decoded(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = || u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok();
        match (first, escaped()) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) async fn health(State(view): State<View>, RawQuery(query): RawQuery, method: Method) -> Response {
    if let Some(refused) = refuse_method(&method) {
        tracing::warn!("status-code" = METHOD_NOT_ALLOWED, "/health error");
        return refused;
    }
    let query = Query::new(query);
    let serializable = query.all("serializable").next() == Some("true");
    match unhealthy(&view, &query, serializable).await {
        None => {
            view.metrics.health_success.inc();
            // Not called JSON: Go guesses the type from the text.
            let kind = HeaderValue::from_static("text/plain; charset=utf-8");
            ([(header::CONTENT_TYPE, kind)], r#"{"health":"true","reason":""}"#).into_response()
        }
        Some(reason) => {
            view.metrics.health_failures.inc();
            let reason = serde_json::to_string(&reason).expect("a string");
            let text = format!(r#"{{"health":"false","reason":{reason}}}"#);
            tracing::warn!(output = text, "status-code" = UNAVAILABLE, "/health error");
            error(StatusCode::SERVICE_UNAVAILABLE, &text)
        }
    }
}

async fn unhealthy(view: &View, query: &Query, serializable: bool) -> Option<String> {
    for alarm in view.store.alarms() {
        let name = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        };
        if !query.has("exclude", name) {
            tracing::warn!(alarm = name, "serving /health false due to an alarm");
            return Some(format!("ALARM {name}"));
        }
    }
    if !serializable && view.store.status().leader == 0 {
        tracing::warn!("serving /health false; no leader");
        return Some("RAFT NO LEADER".to_owned());
    }
    let error = read(view, serializable).await.err()?;
    tracing::warn!(error, "serving /health false; Range fails");
    Some(format!("RANGE ERROR:{error}"))
}

const METHOD_NOT_ALLOWED: u16 = 405;
const UNAVAILABLE: u16 = 503;

pub(super) async fn livez(State(view): State<View>, RawQuery(query): RawQuery, method: Method) -> Response {
    checks(&view, "livez", LIVEZ, query, &method).await
}

pub(super) async fn readyz(State(view): State<View>, RawQuery(query): RawQuery, method: Method) -> Response {
    checks(&view, "readyz", READYZ, query, &method).await
}

pub(super) async fn livez_check(
    State(view): State<View>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    method: Method,
) -> Response {
    one_check(&view, "livez", LIVEZ, &name, query, &method).await
}

pub(super) async fn readyz_check(
    State(view): State<View>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    method: Method,
) -> Response {
    one_check(&view, "readyz", READYZ, &name, query, &method).await
}

async fn one_check(
    view: &View,
    kind: &str,
    all: &[Check],
    name: &str,
    query: Option<String>,
    method: &Method,
) -> Response {
    match all.iter().find(|check| check.name() == name) {
        // Nothing can be excluded where one is asked for.
        Some(check) => {
            let asked = Asked { kind, path: &format!("/{kind}/{name}"), query: &Query::new(query) };
            run(view, &asked, &[*check], method).await
        }
        None => not_found_page(),
    }
}

async fn checks(view: &View, kind: &str, all: &[Check], query: Option<String>, method: &Method) -> Response {
    let query = Query::new(query);
    let wanted: Vec<Check> =
        all.iter().copied().filter(|check| !query.has("exclude", check.name())).collect();
    let is_missing = |name: &&str| !name.is_empty() && all.iter().all(|check| check.name() != *name);
    let missing: Vec<String> =
        query.all("exclude").filter(is_missing).map(|name| format!("{name:?}")).collect();
    if !missing.is_empty() {
        tracing::warn!("missing-health-checks" = missing.join(","), "some health checks cannot be excluded");
    }
    run(view, &Asked { kind, path: &format!("/{kind}"), query: &query }, &wanted, method).await
}

/// What was asked for: the kind of checks, the path as etcd logs it, and how.
struct Asked<'a> {
    kind: &'a str,
    path: &'a str,
    query: &'a Query,
}

async fn run(view: &View, asked: &Asked<'_>, wanted: &[Check], method: &Method) -> Response {
    let Asked { kind, path, query } = *asked;
    if let Some(refused) = refuse_method(method) {
        tracing::warn!(path, "status-code" = METHOD_NOT_ALLOWED, "Health request error");
        return refused;
    }
    let mut report = String::new();
    let mut well = true;
    for check in wanted {
        let name = check.name();
        let status = match check.run(view).await {
            Ok(()) => {
                report.push_str(&format!("[+]{name} ok\n"));
                "success"
            }
            Err(reason) => {
                report.push_str(&format!("[-]{name} failed: {reason}\n"));
                well = false;
                "error"
            }
        };
        view.metrics.health_checks.with_label_values(&[kind, name, status]).inc();
        view.metrics.health_check.with_label_values(&[kind, name]).set(i64::from(status == "success"));
    }
    if !well {
        tracing::error!(path, reason = report, "status-code" = UNAVAILABLE, "Health check error");
        return error(StatusCode::SERVICE_UNAVAILABLE, &report);
    }
    if query.all("verbose").next().is_none() {
        report.clear();
    }
    report.push_str("ok\n");
    (StatusCode::OK, PLAIN, report).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_split() {
        let query = Query::new(Some("verbose&exclude=a&exclude=b&serializable=true".to_owned()));
        assert!(query.all("verbose").next().is_some(), "a name without a value is there");
        assert!(query.has("exclude", "b"), "a name may come twice");
        assert!(!query.has("exclude", "c"));
        assert!(Query::new(None).0.is_empty());
    }

    #[test]
    fn words_are_decoded_as_go_decodes_them() {
        for (word, want, why) in [
            ("ver%62ose", "verbose", "an escape"),
            ("NO%53PACE", "NOSPACE", "in capitals"),
            ("a+b", "a b", "a blank"),
            ("%2", "%2", "cut off"),
            ("%zz%", "%zz%", "no digits"),
            ("%2fé", "/é", "beside what needs none"),
        ] {
            assert_eq!(decoded(word), want, "{word}: {why}");
        }
    }
}
