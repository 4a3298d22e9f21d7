//! The program in a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// A free port that no other test of this process is given. They lie below those that the system gives to outgoing
/// connections, and begin elsewhere in each process.
pub fn port() -> u16 {
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

/// The program with `args`, and nothing else of the tests' environment.
pub fn keelson(args: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keelson"));
    command.args(args).env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// What a member on `dir` is started with.
pub fn member(dir: &Path, client: u16, peer: u16) -> Vec<String> {
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
pub struct Running(Child);

impl Running {
    /// Starts it and waits for the line that tools wait for; gives all lines from the first on, as they come.
    pub fn ready(command: &mut Command) -> (Running, Lines) {
        let mut running = Running(command.spawn().expect("it runs"));
        let stderr = running.0.stderr.take().expect("piped");
        let mut text = String::new();
        let mut lines = BufReader::new(stderr);
        while !text.contains("ready to serve client requests") {
            assert!(lines.read_line(&mut text).expect("text") > 0, "it ended before it was ready:\n{text}");
        }
        // Read on, so that the program can go on writing.
        let (told, all) = mpsc::channel();
        let read = move || {
            for line in text.lines() {
                let _ = told.send(line.to_owned());
            }
            for line in lines.lines().map_while(Result::ok) {
                let _ = told.send(line);
            }
        };
        std::thread::Builder::new().spawn(read).expect("a thread");
        (running, Lines(all))
    }

    /// Ends it by `signal`; panics if that does not end it well.
    pub fn end(mut self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0), "{signal} ends it well");
    }
}

/// Lines of its log.
pub struct Lines(mpsc::Receiver<String>);

impl Lines {
    /// Waits for the next line that has `part` in it; skips those before.
    pub fn find(&self, part: &str) -> String {
        loop {
            let line = self.0.recv_timeout(Duration::from_secs(20));
            let line = line.unwrap_or_else(|error| panic!("no line with {part}: {error}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// All that there are once the program has ended.
    pub fn rest(self) -> Vec<String> {
        self.0.iter().collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if all is well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
