//! The cases: which load runs on which store, and what of its report is compared.

use super::figures::{self, Figure};

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Run {
    /// A subcommand of this program, without endpoint and process.
    Load(Vec<String>),
    /// kill -9, and the time to the first linearizable read.
    Restart,
}

/// A case.
#[derive(Clone)]
pub(crate) struct Case {
    /// Its name on the command line and in the table, without the store's size.
    pub(crate) name: &'static str,
    /// What it does, for people.
    pub(crate) title: String,
    /// The keys of the store it runs on, where that matters.
    pub(crate) keys: Option<u64>,
    /// What runs.
    pub(crate) run: Run,
    /// What is compared.
    pub(crate) figures: &'static [Figure],
}

impl Case {
    /// Its name with the store's size: what samples are kept under.
    pub(crate) fn id(&self) -> String {
        self.keys.map_or(self.name.to_owned(), |keys| format!("{}, {} keys", self.name, short(keys)))
    }
}

/// Cases that share a server.
#[derive(Clone)]
pub(crate) struct Group {
    /// Keys that it holds beforehand.
    pub(crate) fill: Option<u64>,
    /// The cases in order.
    pub(crate) cases: Vec<Case>,
}

/// A count of keys in few letters.
fn short(keys: u64) -> String {
    match keys {
        0..1_000 => keys.to_string(),
        1_000..1_000_000 => format!("{}k", keys / 1_000),
        _ => format!("{}M", (keys as f64 / 1e5).round() / 10.0),
    }
}

/// Names and titles of all cases.
pub(crate) fn list() -> Vec<(&'static str, String)> {
    let all = all(5.0, &[200_000]);
    all.iter().flat_map(|group| group.cases.iter().map(|case| (case.name, case.title.clone()))).collect()
}

/// Picks cases by name; a name that ends in `*` stands for all that begin so. Nothing picks all.
///
/// # Errors
/// The name that is none.
pub(crate) fn picked(names: &[String], seconds: f64, sizes: &[u64]) -> Result<Vec<Group>, String> {
    let is = |name: &str, case: &Case| match name.strip_suffix('*') {
        Some(start) => case.name.starts_with(start),
        None => case.name == name,
    };
    let mut groups = all(seconds, sizes);
    for name in names {
        if !groups.iter().flat_map(|group| &group.cases).any(|case| is(name, case)) {
            return Err(format!("no case `{name}`; --list-cases names them"));
        }
    }
    if !names.is_empty() {
        for group in &mut groups {
            group.cases.retain(|case| names.iter().any(|name| is(name, case)));
        }
    }
    groups.retain(|group| !group.cases.is_empty());
    Ok(groups)
}

/// All cases; `seconds` is the length of one load, `sizes` the stores of those that depend on it.
fn all(seconds: f64, sizes: &[u64]) -> Vec<Group> {
    let case = |name, title: &str, line: &str, figures| {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        // kubemix and beside have phases; what is too short for one shows nothing.
        let length = if line.contains("kubemix") { seconds.max(5.0) * 4.0 } else { seconds };
        if !line.contains("--total") {
            words.extend(["--seconds".to_owned(), length.to_string()]);
        }
        Case { name, title: title.to_owned(), keys: None, run: Run::Load(words), figures }
    };
    let alone = |case| Group { fill: None, cases: vec![case] };
    let mut groups = vec![Group {
        fill: None,
        cases: vec![
            case("put-1", "puts by one caller", "put", figures::WRITES),
            case("put-64", "puts by 64 callers", "put --connections 8 --calls 8", figures::WRITES),
            case("put-1000", "puts by 1000 callers", "put --connections 10 --calls 100", figures::WRITES),
            case("get-1", "linearizable gets by one caller", "get", figures::READS),
            case(
                "get-64",
                "linearizable gets by 64 callers",
                "get --connections 8 --calls 8",
                figures::READS,
            ),
            case(
                "update-64",
                "kube-apiserver's updates by 64 callers",
                "txn-update --connections 8 --calls 8",
                figures::WRITES,
            ),
            case(
                "put-2k",
                "2,000 puts a second",
                "put --connections 8 --calls 8 --rate 2000",
                figures::AT_RATE,
            ),
            case(
                "mixed-2k",
                "2,000 calls a second: 70 % gets, 20 % puts, 10 % updates",
                "mixed --connections 8 --calls 8 --rate 2000 --mix get=70,put=20,update=10",
                figures::AT_RATE,
            ),
        ],
    }];
    for keys in sizes {
        let sized = |name, title: &str, line: &str, figures| {
            let line = format!("{line} --keys {keys}");
            Case { keys: Some(*keys), ..case(name, title, &line, figures) }
        };
        let list = "--prefix /load/";
        groups.push(Group {
            fill: Some(*keys),
            cases: vec![
                sized(
                    "get-absent",
                    "a key that does not exist, one caller",
                    "get --prefix /absent/",
                    figures::SMALL,
                ),
                sized("count", "a count of all keys, one caller", &format!("count {list}"), figures::SMALL),
                sized(
                    "page-first",
                    "the first 500 of all keys",
                    &format!("page {list} --pages first"),
                    figures::SMALL,
                ),
                sized(
                    "page-any",
                    "500 keys from anywhere, to the end of all",
                    &format!("page {list} --pages random"),
                    figures::SMALL,
                ),
                sized(
                    "list-stream",
                    "all keys by RangeStream",
                    &format!("range-stream {list}"),
                    figures::LISTS,
                ),
                sized(
                    "list-unary",
                    "all keys by one Range",
                    &format!("range-stream --unary {list}"),
                    figures::LISTS,
                ),
                Case {
                    run: Run::Restart,
                    ..sized("restart", "kill -9, then a linearizable read", "", figures::RESTART)
                },
            ],
        });
    }
    groups.extend([
        Group {
            fill: None,
            cases: vec![
                case(
                    "watch-100",
                    "2,000 puts a second to 100 watchers",
                    "watch --watchers 100 --connections 10 --rate 2000",
                    figures::FANOUT,
                ),
                case(
                    "progress",
                    "20 progress requests a second under 5,000 events a second",
                    "watch --watchers 5 --connections 5 --rate 1000 --progress 20",
                    figures::PROGRESS,
                ),
            ],
        },
        alone(case(
            "watch-10k",
            "10,000 watchers on 100 connections, 2,000 events a second",
            "watch --watchers 10000 --connections 100 --prefixes 1000 --rate 200",
            figures::CROWD,
        )),
        alone(case(
            "beside-lease",
            "2,000 puts a second while leases of 100,000 keys are revoked",
            "beside --background lease",
            figures::BESIDE,
        )),
        alone(case(
            "beside-catch-up",
            "2,000 puts a second while a watcher catches up 500,000 changes",
            "beside --background catch-up",
            figures::BESIDE,
        )),
        alone(case(
            "beside-list",
            "2,000 puts a second while 100,000 keys are listed",
            "beside --background stream --background-value-size 1024",
            figures::BESIDE,
        )),
        alone(case(
            "beside-compact",
            "2,000 puts a second while 100,000 changes are compacted",
            "beside --background compact",
            figures::BESIDE,
        )),
        alone(case(
            "kubemix",
            "a Kubernetes cluster of 2,000 nodes, two API servers",
            "kubemix --nodes 2000 --apiservers 2 --scan-seconds 60 --compact-seconds 10",
            figures::CLUSTER,
        )),
    ]);
    groups
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::CommandLine;

    #[test]
    fn every_case_is_a_command_line_that_parses() {
        for group in all(3.0, &[1000]) {
            for case in group.cases {
                let Run::Load(words) = &case.run else { continue };
                let words = std::iter::once("keelson-load").chain(words.iter().map(String::as_str));
                CommandLine::try_parse_from(words.chain(["--json", "--server-pid", "1"])).expect(case.name);
            }
        }
    }

    #[test]
    fn cases_are_picked_by_name_or_by_how_they_begin() {
        let names = |picked: &[&str]| -> Vec<String> {
            let picked: Vec<String> = picked.iter().map(|name| (*name).to_owned()).collect();
            let groups = super::picked(&picked, 1.0, &[1000, 2_500_000]).expect("known names");
            groups.iter().flat_map(|group| group.cases.iter().map(Case::id)).collect()
        };
        assert_eq!(names(&["put-1", "put-1000"]), ["put-1", "put-1000"]);
        assert_eq!(
            names(&["page*"]),
            ["page-first, 1k keys", "page-any, 1k keys", "page-first, 2.5M keys", "page-any, 2.5M keys"]
        );
        assert!(super::picked(&["got".to_owned()], 1.0, &[1000]).is_err());
        let all = names(&[]);
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), different.len(), "no two cases keep their samples under one id");
    }
}
