//! What is not gRPC, as an HTTP/1.1 client sees it.

mod common;

use common::clients::etcdserverpb::maintenance_client::MaintenanceClient;
use common::{Connection, page, served};
use server::pb::etcdserverpb::{AlarmRequest, AlarmType, alarm_request::AlarmAction};

#[test]
fn pages_answer_as_etcds() {
    served(async |running| {
        let (client, metrics, peer) = (running.client, running.metrics, running.peer);
        let version = r#"{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}"#;
        let members = "[{\"id\":210,\"peerURLs\":[\"http://127.0.0.1:2380\"],\"name\":\"default\",\
                   \"clientURLs\":[\"http://127.0.0.1:2379\"]}]\n";
        let healthy = r#"{"health":"true","reason":""}"#;
        let all_well = "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n";
        for (address, method, path, status, text, why) in [
            (client, "GET", "/version", 200, version, "what is running"),
            (peer, "GET", "/version", 200, version, "the same for peers"),
            (client, "POST", "/version", 405, "Method Not Allowed\n", "only GET"),
            (client, "GET", "/health", 200, healthy, "well"),
            (client, "GET", "/health?serializable=true", 200, healthy, "well, without a quorum"),
            (client, "POST", "/health", 405, "Method Not Allowed\n", "only GET"),
            (client, "HEAD", "/health", 405, "", "HEAD is not GET; its answer has no body"),
            (client, "GET", "/livez", 200, "ok\n", "alive"),
            (client, "GET", "/livez?verbose", 200, "[+]serializable_read ok\nok\n", "with what was checked"),
            (client, "GET", "/readyz", 200, "ok\n", "ready"),
            (client, "GET", "/readyz?verbose", 200, all_well, "with what was checked"),
            (
                client,
                "GET",
                "/readyz?verbose&exclude=linearizable_read&exclude=non_learner&exclude=nonsense",
                200,
                "[+]data_corruption ok\n[+]serializable_read ok\nok\n",
                "without some; excluding what there is not is no error",
            ),
            (client, "GET", "/readyz/linearizable_read", 200, "ok\n", "one check"),
            (
                client,
                "GET",
                "/livez/linearizable_read",
                404,
                "404 page not found\n",
                "a check of the other kind",
            ),
            (client, "GET", "/nowhere", 404, "404 page not found\n", "no such page"),
            (client, "GET", "/members", 404, "404 page not found\n", "members are for peers"),
            (peer, "GET", "/members", 200, members, "who is in the cluster"),
            (peer, "GET", "/health", 404, "404 page not found\n", "health is not for peers"),
            (metrics, "GET", "/health", 200, healthy, "health beside the metrics"),
            (metrics, "GET", "/readyz", 200, "ok\n", "readiness beside the metrics"),
            (metrics, "GET", "/version", 404, "404 page not found\n", "the version is not"),
        ] {
            let got = page(address, method, path).await;
            assert_eq!((got.status, got.text.as_str()), (status, text), "{method} {path}: {why}");
        }
        let got = page(peer, "GET", "/members").await;
        assert_eq!(got.headers["x-etcd-cluster-id"], "c1", "in hexadecimal");
        assert_eq!(got.headers["content-type"], "application/json");
        assert_eq!(page(client, "POST", "/health").await.headers["allow"], "GET");
    });
}

#[test]
fn metrics_have_etcds_names() {
    served(async |running| {
        page(running.client, "GET", "/readyz").await;
        let page = page(running.metrics, "GET", "/metrics").await;
        assert_eq!(page.status, 200);
        assert_eq!(
            page.headers["content-type"],
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
        );
        for want in [
            "etcd_server_has_leader 1",
            "etcd_server_is_leader 1",
            "etcd_server_quota_backend_bytes 2147483648",
            "etcd_server_id{server_id=\"d2\"} 1",
            "etcd_server_version{server_version=\"3.7.3\"} 1",
            "etcd_cluster_version{cluster_version=\"3.7\"} 1",
            "etcd_debugging_mvcc_current_revision 1",
            "etcd_server_healthcheck{name=\"linearizable_read\",type=\"readyz\"} 1",
            "grpc_server_started_total{grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 0",
            "# TYPE etcd_server_proposals_committed_total gauge",
            "# TYPE etcd_disk_wal_fsync_duration_seconds histogram",
            "# TYPE etcd_disk_backend_commit_duration_seconds histogram",
            "# TYPE etcd_network_client_grpc_sent_bytes_total counter",
        ] {
            assert!(page.text.lines().any(|line| line == want), "no line {want} in\n{}", page.text);
        }
        let syncs = page
            .text
            .lines()
            .find_map(|line| line.strip_prefix("etcd_disk_wal_fsync_duration_seconds_count "));
        assert!(
            syncs.expect("a count").parse::<u64>().expect("a number") > 0,
            "the start has synced the log"
        );
    });
}

#[test]
fn alarms_show_in_health_and_only_corruption_in_readiness() {
    served(async |running| {
        let mut maintenance = MaintenanceClient::new(Connection::new(running.client).await);
        let mut set = async |alarm: AlarmType, action: AlarmAction| {
            let request = AlarmRequest { action: action.into(), alarm: alarm.into(), member_id: 0xd2 };
            maintenance.alarm(request).await.expect("done");
        };
        let unhealthy = |alarm| format!("{{\"health\":\"false\",\"reason\":\"ALARM {alarm}\"}}\n");
        let (no_space, corrupt) = (unhealthy("NOSPACE"), unhealthy("CORRUPT"));
        let healthy = r#"{"health":"true","reason":""}"#;
        let not_ready = "[-]data_corruption failed: alarm activated: CORRUPT\n[+]serializable_read ok\n\
                         [+]linearizable_read ok\n[+]non_learner ok\n\n";
        let failed = "[-]data_corruption failed: alarm activated: CORRUPT\n\n";

        set(AlarmType::Nospace, AlarmAction::Activate).await;
        for (path, status, text, why) in [
            ("/health", 503, no_space.as_str(), "no space"),
            ("/health?exclude=NOSPACE", 200, healthy, "somebody does not mind"),
            ("/health?exclude=CORRUPT", 503, &no_space, "but minds this"),
            ("/health?serializable=true", 503, &no_space, "whatever is read"),
            ("/livez", 200, "ok\n", "it lives"),
            ("/readyz", 200, "ok\n", "and serves reads"),
        ] {
            let got = page(running.client, "GET", path).await;
            assert_eq!((got.status, got.text.as_str()), (status, text), "{path}: {why}");
        }
        set(AlarmType::Corrupt, AlarmAction::Activate).await;
        for (path, status, text, why) in [
            ("/health", 503, no_space.as_str(), "the first of the two"),
            ("/health?exclude=NOSPACE", 503, &corrupt, "the other"),
            ("/health?exclude=NOSPACE&exclude=CORRUPT", 200, healthy, "none that matters"),
            ("/livez", 200, "ok\n", "a new start would not help"),
            ("/readyz", 503, not_ready, "what failed is told, and what did not"),
            ("/readyz?verbose", 503, not_ready, "the same"),
            ("/readyz?exclude=data_corruption", 200, "ok\n", "not asked for"),
            ("/readyz/data_corruption", 503, failed, "asked for alone"),
            ("/readyz/data_corruption?exclude=data_corruption", 503, failed, "nothing to exclude it from"),
            ("/readyz/linearizable_read", 200, "ok\n", "reads are served"),
        ] {
            let got = page(running.client, "GET", path).await;
            assert_eq!((got.status, got.text.as_str()), (status, text), "{path}: {why}");
        }
        let text = page(running.metrics, "GET", "/metrics").await.text;
        let shown = r#"etcd_server_healthcheck{name="data_corruption",type="readyz"} 0"#;
        assert!(text.lines().any(|line| line == shown), "{shown} is not in\n{text}");
        set(AlarmType::Nospace, AlarmAction::Deactivate).await;
        set(AlarmType::Corrupt, AlarmAction::Deactivate).await;
        assert_eq!(page(running.client, "GET", "/readyz").await.status, 200, "over");
    });
}
