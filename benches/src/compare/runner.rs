//! Runs the cases: starts each server on an empty directory, fills it, runs the group's loads, kills it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::cases::{Case, Group, Run};
use super::machine::{Machine, Others, load_average};
use super::samples::{Comparison, Sample, Side};
use crate::client::{Endpoint, Failure};
use crate::load::process::sample;
use crate::rounds::server::Server;

/// How long a server may take to start.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// Between filling a store and the first load.
const SETTLE: Duration = Duration::from_secs(2);
/// How often a load's end is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// One of the two programs.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The binary.
    pub(crate) binary: PathBuf,
    /// Further flags.
    pub(crate) flags: Vec<String>,
}

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// etcd.
    pub(crate) etcd: Program,
    /// Keelson.
    pub(crate) keelson: Program,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Seconds of one load.
    pub(crate) seconds: f64,
    /// The stores' sizes.
    pub(crate) sizes: Vec<u64>,
    /// Where both keep their data, one after the other, and their logs.
    pub(crate) directory: PathBuf,
    /// Port of the clients; the next one is the peers'.
    pub(crate) port: u16,
}

impl Options {
    fn program(&self, side: Side) -> &Program {
        if side == Side::Etcd { &self.etcd } else { &self.keelson }
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self, side: Side) -> PathBuf {
        self.directory.join(format!("{}.log", side.name()))
    }

    /// The shell command that starts a server.
    fn command(&self, side: Side) -> String {
        let program = self.program(side);
        let (client, peer) = (self.endpoint(), format!("http://127.0.0.1:{}", self.port + 1));
        let mut words = vec![
            program.binary.display().to_string(),
            "--data-dir".to_owned(),
            self.data().display().to_string(),
        ];
        for (flag, value) in [
            ("--listen-client-urls", client.as_str()),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("default={peer}")),
            ("--log-level", "error"),
        ] {
            words.extend([flag.to_owned(), value.to_owned()]);
        }
        words.extend(program.flags.iter().cloned());
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What a program says of itself: the line with its own name, else the first.
fn version(program: &Program) -> Result<String, Failure> {
    let output = Command::new(&program.binary)
        .arg("--version")
        .output()
        .map_err(|error| Failure::Usage(format!("cannot run `{}`: {error}", program.binary.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = text.lines().find(|line| line.starts_with("Keelson Version"));
    Ok(own.or(text.lines().next()).unwrap_or("unknown").to_owned())
}

/// Bytes that a directory takes on the disk.
fn disk_bytes(directory: &Path) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            Err(_) => 0,
        })
        .sum()
}

/// A load in a process of its own. Dropping it kills it.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs this program with `words`; its report, or why there is none. Failed calls are no reason: the report has them.
async fn load(directory: &Path, words: &[String]) -> Result<Value, Failure> {
    let (report, complaint) = (directory.join("report.json"), directory.join("complaint.txt"));
    let create = |path: &Path| OpenOptions::new().create(true).write(true).truncate(true).open(path);
    let mut child = Load(
        Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::null())
            .stdout(create(&report)?)
            .stderr(create(&complaint)?)
            .spawn()?,
    );
    while child.0.try_wait()?.is_none() {
        tokio::time::sleep(GLANCE).await;
    }
    let said = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&said(&report))
        .map_err(|_| Failure::Transport(format!("no report: {}", said(&complaint).trim())))
}

/// Why a report is of no use: failed calls.
fn failure(report: &Value) -> Option<String> {
    let errors = report.get("errors")?.as_u64()?;
    (errors > 0).then(|| format!("{errors} errors: {}", report["error_kinds"]))
}

/// Runs a case on a running server.
async fn run_case(
    options: &Options,
    side: Side,
    server: &mut Server,
    case: &Case,
) -> Result<(Value, Option<f64>), Failure> {
    let pid = server.pid();
    match &case.run {
        Run::Load(words) => {
            let mut words = words.clone();
            for word in ["--json", "--endpoint", &options.endpoint(), "--server-pid", &pid.to_string()] {
                words.push(word.to_owned());
            }
            let others = Others::begin(Some(pid));
            let report = load(&options.directory, &words).await?;
            Ok((report, others.cores()))
        }
        Run::Restart => {
            let resident = sample(&pid.to_string())?.resident_bytes;
            server.kill()?;
            let data = disk_bytes(&options.data());
            let words = [
                "start-time",
                "--json",
                "--endpoint",
                &options.endpoint(),
                "--server-log",
                &options.log(side).display().to_string(),
                "--server-cmd",
                &options.command(side),
            ];
            let words = words.map(str::to_owned);
            let mut report = load(&options.directory, &words).await?;
            report["data_bytes"] = json!(data);
            report["resident_bytes"] = json!(resident);
            Ok((report, None))
        }
    }
}

fn figures(case: &Case, report: &Value) -> BTreeMap<String, f64> {
    case.figures
        .iter()
        .filter_map(|figure| Some((figure.name.to_owned(), (figure.read)(report)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// Runs a group on a fresh server.
///
/// # Errors
/// [`Failure`] if the server does not start or cannot be filled: nothing further makes sense then.
async fn run_group(options: &Options, side: Side, group: &Group, round: u32) -> Result<Vec<Sample>, Failure> {
    let endpoint: Endpoint = options.endpoint().parse().map_err(Failure::Usage)?;
    // What the server before has left to be written should not meet this one's loads.
    let _ = Command::new("sync").status();
    let mut server = Server::start(&options.command(side), &options.log(side))?;
    server.ready(&endpoint, READY_PATIENCE).await?;
    if let Some(keys) = group.fill {
        let keys = keys.to_string();
        let words = ["load", "--keys", &keys, "--connections", "4", "--calls", "2", "--json", "--endpoint"];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.push(options.endpoint());
        if let Some(failure) = failure(&load(&options.directory, &words).await?) {
            return Err(Failure::Transport(format!("filling {}: {failure}", side.name())));
        }
        tokio::time::sleep(SETTLE).await;
    }
    let mut samples = Vec::new();
    for case in &group.cases {
        let (figures, failure, others_cores) = match run_case(options, side, &mut server, case).await {
            Ok((report, others)) => match failure(&report) {
                Some(failure) => (BTreeMap::new(), Some(failure), others),
                None => (figures(case, &report), None, others),
            },
            Err(failure) => (BTreeMap::new(), Some(failure.to_string()), None),
        };
        if let Some(failure) = &failure {
            eprintln!("  {} of {}: {failure}", case.id(), side.name());
        }
        samples.push(Sample { case: case.id(), side, round, figures, failure, others_cores });
    }
    server.kill()?;
    Ok(samples)
}

/// Runs all rounds; `keep` gets what there is after each.
///
/// # Errors
/// [`Failure`] if a program is of no use. Loads that fail are samples without figures.
pub(crate) async fn run(
    options: &Options,
    groups: &[Group],
    mut keep: impl FnMut(&Comparison) -> Result<(), Failure>,
) -> Result<Comparison, Failure> {
    let versions = [Side::Etcd, Side::Keelson].map(|side| Ok((side, version(options.program(side))?)));
    let mut comparison = Comparison {
        machine: Machine::this(),
        versions: versions.into_iter().collect::<Result<_, Failure>>()?,
        rounds: 0,
        seconds: options.seconds,
        sizes: options.sizes.clone(),
        loads: Vec::new(),
        samples: Vec::new(),
    };
    fs::create_dir_all(&options.directory)?;
    for round in 1..=options.rounds {
        for (at, group) in groups.iter().enumerate() {
            let order = if (round as usize + at).is_multiple_of(2) {
                [Side::Keelson, Side::Etcd]
            } else {
                [Side::Etcd, Side::Keelson]
            };
            for side in order {
                let names: Vec<&str> = group.cases.iter().map(|case| case.name).collect();
                eprintln!("round {round} of {}, {}: {}", options.rounds, side.name(), names.join(" "));
                remove(&options.data())?;
                let samples = run_group(options, side, group, round).await;
                remove(&options.data())?;
                comparison.samples.extend(samples?);
            }
        }
        comparison.rounds = round;
        comparison.loads.push(load_average());
        keep(&comparison)?;
    }
    Ok(comparison)
}

fn remove(directory: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        for word in ["plain", "two words", "it's", "$HOME;`x`"] {
            let output = Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(word))).output();
            assert_eq!(String::from_utf8_lossy(&output.expect("a shell").stdout), word);
        }
    }

    #[test]
    fn a_report_with_errors_is_a_failure() {
        assert_eq!(failure(&json!({"errors": 0, "error_kinds": {}})), None);
        let failed = failure(&json!({"errors": 2, "error_kinds": {"gone": 2}}));
        assert_eq!(failed.as_deref(), Some("2 errors: {\"gone\":2}"));
        assert_eq!(failure(&json!({"start_ms": [1.5]})), None, "a report that counts none");
    }
}
