//! Rules about URLs: which defaults hold, what can be bound, what others are told, who is in the initial cluster.
//!
//! Lives here: the flags that hold URLs, taken together. Does not know: the syntax of one URL (`url`), or whether the
//! initial cluster fits this member (`bootstrap`).

use std::net::{IpAddr, SocketAddr};

use super::bootstrap::parse_members;
use super::error::ConfigError;
use super::flags::{DEFAULT_INITIAL_CLUSTER, Flags};
use super::given::{Given, broken_rule, setting_of};
use super::settings::InitialMember;
use super::support;
use super::url::{ListenUrl, Url, UrlList};

/// Where the settings come from, for the one rule that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Command line and environment.
    Words,
    /// The configuration file.
    File,
}

/// All URLs, final.
pub(crate) struct Addresses {
    pub(crate) listen_client: Vec<ListenUrl>,
    pub(crate) listen_client_http: Vec<ListenUrl>,
    pub(crate) listen_metrics: Vec<ListenUrl>,
    pub(crate) listen_peer: Vec<ListenUrl>,
    /// Sorted.
    pub(crate) advertise_client: Vec<String>,
    /// Sorted.
    pub(crate) advertise_peer: Vec<String>,
    pub(crate) initial_cluster: Vec<InitialMember>,
}

const DEFAULT_CLIENT_URL: &str = "http://localhost:2379";
const DEFAULT_PEER_URL: &str = "http://localhost:2380";

/// Completes and checks all URLs.
///
/// # Errors
/// [`ConfigError::Invalid`] if one cannot be bound or reached, or is missing; [`ConfigError::Unsupported`] if one needs
/// TLS.
pub(crate) fn resolve(
    flags: &Flags,
    given: &[Given],
    source: Source,
    default_host: impl FnOnce() -> Option<IpAddr>,
) -> Result<Addresses, ConfigError> {
    let is_set = |flag: &str| given.iter().any(|one| one.flag == flag);
    if source == Source::Words && is_set("listen-client-urls") && !is_set("advertise-client-urls") {
        return Err(broken_rule(
            given,
            "listen-client-urls",
            "--advertise-client-urls is required when --listen-client-urls is set explicitly".to_owned(),
        ));
    }
    let listen_client =
        or_default(given, "listen-client-urls", &flags.member.listen_client_urls, Some(DEFAULT_CLIENT_URL))?;
    let listen_client_http =
        or_default(given, "listen-client-http-urls", &flags.member.listen_client_http_urls, None)?;
    let listen_metrics =
        or_default(given, "listen-metrics-urls", &flags.monitoring.listen_metrics_urls, None)?;
    let listen_peer =
        or_default(given, "listen-peer-urls", &flags.member.listen_peer_urls, Some(DEFAULT_PEER_URL))?;
    let mut advertise_client = reachable(
        given,
        "advertise-client-urls",
        &flags.clustering.advertise_client_urls,
        DEFAULT_CLIENT_URL,
    )?;
    let mut advertise_peer = reachable(
        given,
        "initial-advertise-peer-urls",
        &flags.clustering.initial_advertise_peer_urls,
        DEFAULT_PEER_URL,
    )?;

    let peer_port = open_port(&listen_peer, &advertise_peer, DEFAULT_PEER_URL);
    let client_port = open_port(&listen_client, &advertise_client, DEFAULT_CLIENT_URL);
    if (peer_port.is_some() || client_port.is_some())
        && let Some(host) = default_host()
    {
        for (port, advertise) in [(peer_port, &mut advertise_peer), (client_port, &mut advertise_client)] {
            if let Some(port) = port {
                *advertise = UrlList(vec![tcp_url(host, port)]);
            }
        }
    }
    let initial_cluster = initial_cluster(flags, given, &advertise_peer)?;
    let addresses = Addresses {
        listen_client: bindable(given, "listen-client-urls", &listen_client)?,
        listen_client_http: bindable(given, "listen-client-http-urls", &listen_client_http)?,
        listen_metrics: bindable(given, "listen-metrics-urls", &listen_metrics)?,
        listen_peer: bindable(given, "listen-peer-urls", &listen_peer)?,
        advertise_client: texts(&advertise_client),
        advertise_peer: texts(&advertise_peer),
        initial_cluster,
    };
    check_distinct(&[
        ("listen-client-urls", &addresses.listen_client),
        ("listen-client-http-urls", &addresses.listen_client_http),
        ("listen-metrics-urls", &addresses.listen_metrics),
        ("listen-peer-urls", &addresses.listen_peer),
    ])?;
    Ok(addresses)
}

/// The URLs that are set, none of which may need TLS. An empty text keeps the default, as in etcd.
fn or_default(
    given: &[Given],
    flag: &str,
    urls: &UrlList,
    default: Option<&str>,
) -> Result<UrlList, ConfigError> {
    if let Some(url) = urls.0.iter().find(|url| url.scheme().is_secure()) {
        return Err(support::secure_url(setting_of(given, flag), url));
    }
    match default {
        Some(default) if urls.0.is_empty() => Ok(default.parse().expect("defaults are URLs")),
        _ => Ok(urls.clone()),
    }
}

/// The URLs that are set, each with a host that others can connect to.
fn reachable(given: &[Given], flag: &str, urls: &UrlList, default: &str) -> Result<UrlList, ConfigError> {
    let urls = or_default(given, flag, urls, Some(default))?;
    match urls.0.iter().find(|url| !url.scheme().is_unix() && url.host().is_empty()) {
        Some(url) => Err(broken_rule(
            given,
            flag,
            format!(
                r#"--{flag} must be "host:port" or "unix:/path/to/socket" (unexpected empty host ({url}))"#
            ),
        )),
        None => Ok(urls),
    }
}

/// The port of a listener on all interfaces whose advertised URL is still the default, which nobody else can reach.
fn open_port(listen: &UrlList, advertise: &UrlList, default: &str) -> Option<u16> {
    let first = listen.0.first()?;
    (first.host() == "0.0.0.0" && advertise.to_string() == default).then(|| first.port())
}

fn tcp_url(host: IpAddr, port: u16) -> Url {
    let text = format!("http://{}", SocketAddr::new(host, port));
    text.parse().expect("an address and a port are a URL")
}

/// The members of the initial cluster; a name of its own without a cluster makes a cluster of that member alone.
fn initial_cluster(
    flags: &Flags,
    given: &[Given],
    advertise_peer: &UrlList,
) -> Result<Vec<InitialMember>, ConfigError> {
    const FLAG: &str = "initial-cluster";
    let name = flags.member.name.as_str();
    let text = flags.clustering.initial_cluster.as_str();
    if text == DEFAULT_INITIAL_CLUSTER && name != "default" {
        // Without a name, etcd writes its default; `bootstrap` then misses the name.
        let name = if name.is_empty() { "default" } else { name };
        return Ok(vec![InitialMember { name: name.to_owned(), peer_urls: advertise_peer.0.clone() }]);
    }
    let members = parse_members(text)
        .map_err(|error| broken_rule(given, FLAG, format!("error setting up --initial-cluster: {error}")))?;
    let mut urls = members.iter().flat_map(|member| &member.peer_urls);
    match urls.find(|url| url.scheme().is_secure()) {
        Some(url) => Err(support::secure_url(setting_of(given, FLAG), url)),
        None => Ok(members),
    }
}

fn bindable(given: &[Given], flag: &str, urls: &UrlList) -> Result<Vec<ListenUrl>, ConfigError> {
    urls.0
        .iter()
        .map(|url| {
            ListenUrl::from_url(url).map_err(|error| broken_rule(given, flag, format!("--{flag}: {error}")))
        })
        .collect()
}

/// Two listeners cannot have the same address, unless the system chooses the port.
fn check_distinct(listeners: &[(&str, &Vec<ListenUrl>)]) -> Result<(), ConfigError> {
    for (position, (flag, urls)) in listeners.iter().enumerate() {
        for url in urls.iter().filter(|url| !matches!(url, ListenUrl::Tcp { port: 0, .. })) {
            if let Some((other, _)) =
                listeners[position + 1..].iter().find(|(_, others)| others.contains(url))
            {
                return Err(ConfigError::invalid(format!(
                    "cannot bind both --{flag} and --{other} on the same url {url}"
                )));
            }
        }
    }
    Ok(())
}

fn texts(urls: &UrlList) -> Vec<String> {
    urls.0.iter().map(|url| url.as_str().to_owned()).collect()
}
