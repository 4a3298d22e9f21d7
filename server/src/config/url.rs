//! URLs of members and listeners: `http://host:port`, `https://…`, `unix://path`, `unixs://…`.
//!
//! Lives here: their syntax, as etcd takes it, and the address to bind. Does not know: which flag a URL came from,
//! nor that TLS is missing (`refuse`).
//!
//! INVARIANTS
//! * A `Url`'s text is what identifies a member (`ids`), so it is kept as written but for the scheme's case.
//! * A `ListenUrl` can be bound as it is: no name is ever looked up; `localhost` is 127.0.0.1.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::values::ValueError;

/// How a URL is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// TCP in the clear.
    Http,
    /// TCP with TLS.
    Https,
    /// A Unix socket.
    Unix,
    /// A Unix socket with TLS.
    Unixs,
}

impl Scheme {
    /// Whether it needs certificates.
    pub fn is_secure(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Unixs)
    }

    /// Whether it names a Unix socket.
    pub fn is_unix(self) -> bool {
        matches!(self, Scheme::Unix | Scheme::Unixs)
    }
}

/// A URL, syntactically sound. Ordered by its text, as etcd sorts them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Url {
    text: String,
    scheme: Scheme,
    /// For TCP the host without brackets, may be empty; for Unix sockets empty.
    host: String,
    /// For TCP only; 0 lets the system choose.
    port: u16,
    /// For Unix sockets only; relative to the working directory unless it starts with `/`.
    path: PathBuf,
}

impl Url {
    /// As written, the scheme in lower case.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host without brackets; empty for a Unix socket.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 0 for a Unix socket.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Url {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let wrong_scheme =
            || ValueError::new(format!("URL scheme must be http, https, unix, or unixs: {text}"));
        let (scheme_text, rest) = text.split_once(':').ok_or_else(wrong_scheme)?;
        let scheme_text = scheme_text.to_ascii_lowercase();
        let scheme = match scheme_text.as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "unix" => Scheme::Unix,
            "unixs" => Scheme::Unixs,
            _ => return Err(wrong_scheme()),
        };
        if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(ValueError::new(format!("URL must not contain white space: {text}")));
        }
        if let Some(mark) = rest.chars().find(|&letter| letter == '?' || letter == '#') {
            return Err(ValueError::new(format!("URL must not contain {mark:?}: {text}")));
        }
        let normal = format!("{scheme_text}:{rest}");
        if scheme.is_unix() {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path.is_empty() {
                return Err(ValueError::new(format!("URL has no socket path: {text}")));
            }
            return Ok(Url { text: normal, scheme, host: String::new(), port: 0, path: PathBuf::from(path) });
        }
        let no_address =
            || ValueError::new(format!(r#"URL address does not have the form "host:port": {text}"#));
        let authority = rest.strip_prefix("//").ok_or_else(no_address)?;
        let (address, path) = match authority.find('/') {
            Some(slash) => authority.split_at(slash),
            None => (authority, ""),
        };
        if address.contains('@') {
            return Err(ValueError::new(format!("URL must not contain a user: {text}")));
        }
        let (host, port) = split_host_port(address).ok_or_else(no_address)?;
        if !path.is_empty() {
            return Err(ValueError::new(format!("URL must not contain a path: {text}")));
        }
        if host.chars().any(|letter| r#""<>\^`{|}"#.contains(letter)) {
            return Err(ValueError::new(format!("invalid character in host name: {text}")));
        }
        let digits_only = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = if digits_only { port.parse::<u16>().ok() } else { None }
            .ok_or_else(|| ValueError::new(format!("invalid port {port:?}: {text}")))?;
        Ok(Url { text: normal, scheme, host: host.to_owned(), port, path: PathBuf::new() })
    }
}

/// Splits `host:port` or `[v6]:port` at the last colon. `None` if there is no port, or an IPv6 address lacks its
/// brackets.
fn split_host_port(address: &str) -> Option<(&str, &str)> {
    if let Some(bracketed) = address.strip_prefix('[') {
        let (host, tail) = bracketed.split_once(']')?;
        return Some((host, tail.strip_prefix(':')?));
    }
    let (host, port) = address.rsplit_once(':')?;
    (!host.contains([':', '[', ']'])).then_some((host, port))
}

/// URLs separated by commas, sorted, each once. Empty text is an empty list; whether that means "the default" is the
/// flag's business.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UrlList(pub(crate) Vec<Url>);

impl FromStr for UrlList {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() {
            return Ok(UrlList::default());
        }
        let mut urls = text.split(',').map(Url::from_str).collect::<Result<Vec<_>, _>>()?;
        urls.sort();
        urls.dedup();
        Ok(UrlList(urls))
    }
}

impl fmt::Display for UrlList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, url) in self.0.iter().enumerate() {
            if position > 0 {
                out.write_str(",")?;
            }
            out.write_str(url.as_str())?;
        }
        Ok(())
    }
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenUrl {
    /// A TCP address.
    Tcp {
        /// An IP address, or `localhost`.
        host: String,
        /// 0 lets the system choose.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// Relative to the working directory unless it starts with `/`.
        path: PathBuf,
    },
}

impl ListenUrl {
    /// What to bind for `url`.
    ///
    /// # Errors
    /// If the host is neither an IP address nor `localhost`: what a name resolves to may change or be many.
    pub fn from_url(url: &Url) -> Result<ListenUrl, ValueError> {
        if url.scheme.is_unix() {
            return Ok(ListenUrl::Unix { path: url.path.clone() });
        }
        if url.host != "localhost" && url.host.parse::<IpAddr>().is_err() {
            return Err(ValueError::new(format!("expected IP in URL for binding ({url})")));
        }
        Ok(ListenUrl::Tcp { host: url.host.clone(), port: url.port })
    }

    /// The address to bind; `None` for a Unix socket.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            ListenUrl::Tcp { host, port } => {
                // Every other host was parsed when this value was made; localhost alone is a name.
                let ip = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
                Some(SocketAddr::new(ip, *port))
            }
            ListenUrl::Unix { .. } => None,
        }
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenUrl::Tcp { host, port } if host.contains(':') => write!(out, "http://[{host}]:{port}"),
            ListenUrl::Tcp { host, port } => write!(out, "http://{host}:{port}"),
            ListenUrl::Unix { path } => write!(out, "unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_is_etcds() {
        for (text, want, why) in [
            ("http://127.0.0.1:2379", Some("http://127.0.0.1:2379"), "plain"),
            ("  http://127.0.0.1:2379 ", Some("http://127.0.0.1:2379"), "white space around is cut"),
            ("HTTP://Host:1", Some("http://Host:1"), "only the scheme is lowered"),
            ("http://[::1]:2379", Some("http://[::1]:2379"), "IPv6 in brackets"),
            ("http://:80", Some("http://:80"), "no host: sound, though it cannot be bound"),
            ("http://127.0.0.1:0", Some("http://127.0.0.1:0"), "the system chooses"),
            ("https://1.2.3.4:8080", Some("https://1.2.3.4:8080"), "TLS is refused later, by name"),
            ("unix:///tmp/s.sock", Some("unix:///tmp/s.sock"), "absolute socket"),
            ("unix://127.0.0.5:1456", Some("unix://127.0.0.5:1456"), "a relative socket with a funny name"),
            ("unix:/tmp/s.sock", Some("unix:/tmp/s.sock"), "without slashes"),
            ("", None, "empty"),
            ("foo", None, "no scheme"),
            ("127.0.0.1:2379", None, "no scheme"),
            ("mailto://127.0.0.1:2379", None, "wrong scheme"),
            ("http://127.0.0.1", None, "no port"),
            ("http://127.0.0.1:", None, "empty port"),
            ("http://127.0.0.1:foo", None, "port is a word"),
            ("http://127.0.0.1:+80", None, "port has a sign"),
            ("http://127.0.0.1:99999", None, "port too large"),
            ("http://127.0.0.1:2379/path", None, "path"),
            ("http://127.0.0.1:2379/", None, "even an empty path"),
            ("http://::1:2379", None, "IPv6 without brackets"),
            ("http://[::1]2379", None, "no colon after the bracket"),
            ("http://user@127.0.0.1:2379", None, "user"),
            ("http://127.0.0.1:2379?a=b", None, "query"),
            ("http://a b:2379", None, "white space inside"),
            ("http:127.0.0.1:2379", None, "no slashes"),
            ("unix://", None, "no socket path"),
        ] {
            assert_eq!(text.parse::<Url>().ok().as_ref().map(Url::as_str), want, "{text:?}: {why}");
        }
    }

    #[test]
    fn lists_are_sorted_and_unique() {
        let list: UrlList = "http://b:2,http://a:1,http://b:2".parse().expect("sound");
        assert_eq!(list.to_string(), "http://a:1,http://b:2");
        assert_eq!("".parse::<UrlList>(), Ok(UrlList::default()));
        assert!("http://a:1,".parse::<UrlList>().is_err(), "a trailing comma is an empty URL");
    }

    #[test]
    fn only_addresses_can_be_bound() {
        for (text, want, why) in [
            ("http://127.0.0.1:1", Some("127.0.0.1:1"), "IPv4"),
            ("http://0.0.0.0:1", Some("0.0.0.0:1"), "all interfaces, asked for by name"),
            ("http://[::]:1", Some("[::]:1"), "IPv6"),
            ("http://localhost:1", Some("127.0.0.1:1"), "the one name that is allowed"),
            ("http://example.com:1", None, "a domain name"),
            ("http://:1", None, "no host"),
            ("http://127.1:1", None, "not a full address"),
        ] {
            let url: Url = text.parse().expect("sound");
            let got = ListenUrl::from_url(&url).ok().and_then(|listen| listen.socket_address());
            assert_eq!(got.map(|address| address.to_string()).as_deref(), want, "{text}: {why}");
        }
        for (text, path) in
            [("unix:///a/b", "/a/b"), ("unix://a/b", "a/b"), ("unix:c", "c"), ("unix:/d", "/d")]
        {
            let url: Url = text.parse().expect("sound");
            assert_eq!(ListenUrl::from_url(&url), Ok(ListenUrl::Unix { path: path.into() }), "{text}");
        }
    }
}
