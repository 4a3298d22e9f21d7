//! The program itself: its ready line, its service manager, its signals, its port.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A port that was free a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("some port is free").local_addr().expect("bound").port()
}

fn keelson(args: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keelson"));
    command.args(args).env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

fn member(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    [
        format!("--data-dir={}", dir.join("data").display()),
        format!("--listen-client-urls=http://127.0.0.1:{client}"),
        format!("--advertise-client-urls=http://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
    ]
    .to_vec()
}

/// Waits for the line that tools wait for; gives what came with it.
fn wait_until_ready(child: &mut Child) -> String {
    let stderr = child.stderr.take().expect("piped");
    let mut text = String::new();
    let mut lines = BufReader::new(stderr);
    while !text.contains("ready to serve client requests") {
        assert!(lines.read_line(&mut text).expect("text") > 0, "it ended before it was ready:\n{text}");
    }
    // Read on, so that the program can go on writing.
    std::thread::Builder::new().spawn(move || lines.read_to_end(&mut Vec::new())).expect("a thread");
    text
}

fn end(mut child: Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{signal} ends it well");
}

#[test]
fn it_is_ready_and_ends_and_comes_back_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (client, peer) = (port(), port());
    let socket = dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let args = member(dir.path(), client, peer);
    let mut child = keelson(&args).env("NOTIFY_SOCKET", &socket).spawn().expect("it runs");
    wait_until_ready(&mut child);
    let mut state = [0; 64];
    let len = manager.recv(&mut state).expect("the service manager hears of it");
    assert_eq!(&state[..len], b"READY=1");

    // A connection that is open when it ends keeps neither the program nor its port.
    let mut open = TcpStream::connect(("127.0.0.1", client)).expect("it listens");
    open.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n").expect("sent");
    let mut answer = [0; 12];
    open.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 200");
    end(child, "TERM");

    let mut again = keelson(&args).spawn().expect("it runs");
    wait_until_ready(&mut again);
    end(again, "INT");
}

#[test]
fn what_it_cannot_do_it_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = member(dir.path(), port(), port());
    let mut running = keelson(&args).spawn().expect("it runs");
    wait_until_ready(&mut running);
    let taken: u16 = port();
    let _holder = TcpListener::bind(("127.0.0.1", taken)).expect("free");
    let elsewhere = tempfile::tempdir().expect("a directory");
    for (args, code, text, why) in [
        (vec!["--nonsense".to_owned()], 2, "nonsense", "no such flag"),
        (
            [args.clone(), vec!["--cert-file=a".to_owned(), "--key-file=b".to_owned()]].concat(),
            1,
            "cert-file",
            "TLS is not there yet",
        ),
        (args, 1, "in use by another process", "two on one directory"),
        (member(elsewhere.path(), taken, port()), 1, "cannot listen on", "two on one port"),
    ] {
        let output = keelson(&args).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{why}: {said}");
        assert!(said.contains(text), "{why}: {said}");
    }
    end(running, "TERM");
}
