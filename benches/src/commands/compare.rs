//! `compare`: options made into a comparison, and its table, plots and samples written.

use std::fs;
use std::path::{Path, PathBuf};

use super::json;
use crate::cli::CompareArgs;
use crate::client::Failure;
use crate::compare::cases::{self, Group};
use crate::compare::runner::{self, Options, Program};
use crate::compare::samples::Comparison;
use crate::compare::{plot, table};

/// Figures plotted by the size of the store: case, figure.
const BY_SIZE: &[(&str, &str)] = &[
    ("count", "p50 ms"),
    ("page-any", "p50 ms"),
    ("list-stream", "RSS MiB after"),
    ("restart", "ms to the first read"),
];

/// Where etcd is if nobody says.
fn etcd_default() -> PathBuf {
    let peers = std::env::var_os("PEERS").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    peers.unwrap_or_else(|| home.join(".cache/keelson-peers")).join("bin/etcd")
}

fn binary(given: Option<&PathBuf>, default: impl FnOnce() -> PathBuf) -> Result<PathBuf, Failure> {
    let path = given.cloned().unwrap_or_else(default);
    fs::canonicalize(&path).map_err(|error| Failure::Usage(format!("no `{}`: {error}", path.display())))
}

/// Writes samples, table and plots; returns the table.
fn write(out: &Path, name: &str, comparison: &Comparison, groups: &[Group]) -> Result<String, Failure> {
    let mut groups = groups.to_vec();
    for group in &mut groups {
        group.cases.retain(|case| comparison.samples.iter().any(|sample| sample.case == case.id()));
    }
    fs::create_dir_all(out)?;
    let mut plots = Vec::new();
    if let Some(svg) = plot::ratios(comparison, &groups) {
        let file = format!("{name}-ratios.svg");
        fs::write(out.join(&file), svg)?;
        plots.push((file, "how many times better Keelson is than etcd, by figure"));
    }
    for (case, figure) in BY_SIZE {
        if let Some(svg) = plot::by_size(comparison, &groups, case, figure) {
            let file = format!("{name}-{case}.svg");
            fs::write(out.join(&file), svg)?;
            plots.push((file, figure));
        }
    }
    let page = table::page(comparison, &groups, &plots);
    fs::write(out.join(format!("{name}.md")), &page)?;
    fs::write(out.join(format!("{name}.json")), json(comparison)? + "\n")?;
    Ok(page)
}

pub(super) async fn compare(args: &CompareArgs) -> Result<bool, Failure> {
    if args.list_cases {
        cases::list().iter().for_each(|(name, title)| println!("{name:<16} {title}"));
        return Ok(true);
    }
    if args.render {
        let path = args.out.join(format!("{}.json", args.name));
        let unusable = |reason: String| Failure::Usage(format!("`{}`: {reason}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| unusable(error.to_string()))?;
        let comparison: Comparison =
            serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
        let groups =
            cases::picked(&args.cases, comparison.seconds, &comparison.sizes).map_err(Failure::Usage)?;
        println!("{}", write(&args.out, &args.name, &comparison, &groups)?);
        return Ok(true);
    }
    let groups = cases::picked(&args.cases, args.seconds, &args.keys).map_err(Failure::Usage)?;
    let beside = || std::env::current_exe().unwrap_or_default().with_file_name("keelson");
    fs::create_dir_all(&args.directory)?;
    let options = Options {
        etcd: Program { binary: binary(args.etcd.as_ref(), etcd_default)?, flags: args.etcd_flag.clone() },
        keelson: Program { binary: binary(args.keelson.as_ref(), beside)?, flags: args.keelson_flag.clone() },
        rounds: args.rounds,
        seconds: args.seconds,
        sizes: args.keys.clone(),
        directory: fs::canonicalize(&args.directory)?,
        port: args.port,
    };
    let keep = |comparison: &Comparison| write(&args.out, &args.name, comparison, &groups).map(drop);
    let comparison = runner::run(&options, &groups, keep).await?;
    println!("{}", write(&args.out, &args.name, &comparison, &groups)?);
    Ok(comparison.failures().next().is_none())
}
