//! Workload, model and checkers against a running server of etcd's API.
//!
//! The run is cut into windows that are judged one after the other, so memory does not grow with its length. It
//! goes on after a violation, from what the server said there is, until there are many or the judge has lost track.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;
use tonic::transport::{Channel, Endpoint};

use crate::checkers::{self, Judge, Violation};
use crate::cli::Arguments;
use crate::history::{History, Outcome};
use crate::op::Request;
use crate::workload::{self, Session};

/// Operations of a window.
const WINDOW: u64 = 20_000;

/// Connections, over which the clients are spread.
const CONNECTIONS: u32 = 4;

/// So many violations are enough.
const VIOLATIONS_MAX: usize = 20;

/// What a run found, as it is printed.
#[derive(Debug, Default, Serialize)]
struct Summary {
    endpoint: String,
    profile: String,
    seed: u64,
    clients: u32,
    operations: u64,
    answered: u64,
    refused: u64,
    unknown: u64,
    /// Operations by kind.
    kinds: BTreeMap<&'static str, u64>,
    /// Refusals by text.
    refusals: BTreeMap<String, u64>,
    revisions: i64,
    watch_streams: u64,
    watch_resumed: u64,
    watch_messages: u64,
    watch_events: u64,
    windows: u64,
    seconds: f64,
    violations: Vec<Found>,
    /// Why the run could not begin, or go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// A violation, as it is printed.
#[derive(Debug, Serialize)]
struct Found {
    guarantee: &'static str,
    message: String,
    revision: Option<i64>,
    window: Vec<String>,
}

/// Runs the workload of `arguments` against its endpoint and prints a summary as JSON. Fails with 1 if a guarantee
/// was violated and with 2 if it could not be run.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("simtest: no runtime: {error}");
            return ExitCode::from(2);
        }
    };
    let summary = runtime.block_on(judge(arguments));
    match serde_json::to_string_pretty(&summary) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("simtest: the summary can't be written: {error}"),
    }
    if !summary.violations.is_empty() {
        ExitCode::from(1)
    } else if summary.failure.is_some() {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}

async fn judge(arguments: &Arguments) -> Summary {
    let url = arguments.endpoint.clone().unwrap_or_default();
    let mut summary = Summary {
        endpoint: url.clone(),
        profile: format!("{:?}", arguments.profile).to_lowercase(),
        seed: arguments.seed,
        clients: arguments.clients,
        ..Summary::default()
    };
    let channels = match channels(&url, arguments.clients) {
        Ok(channels) => channels,
        Err(error) => {
            summary.failure = Some(format!("{url:?} is no endpoint: {error}"));
            return summary;
        }
    };
    let options = workload::Options { clients: arguments.clients, ..workload::Options::default() };
    let mut session = Session::new(channels, arguments.profile, arguments.seed, options);
    if let Err(unfit) = session.open().await {
        summary.failure = Some(unfit.to_string());
        return summary;
    }
    let mut judge = Judge::new(checkers::Options::default());
    while summary.operations < arguments.operations && summary.violations.len() < VIOLATIONS_MAX {
        let operations = WINDOW.min(arguments.operations - summary.operations);
        let history = session.window(operations).await;
        summary.operations += operations;
        summary.count(&history);
        let violations = judge.window(&history);
        summary.violations.extend(violations.into_iter().map(Found::from));
        summary.seconds = session.clock().elapsed().as_secs_f64();
        if judge.has_lost_track(&history) {
            summary.failure = Some("what happened is not known well enough to go on".to_owned());
            break;
        }
        eprintln!(
            "simtest: {} operations, {} revisions, {} watch events, {:.1} s",
            summary.operations, summary.revisions, summary.watch_events, summary.seconds
        );
    }
    session.clean().await;
    summary
}

fn channels(url: &str, clients: u32) -> Result<Vec<Channel>, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?.tcp_nodelay(true).http2_adaptive_window(true);
    Ok((0..clients.clamp(1, CONNECTIONS)).map(|_| endpoint.connect_lazy()).collect())
}

impl Summary {
    fn count(&mut self, history: &History) {
        self.windows += 1;
        for operation in &history.operations {
            *self.kinds.entry(kind(&operation.request)).or_default() += 1;
            match &operation.outcome {
                Outcome::Answered(_) => self.answered += 1,
                Outcome::Unknown(refusal) => {
                    self.unknown += 1;
                    *self.refusals.entry(refusal.text.clone()).or_default() += 1;
                }
                Outcome::Refused(refusal) => {
                    self.refused += 1;
                    *self.refusals.entry(refusal.text.clone()).or_default() += 1;
                }
            }
        }
        self.revisions += history.final_revision.unwrap_or(history.first_revision) - history.first_revision;
        self.watch_streams += history.streams.len() as u64;
        self.watch_resumed += history.resumed.len() as u64;
        for (_, message) in history.streams.iter().flat_map(|stream| &stream.messages) {
            self.watch_messages += 1;
            self.watch_events += message.events.len() as u64;
        }
    }
}

impl From<Violation> for Found {
    fn from(violation: Violation) -> Found {
        let Violation { guarantee, message, revision, window } = violation;
        Found { guarantee, message, revision, window }
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Range(_) => "range",
        Request::RangeStream(_) => "range_stream",
        Request::Put(_) => "put",
        Request::Delete(_) => "delete",
        Request::Txn(_) => "txn",
        Request::Compact { .. } => "compact",
        Request::Grant { .. } => "lease_grant",
        Request::Revoke { .. } => "lease_revoke",
        Request::KeepAlive { .. } => "lease_keep_alive",
        Request::TimeToLive { .. } => "lease_time_to_live",
        Request::Leases => "lease_leases",
    }
}
