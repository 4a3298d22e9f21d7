//! A comparison as a markdown page.

use std::fmt::Write;

use super::cases::Group;
use super::figures::Better;
use super::samples::{Comparison, Side, Spread};

/// A number with as many digits as it is worth.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        0.1.. => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or("–".to_owned(), |spread| {
        format!("{} ({}–{})", short(spread.median), short(spread.min), short(spread.max))
    })
}

/// The page; `plots` are names of pictures beside it.
pub(crate) fn page(comparison: &Comparison, groups: &[Group], plots: &[(String, &str)]) -> String {
    let mut out = String::from("# Keelson beside etcd\n\n");
    let machine = &comparison.machine;
    let loads: Vec<String> = comparison.loads.iter().map(|load| format!("{load:.1}")).collect();
    let _ = writeln!(
        out,
        "{} rounds, loads of {} s. {} cores of {}, {:.0} GiB, Linux {}. Load average after each round: {}.\n",
        comparison.rounds,
        comparison.seconds,
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.kernel,
        loads.join(", ")
    );
    for version in comparison.versions.values() {
        let _ = writeln!(out, "* {version}");
    }
    out.push_str(
        "\nEach cell is the median over the rounds, with least and greatest. *Keelson / etcd* is taken of the medians. \
         *Better by* is the median of the ratios within each round: above 1 means that Keelson is better, whichever way \
         the figure goes. *Others* is how many cores other processes kept busy during the case.\n\n",
    );
    for (name, alt) in plots {
        let _ = writeln!(out, "![{alt}]({name})\n");
    }
    out.push_str("| case | figure | etcd | Keelson | Keelson / etcd | better by | others |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for case in groups.iter().flat_map(|group| &group.cases) {
        let id = case.id();
        let others =
            comparison.others(&id).map_or("–".to_owned(), |others| format!("{:.2}", others.median));
        for (at, figure) in case.figures.iter().enumerate() {
            let of = |side| comparison.figure(&id, side, figure.name);
            let (etcd, keelson) = (of(Side::Etcd), of(Side::Keelson));
            if etcd.is_none() && keelson.is_none() {
                continue;
            }
            let part = etcd.zip(keelson).map(|(etcd, keelson)| 100.0 * keelson.median / etcd.median);
            let ratio = match figure.better {
                Better::Neither => String::new(),
                better => cell(comparison.ratio(&id, figure.name, better)),
            };
            let first = at == 0;
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {ratio} | {} |",
                if first { id.as_str() } else { "" },
                figure.name,
                cell(etcd),
                cell(keelson),
                part.map_or("–".to_owned(), |part| format!("{} %", short(part))),
                if first { others.as_str() } else { "" },
            );
        }
    }
    out.push_str("\nThe cases:\n\n");
    for case in groups.iter().flat_map(|group| &group.cases) {
        let _ = writeln!(out, "* {}: {}", case.id(), case.title);
    }
    let failures: Vec<_> = comparison.failures().collect();
    if !failures.is_empty() {
        out.push_str("\nRuns that failed and are in no figure:\n\n");
        for (sample, failure) in failures {
            let _ = writeln!(
                out,
                "* {} of {}, round {}: {failure}",
                sample.case,
                sample.side.name(),
                sample.round
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::{Case, Run};
    use crate::compare::figures::Figure;
    use crate::compare::samples::tests::comparison;

    const F: &[Figure] = &[Figure { name: "f", better: Better::Less, plotted: true, read: |_| None }];

    #[test]
    fn a_page_has_medians_spreads_ratios_and_failures() {
        let mut comparison = comparison(&[10.0, 20.0, 12.0], &[5.0, 10.0, 4.0]);
        comparison.samples[0].failure = Some("1 x status 14: gone".to_owned());
        let case = Case { name: "c", title: "a case".to_owned(), keys: None, run: Run::Restart, figures: F };
        let page = page(&comparison, &[Group { fill: None, cases: vec![case] }], &[]);
        let row = "| c | f | 12.0 (10.0–20.0) | 5.00 (4.00–10.0) | 41.7 % | 2.00 (2.00–3.00) | 0.25 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("* c of etcd, round 1: 1 x status 14: gone"), "{page}");
    }

    #[test]
    fn numbers_have_few_digits() {
        for (number, want) in [(1234.5, "1234"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.012")] {
            assert_eq!(short(number), want);
        }
    }
}
