//! Section Monitoring: metrics, profiles, traces.

use crate::config::url::UrlList;
use crate::config::values::{Signed, Switch};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Monitoring")]
pub(crate) struct MonitoringFlags {
    /// Serve the Go runtime's profiles under /debug/pprof/.
    #[arg(long, default_value = "false")]
    pub(crate) enable_pprof: Switch,
    /// Detail of the metrics: 'basic', or 'extensive' for histograms of each gRPC method.
    #[arg(long, default_value = "basic")]
    pub(crate) metrics: String,
    /// URLs to listen on for /metrics, /health, /livez and /readyz.
    #[arg(long, default_value = "")]
    pub(crate) listen_metrics_urls: UrlList,
    /// Send traces to an OpenTelemetry collector.
    #[arg(long, default_value = "false")]
    pub(crate) enable_distributed_tracing: Switch,
    /// Address of the collector.
    #[arg(long, default_value = "localhost:4317")]
    pub(crate) distributed_tracing_address: String,
    /// Name of the service in traces.
    #[arg(long, default_value = "etcd")]
    pub(crate) distributed_tracing_service_name: String,
    /// Id of this instance in traces.
    #[arg(long, default_value = "")]
    pub(crate) distributed_tracing_instance_id: String,
    /// Traces to take per million.
    #[arg(long, default_value = "0")]
    pub(crate) distributed_tracing_sampling_rate: Signed,
}
