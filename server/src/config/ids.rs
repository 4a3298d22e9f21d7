//! Ids of members and clusters, by etcd's rule, so that a Keelson started with an etcd's flags has that etcd's ids.
//!
//! Member of a new cluster: the first 8 bytes, big-endian, of SHA-1 over its peer URLs, sorted and without separators,
//! and the cluster's token. Member added to a running cluster: the same over its URLs and the second of that, in
//! decimal; the token is no part of it. Cluster: the same over the ids of its first members, ascending, 8 bytes
//! big-endian each.

use sha1::{Digest, Sha1};

/// The id of a member that the cluster starts with.
pub fn member_id(peer_urls: &[String], token: &str) -> u64 {
    let mut hash = hash_of_urls(peer_urls);
    hash.update(token);
    first_eight(hash)
}

/// The id of a member that is added to a running cluster at `unix_seconds`.
pub fn added_member_id(peer_urls: &[String], unix_seconds: i64) -> u64 {
    let mut hash = hash_of_urls(peer_urls);
    hash.update(unix_seconds.to_string());
    first_eight(hash)
}

/// The id of the cluster that starts with these members.
pub fn cluster_id(member_ids: &[u64]) -> u64 {
    let mut sorted = member_ids.to_vec();
    sorted.sort_unstable();
    let mut hash = Sha1::new();
    for id in sorted {
        hash.update(id.to_be_bytes());
    }
    first_eight(hash)
}

fn hash_of_urls(peer_urls: &[String]) -> Sha1 {
    let mut sorted: Vec<&str> = peer_urls.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let mut hash = Sha1::new();
    for url in sorted {
        hash.update(url);
    }
    hash
}

fn first_eight(hash: Sha1) -> u64 {
    let digest: [u8; 20] = hash.finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen in `etcdctl member list -w json` of etcd 3.7.3.
    #[test]
    fn ids_are_those_of_a_real_etcd() {
        for (urls, token, member, cluster, why) in [
            (
                vec!["http://localhost:2380"],
                "etcd-cluster",
                10276657743932975437,
                14841639068965178418,
                "all defaults",
            ),
            (
                vec!["http://127.0.0.1:23800"],
                "new",
                13382234341676421710,
                13896853722805567303,
                "a token of its own",
            ),
            (
                vec!["http://127.0.0.1:23801", "http://127.0.0.1:23800"],
                "etcd-cluster",
                5155191632914930835,
                12252454010831977580,
                "two URLs, not in order",
            ),
            (
                vec!["unix:///tmp/cfgprobe/peer.sock"],
                "",
                10340252873854542122,
                17768788538638619312,
                "a socket, an empty token",
            ),
        ] {
            let urls: Vec<String> = urls.into_iter().map(str::to_owned).collect();
            assert_eq!(member_id(&urls, token), member, "{why}");
            assert_eq!(cluster_id(&[member]), cluster, "{why}");
        }
    }

    #[test]
    fn a_cluster_of_three_is_that_of_a_real_etcd() {
        let ids: Vec<u64> = ["http://127.0.0.1:23811", "http://127.0.0.1:23812", "http://127.0.0.1:23813"]
            .iter()
            .map(|url| member_id(&[(*url).to_owned()], "tok"))
            .collect();
        assert_eq!(ids, [8145455945784099648, 10682853467239572369, 295355752453245754]);
        assert_eq!(cluster_id(&ids), 16252160449446271490, "in whatever order they come");
    }

    #[test]
    fn a_member_added_later_is_that_of_a_real_etcd() {
        let urls = ["http://127.0.0.1:24000".to_owned()];
        assert_eq!(
            added_member_id(&urls, 1_796_094_239),
            11368168977964728629,
            "the cluster's token was tok"
        );
        assert_ne!(added_member_id(&urls, 1_796_094_240), 11368168977964728629, "a second later");
    }
}
