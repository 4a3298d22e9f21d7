//! What the program logs, where to, and of which requests.

mod common;

use std::path::Path;
use std::process::Stdio;

use bytes::Bytes;
use common::Connection;
use common::clients::etcdserverpb::kv_client::KvClient;
use common::program::{Running, keelson, member, port};
use serde_json::Value;
use server::pb::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest, request_op};

/// Runs `test` with a client of the member that listens at `client`.
fn with_client(client: u16, test: impl AsyncFnOnce(KvClient<Connection>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let address = ([127, 0, 0, 1], client).into();
        test(KvClient::new(Connection::new(address).await)).await;
    });
}

fn put(key: &'static str, len: usize) -> PutRequest {
    PutRequest { key: Bytes::from(key), value: Bytes::from(vec![b'v'; len]), ..PutRequest::default() }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn started(dir: &Path, more: &[&str]) -> (u16, Vec<String>) {
    let client = port();
    let more = more.iter().map(|&word| word.to_owned());
    (client, member(dir, client, port()).into_iter().chain(more).collect())
}

#[test]
fn every_line_is_an_object_with_zaps_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, args) = started(dir.path(), &["--snapshot-count=5"]);
    let mut command = keelson(&args);
    command.envs([
        ("ETCD_BOGUS", "1"),
        ("ETCD_VERSION", "9"),
        ("ETCD_MAX_TXN_OPS", "100"),
        ("ETCD_DATA_DIR", "elsewhere"),
    ]);
    let (running, lines) = Running::ready(&mut command);
    running.end("TERM");
    let lines = lines.rest();
    for line in &lines {
        let object = parsed(line);
        assert!(line.starts_with(r#"{"level":""#), "the level comes first: {line}");
        let places: Vec<_> =
            ["ts", "caller", "msg"].iter().map(|key| line.find(&format!("\"{key}\":"))).collect();
        assert!(places.is_sorted() && places[0].is_some(), "then time, caller and message: {line}");
        let time = object["ts"].as_str().expect("text");
        assert!(time.len() == 27 && time.ends_with('Z'), "microseconds in UTC: {time}");
        let (file, number) =
            object["caller"].as_str().and_then(|caller| caller.rsplit_once(':')).expect("a caller");
        assert!(file.ends_with(".rs") && number.parse::<u32>().is_ok(), "{line}");
        assert_ne!(object["level"], "error", "nothing goes wrong: {line}");
    }
    for (message, key, value) in [
        ("cannot set special environment variable", "key", "ETCD_VERSION"),
        ("recognized and used environment variable", "variable-name", "ETCD_MAX_TXN_OPS"),
        ("unrecognized environment variable", "environment-variable", "ETCD_BOGUS=1"),
        (
            "conflicting environment variable is shadowed by corresponding command-line flag (either unset environment \
             variable or disable flag))",
            "environment-variable",
            "ETCD_DATA_DIR",
        ),
        ("serving client traffic insecurely; this is strongly discouraged!", "traffic", "grpc+http"),
    ] {
        let line = lines.iter().map(|line| parsed(line)).find(|line| line["msg"] == message);
        assert_eq!(
            line.unwrap_or_else(|| panic!("no line {message} in {lines:#?}"))[key],
            value,
            "{message}"
        );
    }
}

#[test]
fn slow_requests_are_told_of() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = ["--warning-apply-duration=1ns", "--warning-unary-request-duration=1ns"];
    let (client, args) = started(dir.path(), &limits);
    let (running, lines) = Running::ready(&mut keelson(&args));
    let op = |request| RequestOp { request: Some(request) };
    with_client(client, async |mut kv| {
        kv.put(put("a", 3)).await.expect("written");
        let all =
            RangeRequest { key: Bytes::from("a"), range_end: Bytes::from("b"), ..RangeRequest::default() };
        kv.range(all.clone()).await.expect("read");
        let reads =
            TxnRequest { failure: vec![op(request_op::Request::RequestRange(all))], ..TxnRequest::default() };
        kv.txn(reads).await.expect("read");
        let writes = TxnRequest {
            success: vec![op(request_op::Request::RequestPut(put("a", 5)))],
            ..TxnRequest::default()
        };
        kv.txn(writes).await.expect("written");
        kv.put(put("large", 100_000)).await.expect("written");
        kv.put(put("", 1)).await.expect_err("no key");
        kv.range(RangeRequest { key: Bytes::from("large"), ..RangeRequest::default() }).await.expect("read");
    });
    for (prefix, request, response, method, why) in [
        ("", r#"put:<key:"a" value_size:3>"#, "size:", "Put", "a write"),
        (
            "read-only range ",
            r#"key:"a" range_end:"b""#,
            "range_response_count:1 size:",
            "Range",
            "a read, with how much it read",
        ),
        (
            "read-only txn ",
            r#"compare:<> success:<> failure:<request_range:<key:"a" range_end:"b">>"#,
            "responses:<> size:",
            "Txn",
            "no comparison succeeds: nothing is read",
        ),
        (
            "",
            r#"txn:<compare:<> success:<request_put:<key:"a" value_size:5>> failure:<>>"#,
            "size:",
            "Txn",
            "a transaction that writes",
        ),
        ("", "/etcdserverpb.KV/Put (too large to be shown)", "size:", "Put", "too long to be kept"),
        ("", r#"put:<value_size:1>"#, "", "Put", "one that fails"),
        (
            "read-only range ",
            r#"key:"large""#,
            "range_response_count:1 size:100",
            "Range",
            "an answer too long to be kept",
        ),
    ] {
        let line = lines.find("apply request took too long");
        let object = parsed(&line);
        assert_eq!(
            (&object["level"], &object["expected-duration"]),
            (&"warn".into(), &"1ns".into()),
            "{line}"
        );
        assert_eq!(
            (&object["prefix"], &object["request"]),
            (&prefix.into(), &request.into()),
            "{why}: {line}"
        );
        assert!(object["response"].as_str().is_some_and(|text| text.starts_with(response)), "{why}: {line}");
        assert!(object["took"].as_str().is_some_and(|took| took.ends_with('s')), "{line}");
        let failed = object.get("error").is_some();
        assert_eq!(failed, why == "one that fails", "{line}");

        let line = lines.find("request stats");
        let object = parsed(&line);
        assert_eq!(object["response type"], format!("/etcdserverpb.KV/{method}"), "{why}: {line}");
        for key in
            ["start time", "time spent", "request count", "request size", "response count", "response size"]
        {
            assert!(object.get(key).is_some(), "{key}: {line}");
        }
        assert!(object["remote"].as_str().is_some_and(|remote| remote.starts_with("127.0.0.1:")), "{line}");
        assert!(!line.contains("vvv"), "no value is shown: {line}");
    }
    running.end("TERM");
}

#[test]
fn a_line_goes_to_every_output_and_a_full_file_is_put_aside() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keelson.log");
    let outputs = format!("--log-outputs=stdout,stderr,{}", file.display());
    let more = [
        &outputs,
        "--enable-log-rotation",
        r#"--log-rotation-config-json={"maxsize":1,"maxbackups":1,"compress":true}"#,
        "--warning-apply-duration=1ns",
    ];
    let (client, args) = started(dir.path(), &more);
    let copy = dir.path().join("stdout");
    let stdout = std::fs::OpenOptions::new().create(true).append(true).open(&copy).expect("made");
    let (running, lines) = Running::ready(keelson(&args).stdout(Stdio::from(stdout)));
    let ready = lines.find("ready to serve client requests");
    for place in [&copy, &file] {
        let text = std::fs::read_to_string(place).expect("written");
        assert!(text.lines().any(|line| line == ready), "{}: {text}", place.display());
    }
    // A line for each makes more than two megabytes.
    with_client(client, async |mut kv| {
        let long = PutRequest { key: Bytes::from(vec![b'k'; 30_000]), ..PutRequest::default() };
        for _ in 0..80 {
            kv.put(long.clone()).await.expect("written");
        }
    });
    running.end("TERM");
    let mut aside: Vec<String> = std::fs::read_dir(dir.path())
        .expect("it is there")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("keelson-"))
        .collect();
    aside.sort();
    assert!(
        !aside.is_empty() && aside.len() <= 3,
        "two were put aside, one or both may be tidied: {aside:?}"
    );
    assert!(
        std::fs::metadata(&file).expect("there").len() <= 1 << 20,
        "the file that is written is small again"
    );
}

#[test]
fn lines_for_people_have_columns() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, args) = started(dir.path(), &["--log-format=console", "--log-level=info"]);
    let (running, lines) = Running::ready(&mut keelson(&args));
    let line = lines.find("ready to serve client requests");
    let columns: Vec<&str> = line.split('\t').collect();
    assert_eq!(
        (columns.len(), columns[1], columns[3]),
        (5, "info", "ready to serve client requests"),
        "{line}"
    );
    assert!(columns[4].starts_with(r#"{"name": "default", "#), "{line}");
    running.end("TERM");
}
