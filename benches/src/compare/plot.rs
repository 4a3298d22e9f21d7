//! Plots as SVG, written by hand: bars of ratios, and figures by the size of the store.

use std::fmt::Write;

use super::cases::Group;
use super::samples::{Comparison, Side, Spread};
use super::table::short;

const ROW: f64 = 20.0;
const LABELS: f64 = 330.0;
const WIDTH: f64 = 420.0;
const MARGIN: f64 = 40.0;
const BETTER: &str = "#2f7d5b";
const WORSE: &str = "#b5483a";
const ETCD: &str = "#5b6b8c";

fn begin(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222\">{}</text>",
        escape(words)
    );
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// The ratios of all plotted figures as bars from 1 on a logarithmic scale; `None` if there is none.
pub(crate) fn ratios(comparison: &Comparison, groups: &[Group]) -> Option<String> {
    let mut rows: Vec<(String, Spread)> = Vec::new();
    for case in groups.iter().flat_map(|group| &group.cases) {
        for figure in case.figures.iter().filter(|figure| figure.plotted) {
            if let Some(ratio) = comparison.ratio(&case.id(), figure.name, figure.better) {
                rows.push((format!("{}: {}", case.id(), figure.name), ratio));
            }
        }
    }
    let low = rows.iter().map(|(_, ratio)| ratio.min).fold(0.5, f64::min).log2().floor();
    let high = rows.iter().map(|(_, ratio)| ratio.max).fold(2.0, f64::max).log2().ceil();
    if rows.is_empty() {
        return None;
    }
    let x = |ratio: f64| LABELS + WIDTH * (ratio.log2() - low) / (high - low);
    let height = MARGIN + ROW * rows.len() as f64 + 10.0;
    let mut out = begin(LABELS + WIDTH + 2.0 * MARGIN, height);
    text(&mut out, x(1.0), 14.0, "middle", "times better than etcd");
    let mut power = low;
    while power <= high {
        let at = x(power.exp2());
        line(&mut out, (at, MARGIN - 6.0), (at, height - 8.0), if power == 0.0 { "#444" } else { "#ddd" });
        text(&mut out, at, MARGIN - 10.0, "middle", &short_power(power));
        power += if high - low > 8.0 { 2.0 } else { 1.0 };
    }
    for (at, (label, ratio)) in rows.iter().enumerate() {
        let top = MARGIN + ROW * at as f64;
        let (from, to) = (x(ratio.median.min(1.0)), x(ratio.median.max(1.0)));
        let colour = if ratio.median >= 1.0 { BETTER } else { WORSE };
        text(&mut out, LABELS - 8.0, top + 14.0, "end", label);
        let _ = writeln!(
            out,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\"0.75\"/>",
            top + 4.0,
            (to - from).max(1.0),
            ROW - 8.0
        );
        line(&mut out, (x(ratio.min), top + ROW / 2.0), (x(ratio.max), top + ROW / 2.0), "#222");
        let label_at = x(ratio.max).max(to) + 5.0;
        text(&mut out, label_at, top + 14.0, "start", &format!("{}x", short(ratio.median)));
    }
    out.push_str("</svg>\n");
    Some(out)
}

fn short_power(power: f64) -> String {
    if power >= 0.0 { format!("{:.0}x", power.exp2()) } else { format!("1/{:.0}", (-power).exp2()) }
}

/// A figure of a case by the size of its store, both servers, logarithmic both ways; `None` with fewer than two sizes.
pub(crate) fn by_size(
    comparison: &Comparison,
    groups: &[Group],
    case_name: &str,
    figure: &str,
) -> Option<String> {
    let cases: Vec<_> =
        groups.iter().flat_map(|group| &group.cases).filter(|case| case.name == case_name).collect();
    let points = |side| -> Vec<(f64, Spread)> {
        let point = |case: &&super::cases::Case| {
            Some((case.keys? as f64, comparison.figure(&case.id(), side, figure)?))
        };
        cases.iter().filter_map(point).collect()
    };
    let (etcd, keelson) = (points(Side::Etcd), points(Side::Keelson));
    let all: Vec<_> = etcd.iter().chain(&keelson).collect();
    let sizes = Spread::of(all.iter().map(|(keys, _)| *keys)).filter(|sizes| sizes.max > sizes.min)?;
    let low = all.iter().map(|(_, spread)| spread.min).fold(f64::INFINITY, f64::min).log10().floor();
    let high = all.iter().map(|(_, spread)| spread.max).fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let (left, top, wide, tall) = (70.0, 40.0, 420.0, 240.0);
    let x = |keys: f64| left + wide * (keys / sizes.min).log10() / (sizes.max / sizes.min).log10();
    let y = |value: f64| top + tall * (high - value.log10()) / (high - low);
    let mut out = begin(left + wide + 90.0, top + tall + 40.0);
    text(&mut out, left, 18.0, "start", &format!("{case_name}: {figure} by keys in the store"));
    let mut power = low;
    while power <= high {
        let at = y(10f64.powf(power));
        line(&mut out, (left, at), (left + wide, at), "#ddd");
        text(&mut out, left - 6.0, at + 4.0, "end", &format!("{}", 10f64.powf(power)));
        power += 1.0;
    }
    for (name, colour, points) in [("etcd", ETCD, &etcd), ("Keelson", BETTER, &keelson)] {
        for pair in points.windows(2) {
            let at = |point: &(f64, Spread)| (x(point.0), y(point.1.median));
            line(&mut out, at(&pair[0]), at(&pair[1]), colour);
        }
        for (keys, spread) in points {
            line(&mut out, (x(*keys), y(spread.min)), (x(*keys), y(spread.max)), colour);
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(*keys),
                y(spread.median)
            );
            text(&mut out, x(*keys), top + tall + 16.0, "middle", &format!("{keys}"));
        }
        if let Some((keys, spread)) = points.last() {
            text(&mut out, x(*keys) + 8.0, y(spread.median) + 4.0, "start", name);
        }
    }
    out.push_str("</svg>\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::{Case, Run};
    use crate::compare::figures::{Better, Figure};
    use crate::compare::samples::tests::comparison;

    const F: &[Figure] = &[Figure { name: "f", better: Better::Less, plotted: true, read: |_| None }];

    fn group(keys: &[Option<u64>]) -> Vec<Group> {
        let case = |keys: &Option<u64>| Case {
            name: "c",
            title: "a < case".to_owned(),
            keys: *keys,
            run: Run::Restart,
            figures: F,
        };
        vec![Group { fill: None, cases: keys.iter().map(case).collect() }]
    }

    #[test]
    fn a_better_ratio_is_a_bar_to_the_right() {
        let svg = ratios(&comparison(&[8.0], &[2.0]), &group(&[None])).expect("one ratio");
        assert!(svg.contains(BETTER) && svg.contains("4.00x") && svg.ends_with("</svg>\n"), "{svg}");
        let worse = ratios(&comparison(&[2.0], &[8.0]), &group(&[None])).expect("one ratio");
        assert!(worse.contains(WORSE) && worse.contains("0.25x"), "{worse}");
        assert_eq!(ratios(&comparison(&[], &[]), &group(&[None])), None, "nothing to plot");
    }

    #[test]
    fn a_line_needs_two_sizes() {
        let groups = group(&[Some(1000), Some(1_000_000)]);
        let mut comparison = comparison(&[8.0, 80.0], &[2.0, 2.0]);
        for (sample, keys) in comparison.samples.iter_mut().zip(["1k", "1M", "1k", "1M"]) {
            sample.case = format!("c, {keys} keys");
        }
        let svg = by_size(&comparison, &groups, "c", "f").expect("two sizes");
        assert_eq!(svg.matches("<circle").count(), 4, "{svg}");
        assert_eq!(by_size(&comparison, &groups[..0], "c", "f"), None);
        assert_eq!(by_size(&comparison, &group(&[Some(1000)]), "c", "f"), None, "one size");
        assert_eq!(Better::Less, F[0].better);
    }
}
