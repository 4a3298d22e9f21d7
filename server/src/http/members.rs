//! `/members` of the peer port: who is in the cluster, as this member knows it.

use axum::extract::State;
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};
use raft::request::Member;
use serde::Serialize;

use super::View;

/// A member in etcd's JSON: what is empty is left out.
#[derive(Serialize)]
struct Shown<'a> {
    id: u64,
    #[serde(rename = "peerURLs")]
    peer_urls: &'a [String],
    #[serde(rename = "isLearner", skip_serializing_if = "std::ops::Not::not")]
    is_learner: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(rename = "clientURLs", skip_serializing_if = "<[_]>::is_empty")]
    client_urls: &'a [String],
}

impl<'a> Shown<'a> {
    fn new(member: &'a Member) -> Self {
        let Member { id, name, peer_urls, client_urls, is_learner } = member;
        Shown { id: *id, peer_urls, is_learner: *is_learner, name, client_urls }
    }
}

pub(super) async fn answer(State(view): State<View>, method: Method) -> Response {
    if let Some(refused) = super::refuse_method(&method) {
        return refused;
    }
    let cluster = format!("{:x}", view.store.cluster_id());
    let kind = HeaderValue::from_static("application/json");
    ([("x-etcd-cluster-id", cluster)], [(header::CONTENT_TYPE, kind)], json(&view.store.members()))
        .into_response()
}

fn json(members: &[Member]) -> String {
    let shown: Vec<Shown<'_>> = members.iter().map(Shown::new).collect();
    let mut text = serde_json::to_string(&shown).expect("plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_look_as_etcds() {
        let urls = |url: &str| vec![url.to_owned()];
        let started = Member {
            id: 1,
            name: "a".to_owned(),
            peer_urls: urls("http://a:2380"),
            client_urls: urls("http://a:2379"),
            is_learner: false,
        };
        let added =
            Member { id: u64::MAX, peer_urls: urls("http://b:2380"), is_learner: true, ..Member::default() };
        for (members, want, why) in [
            (vec![], "[]\n", "nobody yet"),
            (
                vec![started],
                "[{\"id\":1,\"peerURLs\":[\"http://a:2380\"],\"name\":\"a\",\"clientURLs\":[\"http://a:2379\"]}]\n",
                "a voter says nothing of being a learner",
            ),
            (
                vec![added],
                "[{\"id\":18446744073709551615,\"peerURLs\":[\"http://b:2380\"],\"isLearner\":true}]\n",
                "one that has not started has no name and no client URLs",
            ),
        ] {
            assert_eq!(json(&members), want, "{why}");
        }
    }
}
