//! The program itself: its ready line, its service manager, its signals, its port, and what it leaves when it refuses.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use common::program::{Running, keelson, member, port};

#[test]
fn it_is_ready_and_ends_and_comes_back_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (client, peer) = (port(), port());
    let socket = dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let args = member(dir.path(), client, peer);
    let (running, _) = Running::ready(keelson(&args).env("NOTIFY_SOCKET", &socket));
    let mut state = [0; 64];
    let len = manager.recv(&mut state).expect("the service manager hears of it");
    assert_eq!(&state[..len], b"READY=1");

    // A connection that is open when it ends keeps neither the program nor its port.
    let mut open = TcpStream::connect(("127.0.0.1", client)).expect("it listens");
    open.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n").expect("sent");
    let mut answer = [0; 12];
    open.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 200");
    running.end("TERM");

    let (again, _) = Running::ready(&mut keelson(&args));
    again.end("INT");
}

/// All paths below `dir` with their content.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("it is there") {
        let path = entry.expect("readable").path();
        let name = path.display().to_string();
        if path.is_dir() {
            found.extend(content(&path));
        }
        // Directories and sockets have a name only.
        let bytes = if path.is_file() { std::fs::read(&path).expect("readable") } else { Vec::new() };
        found.push((name, bytes));
    }
    found.sort();
    found
}

#[test]
fn what_it_refuses_it_says_and_leaves_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let used = dir.path().join("used");
    let args = member(&used, port(), port());
    let (running, _) = Running::ready(&mut keelson(&args));
    let taken = port();
    let _holder = TcpListener::bind(("127.0.0.1", taken)).expect("free");
    let with = |args: Vec<String>, more: &[&str]| -> Vec<String> {
        args.into_iter().chain(more.iter().map(|&word| word.to_owned())).collect()
    };
    let elsewhere = |name: &str| dir.path().join(name);
    let foreign = elsewhere("foreign");
    std::fs::create_dir_all(foreign.join("data")).expect("made");
    std::fs::write(foreign.join("data").join("notes.txt"), "precious").expect("written");
    let etcds = elsewhere("etcd");
    std::fs::create_dir_all(etcds.join("data").join("member")).expect("made");
    let socket = elsewhere("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let at_socket = format!("--listen-client-urls=unix://{}", socket.display());
    for (args, code, text, why) in [
        (vec!["--nonsense".to_owned()], 2, "nonsense", "no such flag"),
        (
            with(member(&elsewhere("a"), port(), port()), &["--cert-file=a", "--key-file=b"]),
            1,
            "cert-file",
            "TLS is not there yet",
        ),
        (
            with(member(&elsewhere("b"), port(), port()), &["--election-timeout=1"]),
            1,
            "election-timeout",
            "flags that do not fit together",
        ),
        (
            with(member(&elsewhere("c"), port(), port()), &["--initial-cluster-state=existing"]),
            1,
            "joining a cluster is not supported yet",
            "a member that cannot start",
        ),
        (args.clone(), 1, "in use by another process", "two on one directory"),
        (member(&used, port(), port()), 1, "in use by another process", "the same with other ports"),
        (member(&elsewhere("d"), taken, port()), 1, "cannot listen on", "two on one client port"),
        (member(&elsewhere("e"), port(), taken), 1, "cannot listen on", "two on one peer port"),
        (
            with(member(&elsewhere("f"), port(), port()), &["--listen-client-urls=http://203.0.113.7:2379"]),
            1,
            "cannot listen on http://203.0.113.7:2379",
            "another machine's address",
        ),
        (
            with(member(&elsewhere("g"), port(), port()), &[&at_socket]),
            1,
            "cannot listen on unix://",
            "two on one Unix socket",
        ),
        (member(&foreign, port(), port()), 1, "is not empty (notes.txt)", "somebody's directory"),
        (member(&etcds, port(), port()), 1, "is a data directory of etcd", "etcd's directory"),
    ] {
        // The one that runs writes on into its own.
        let watched = || -> Vec<_> {
            let used = used.display().to_string();
            content(dir.path()).into_iter().filter(|(name, _)| !name.starts_with(&used)).collect()
        };
        let before = watched();
        let output = keelson(&args).current_dir(dir.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{why}: {said}");
        assert!(said.contains(text), "{why}: {said}");
        let names = |content: &[(String, Vec<u8>)]| -> Vec<String> {
            content.iter().map(|(name, _)| name.clone()).collect()
        };
        let after = watched();
        assert_eq!(names(&before), names(&after), "{why}: it left something");
        assert!(before == after, "{why}: it changed something");
    }
    drop(listener);
    running.end("TERM");
}
