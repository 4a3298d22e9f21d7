//! The server process: started by a shell command, killed with SIGKILL, started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use prost::Message;

use crate::client::wire::{self, frame, path};
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;

/// Pause between two attempts to reach a server that is starting.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(2);
/// One attempt to read takes at most this.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Lines of the server's log shown when it did not start.
const LOG_LINES: usize = 5;

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `command` by `sh -c "exec COMMAND"`, its output appended to `log`.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the log cannot be written or there is no shell.
    pub(crate) fn start(command: &str, log: &Path) -> Result<Self, Failure> {
        let usage = |error: std::io::Error| Failure::Usage(format!("cannot start `{command}`: {error}"));
        let out = OpenOptions::new().create(true).append(true).open(log).map_err(usage)?;
        let errors = out.try_clone().map_err(usage)?;
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .spawn()
            .map_err(usage)?;
        Ok(Server { child, log: log.to_owned() })
    }

    /// Waits until it answers a linearizable read; returns the revision of the answer.
    ///
    /// # Errors
    /// [`Failure::Transport`] with the end of its log if it exits or does not answer within `patience`.
    pub(crate) async fn ready(&mut self, endpoint: &Endpoint, patience: Duration) -> Result<i64, Failure> {
        let until = clock::now() + patience;
        let mut last = Failure::Transport("not tried".to_owned());
        while clock::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Err(Failure::Transport(format!("the server exited, {status}: {}", self.log_end())));
            }
            match tokio::time::timeout(ATTEMPT_TIMEOUT, head_revision(endpoint)).await {
                Ok(Ok(revision)) => return Ok(revision),
                Ok(Err(failure)) => last = failure,
                Err(_) => last = Failure::Transport("a read took too long".to_owned()),
            }
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
        Err(Failure::Transport(format!("not ready in {} s ({last}): {}", patience.as_secs(), self.log_end())))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Whether it has ended without having been killed here, and how.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{status}: {}", self.log_end()))
    }

    fn log_end(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.kill();
    }
}

/// The current revision, by a linearizable read on a connection of its own.
///
/// # Errors
/// As the connection's.
pub(crate) async fn head_revision(endpoint: &Endpoint) -> Result<i64, Failure> {
    let mut connection = Connection::open(endpoint).await?;
    let request = wire::RangeRequest { key: "\0".into(), count_only: true, ..Default::default() };
    let answer = connection.unary(path::RANGE, frame(&request)).await?;
    Ok(wire::revision_of(&wire::RangeResponse::decode(answer)?.header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_server_that_exits_is_reported_with_its_log() {
        let directory = std::env::temp_dir().join(format!("keelson-load-test-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the log");
        let log = directory.join("log");
        let mut server = Server::start("echo no such flag; exit 3", &log).expect("a shell");
        let endpoint = "127.0.0.1:1".parse().expect("an endpoint");
        let failure = server.ready(&endpoint, Duration::from_secs(5)).await.expect_err("it never listens");
        let text = failure.to_string();
        std::fs::remove_dir_all(&directory).expect("made above");
        assert!(text.contains("exited") && text.contains("no such flag"), "{text}");
    }
}
