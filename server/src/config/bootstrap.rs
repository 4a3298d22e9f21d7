//! The first start of a member: who is in its cluster, and which ids that makes.
//!
//! Only for a member without data. One that has data goes by it, whatever the flags say, as etcd does; so these rules
//! are not applied when the configuration is loaded, but when whoever knows the data directory asks.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ConfigError;
use super::flags::ClusterState;
use super::ids;
use super::settings::{Config, InitialMember};
use super::url::Url;
use super::values::ValueError;

/// What a new cluster of one member starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootstrap {
    /// This member's id.
    pub member_id: u64,
    /// The cluster's id.
    pub cluster_id: u64,
    /// This member's peer URLs, sorted.
    pub peer_urls: Vec<String>,
}

impl Config {
    /// Checks that this member can start a cluster of its own, and computes the ids.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if `--initial-cluster` does not name this member with exactly the URLs it advertises,
    /// or names a URL twice; [`ConfigError::Unsupported`] if it names other members, or the member is to join a
    /// cluster that exists.
    pub fn bootstrap(&self) -> Result<Bootstrap, ConfigError> {
        let Some(myself) = self.initial_cluster.iter().find(|member| member.name == self.name) else {
            return Err(ConfigError::invalid_with_hint(
                format!("couldn't find local name {:?} in the initial cluster configuration", self.name),
                format!("--initial-cluster must contain {}=URL", self.name),
            ));
        };
        let listed: Vec<String> = myself.peer_urls.iter().map(|url| url.as_str().to_owned()).collect();
        if self.initial_cluster_state == ClusterState::New {
            self.check_advertised(&listed)?;
        }
        let mut seen = BTreeSet::new();
        if !self.initial_cluster.iter().flat_map(|member| &member.peer_urls).all(|url| seen.insert(url)) {
            return Err(ConfigError::invalid(format!(
                "initial cluster {} has duplicate url",
                pairs(&self.initial_cluster)
            )));
        }
        if self.initial_cluster_state == ClusterState::Existing {
            return Err(ConfigError::Unsupported {
                setting: "--initial-cluster-state=existing".to_owned(),
                reason:
                    "joining a cluster is not supported yet; a member without data can only start a new one"
                        .to_owned(),
            });
        }
        if self.initial_cluster.len() > 1 {
            return Err(ConfigError::Unsupported {
                setting: format!("--initial-cluster={}", pairs(&self.initial_cluster)),
                reason: format!(
                    "a cluster of {} members is not supported yet; name this member alone",
                    self.initial_cluster.len()
                ),
            });
        }
        let member_id = ids::member_id(&listed, &self.initial_cluster_token);
        Ok(Bootstrap { member_id, cluster_id: ids::cluster_id(&[member_id]), peer_urls: listed })
    }

    fn check_advertised(&self, listed: &[String]) -> Result<(), ConfigError> {
        let advertised = &self.initial_advertise_peer_urls;
        if let Some(missing) = listed.iter().find(|url| !advertised.contains(url)) {
            return Err(ConfigError::invalid_with_hint(
                format!(
                    "--initial-cluster has {}={missing} but missing from --initial-advertise-peer-urls={}",
                    self.name,
                    advertised.join(",")
                ),
                "they must list the same URLs for this member",
            ));
        }
        if let Some(missing) = advertised.iter().find(|url| !listed.contains(url)) {
            return Err(ConfigError::invalid_with_hint(
                format!(
                    "--initial-advertise-peer-urls has {missing} but missing from --initial-cluster={}",
                    pairs(&self.initial_cluster)
                ),
                "they must list the same URLs for this member",
            ));
        }
        Ok(())
    }
}

/// The members in the flag's notation.
fn pairs(members: &[InitialMember]) -> String {
    let pairs: Vec<String> = members
        .iter()
        .flat_map(|member| member.peer_urls.iter().map(move |url| format!("{}={url}", member.name)))
        .collect();
    pairs.join(",")
}

/// Reads `NAME=URL` pairs; a name that occurs again has one more URL. Members are sorted by name.
pub(crate) fn parse_members(text: &str) -> Result<Vec<InitialMember>, ValueError> {
    let mut members: BTreeMap<String, Vec<Url>> = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, url) = pair.split_once('=').unwrap_or((pair, ""));
        members.entry(name.to_owned()).or_default().push(url.parse()?);
    }
    Ok(members
        .into_iter()
        .map(|(name, mut peer_urls)| {
            peer_urls.sort();
            InitialMember { name, peer_urls }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_etcd_reads_them() {
        for (text, want, why) in [
            ("a=http://h:1", Some("a=http://h:1"), "one"),
            ("b=http://h:2,a=http://h:1", Some("a=http://h:1,b=http://h:2"), "sorted by name"),
            ("a=http://h:2,a=http://h:1", Some("a=http://h:1,a=http://h:2"), "two URLs of one member"),
            ("", Some(""), "none"),
            (",a=http://h:1,", Some("a=http://h:1"), "empty pairs are skipped"),
            ("a", None, "no URL"),
            ("a=", None, "an empty URL"),
            ("a=http://h/", None, "a malformed URL"),
        ] {
            assert_eq!(
                parse_members(text).ok().map(|members| pairs(&members)).as_deref(),
                want,
                "{text:?}: {why}"
            );
        }
    }
}
