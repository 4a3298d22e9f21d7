//! The program itself: its ready line, its service manager, its signals, its port, and what it leaves when it refuses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// A free port that no other test of this process is given. They lie below those that the system gives to outgoing
/// connections, and begin elsewhere in each process.
fn port() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 16_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).expect("below the count");
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < COUNT, "no port is free");
        let port = FIRST + (start + step) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
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

/// A program that runs; killed if the test fails before it ends well.
struct Running(Child);

impl Running {
    /// Starts it and waits for the line that tools wait for; gives what came with it.
    fn ready(command: &mut Command) -> (Running, String) {
        let mut running = Running(command.spawn().expect("it runs"));
        let stderr = running.0.stderr.take().expect("piped");
        let mut text = String::new();
        let mut lines = BufReader::new(stderr);
        while !text.contains("ready to serve client requests") {
            assert!(lines.read_line(&mut text).expect("text") > 0, "it ended before it was ready:\n{text}");
        }
        // Read on, so that the program can go on writing.
        std::thread::Builder::new().spawn(move || lines.read_to_end(&mut Vec::new())).expect("a thread");
        (running, text)
    }

    fn end(mut self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0), "{signal} ends it well");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if all is well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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
