//! Families of metrics made on the spot, for what is known elsewhere and only read.

use prometheus::core::Desc;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// Names and helps of the families that a collector gives, each of one value without labels.
pub(crate) type Table = [(&'static str, MetricType, &'static str)];

/// Descriptions for the registry, which keeps names unique.
pub(crate) fn descriptions(table: &Table) -> Vec<Desc> {
    let describe = |&(name, _, help): &(&'static str, MetricType, &'static str)| {
        Desc::new(name.to_owned(), help.to_owned(), Vec::new(), std::collections::HashMap::new())
            .expect("a valid name")
    };
    table.iter().map(describe).collect()
}

/// The families of `table` with the values that `value` finds; those without one are left out.
pub(crate) fn families(table: &Table, value: impl Fn(&'static str) -> Option<f64>) -> Vec<MetricFamily> {
    let mut families = Vec::with_capacity(table.len());
    for &(name, kind, help) in table {
        let Some(value) = value(name) else { continue };
        let mut metric = Metric::default();
        if kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(vec![metric]);
        families.push(family);
    }
    families
}

/// A gauge that is 1 for each of `children`, which are values of `labels`.
pub(crate) fn ones<const N: usize>(
    name: &str,
    help: &str,
    labels: [&str; N],
    children: impl Iterator<Item = [String; N]>,
) -> MetricFamily {
    let child = |values: [String; N]| {
        let pairs = labels.iter().zip(values).map(|(label, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*label).to_owned());
            pair.set_value(value);
            pair
        });
        let mut gauge = Gauge::default();
        gauge.set_value(1.0);
        let mut metric = Metric::default();
        metric.set_label(pairs.collect());
        metric.set_gauge(gauge);
        metric
    };
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(MetricType::GAUGE);
    family.set_metric(children.map(child).collect());
    family
}
