//! Section Security: TLS, none of which is supported yet (`support` refuses it by name), and what browsers may do.

use crate::config::allowed::Origins;
use crate::config::values::{Switch, Whole, Words};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Security")]
pub(crate) struct SecurityFlags {
    /// Certificate for clients.
    #[arg(long, default_value = "")]
    pub(crate) cert_file: String,
    /// Key of the certificate for clients.
    #[arg(long, default_value = "")]
    pub(crate) key_file: String,
    /// Demand a certificate from clients.
    #[arg(long, default_value = "false")]
    pub(crate) client_cert_auth: Switch,
    /// Certificate that the member itself shows as a client.
    #[arg(long, default_value = "")]
    pub(crate) client_cert_file: String,
    /// Key of the certificate that the member itself shows as a client.
    #[arg(long, default_value = "")]
    pub(crate) client_key_file: String,
    /// Revoked client certificates.
    #[arg(long, default_value = "")]
    pub(crate) client_crl_file: String,
    /// Host names a client certificate may carry.
    #[arg(long, default_value = "")]
    pub(crate) client_cert_allowed_hostname: Words,
    /// Certificates of the authorities to trust for clients.
    #[arg(long, default_value = "")]
    pub(crate) trusted_ca_file: String,
    /// Make certificates for clients at start.
    #[arg(long, default_value = "false")]
    pub(crate) auto_tls: Switch,
    /// Certificate for peers.
    #[arg(long, default_value = "")]
    pub(crate) peer_cert_file: String,
    /// Key of the certificate for peers.
    #[arg(long, default_value = "")]
    pub(crate) peer_key_file: String,
    /// Demand a certificate from peers.
    #[arg(long, default_value = "false")]
    pub(crate) peer_client_cert_auth: Switch,
    /// Certificate that the member itself shows to peers.
    #[arg(long, default_value = "")]
    pub(crate) peer_client_cert_file: String,
    /// Key of the certificate that the member itself shows to peers.
    #[arg(long, default_value = "")]
    pub(crate) peer_client_key_file: String,
    /// Certificates of the authorities to trust for peers.
    #[arg(long, default_value = "")]
    pub(crate) peer_trusted_ca_file: String,
    /// Common names a peer certificate may carry.
    #[arg(long, default_value = "")]
    pub(crate) peer_cert_allowed_cn: Words,
    /// Host names a peer certificate may carry.
    #[arg(long, default_value = "")]
    pub(crate) peer_cert_allowed_hostname: Words,
    /// Make certificates for peers at start.
    #[arg(long, default_value = "false")]
    pub(crate) peer_auto_tls: Switch,
    /// Revoked peer certificates.
    #[arg(long, default_value = "")]
    pub(crate) peer_crl_file: String,
    /// Do not compare a peer's address with the names in its certificate.
    #[arg(long, default_value = "false")]
    pub(crate) peer_skip_client_san_verification: Switch,
    /// Years that certificates made at start are valid.
    #[arg(long, default_value = "1")]
    pub(crate) self_signed_cert_validity: Whole,
    /// TLS cipher suites to allow.
    #[arg(long, default_value = "")]
    pub(crate) cipher_suites: Words,
    /// Oldest TLS version to allow: TLS1.2 or TLS1.3.
    #[arg(long, default_value = "TLS1.2")]
    pub(crate) tls_min_version: String,
    /// Newest TLS version to allow: TLS1.2 or TLS1.3.
    #[arg(long, default_value = "")]
    pub(crate) tls_max_version: String,
    /// Origins that browsers may call from, separated by commas; empty or * allows all.
    #[arg(long, default_value = "*")]
    pub(crate) cors: Origins,
    /// Host names that HTTP requests may be addressed to, separated by commas; empty or * allows all.
    #[arg(long, default_value = "*")]
    pub(crate) host_whitelist: String,
}
