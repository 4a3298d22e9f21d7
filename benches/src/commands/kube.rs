//! `kubemix`: options made into a cluster's run.

use super::print;
use crate::cli::KubeArgs;
use crate::client::Failure;
use crate::kube::rates::Cluster;
use crate::kube::report::Report;
use crate::kube::run::{self, Options};

/// Nodes for each pod started a second.
const NODES_BY_CHURN: f64 = 250.0;

pub(super) async fn kubemix(args: &KubeArgs) -> Result<bool, Failure> {
    let churn = args.churn.unwrap_or(f64::from(args.nodes) / NODES_BY_CHURN);
    if !churn.is_finite() || churn < 0.0 {
        return Err(Failure::Usage(format!("--churn {churn} is no rate")));
    }
    let report = run::run(&Options {
        endpoint: args.endpoint.clone(),
        cluster: Cluster {
            nodes: args.nodes as usize,
            churn,
            apiservers: args.apiservers.into(),
            leaders: args.leaders.into(),
            scan_seconds: args.scan_seconds,
            compact_seconds: args.compact_seconds,
        },
        seconds: args.seconds,
        storm: args.storm,
        seed: args.seed,
        server_pid: args.server_pid,
    })
    .await?;
    print(&report, args.json, Report::text)?;
    Ok(report.errors == 0)
}
