//! What a member's URLs and cluster become, and when it may start one.

use super::*;

#[test]
fn a_first_start_is_checked_as_etcd_checks_it() {
    let elsewhere = "--initial-advertise-peer-urls=http://127.0.0.1:9";
    for (args, want, why) in [
        ("", Ok(("8e9e05c52164694d", "cdf818194e3a8c32")), "all defaults: etcd's well-known ids"),
        ("--name a", Ok(("8e9e05c52164694d", "cdf818194e3a8c32")), "the name is no part of an id"),
        (&format!("--name a {elsewhere}"), Ok(("", "")), "a name alone makes its own cluster"),
        (elsewhere, Err("missing from --initial-advertise-peer-urls"), "the default name does not"),
        (
            "--initial-cluster=a=http://localhost:2380",
            Err("couldn't find local name \"default\""),
            "another's name",
        ),
        ("--name=", Err("couldn't find local name \"\""), "no name"),
        ("--initial-cluster=", Err("couldn't find local name"), "no members"),
        (
            "--initial-cluster=default=http://localhost:9",
            Err("--initial-cluster has default=http://localhost:9"),
            "another URL",
        ),
        (
            "--initial-advertise-peer-urls=http://localhost:2380,http://localhost:9",
            Err("--initial-advertise-peer-urls has http://localhost:9"),
            "one URL more",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=http://localhost:2380",
            Err("has duplicate url"),
            "two members at one place",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=http://localhost:9",
            Err("a cluster of 2 members is not supported yet"),
            "more than one member",
        ),
        ("--initial-cluster-state=existing", Err("joining a cluster is not supported yet"), "joining"),
    ] {
        match (config(args).bootstrap(), want) {
            (Ok(_), Ok(("", ""))) => {}
            (Ok(got), Ok((member, cluster))) => {
                let got = (format!("{:x}", got.member_id), format!("{:x}", got.cluster_id));
                assert_eq!(got, (member.to_owned(), cluster.to_owned()), "{args}: {why}");
            }
            (Err(error), Err(want)) => {
                assert_eq!(error.exit_code(), 1, "{args}");
                assert!(error.to_string().contains(want), "{args}: {why}: {error}");
            }
            (got, _) => panic!("{args}: {why}: {got:?}"),
        }
    }
}

#[test]
fn listening_everywhere_advertises_this_machine() {
    for (args, peer, client, why) in [
        ("", "http://localhost:2380", "http://localhost:2379", "only loopback"),
        (
            "--name a --listen-peer-urls=http://0.0.0.0:5",
            "http://10.0.0.7:5",
            "http://localhost:2379",
            "the peer port follows the listener",
        ),
        (
            "--listen-client-urls=http://0.0.0.0:6 --advertise-client-urls=http://localhost:2379",
            "http://localhost:2380",
            "http://10.0.0.7:6",
            "as etcd, even when the default was written out",
        ),
        (
            "--listen-client-urls=http://0.0.0.0:6 --advertise-client-urls=http://h:6",
            "http://localhost:2380",
            "http://h:6",
            "what was chosen stays",
        ),
    ] {
        let config = config(args);
        assert_eq!(config.initial_advertise_peer_urls, [peer], "{args}: {why}");
        assert_eq!(config.advertise_client_urls, [client], "{args}: {why}");
    }
    let member = &config("--name a --listen-peer-urls=http://0.0.0.0:5").initial_cluster[0];
    assert_eq!((member.name.as_str(), member.peer_urls[0].as_str()), ("a", "http://10.0.0.7:5"));
}
