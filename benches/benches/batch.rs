//! The batch codec: what an entry of the log says, written once and read by every replica.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use engine::batch::{Change, Decoder, Encoder, Header, Op};

#[path = "support/data.rs"]
mod data;

fn op(number: u64) -> Op {
    let value = data::value(number);
    let value_crc = 7;
    let change = Change::Put { create: Some(5), version: 3, lease: 0, value, value_crc, value_at: 0 };
    Op { key: data::key(number), old_lease: 0, change }
}

fn encoded(ops: &[Op]) -> bytes::Bytes {
    let mut encoder = Encoder::new(ops.len() * (data::KEY_BYTES + data::VALUE_BYTES + 64));
    for op in ops {
        encoder.txn(std::slice::from_ref(op));
    }
    encoder.finish(&Header::default())
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let mut group = criterion.benchmark_group("batch");
    for txns in [1, 64] {
        let ops: Vec<Op> = (0..txns).map(op).collect();
        let bytes = encoded(&ops);
        group.throughput(Throughput::Elements(txns));
        group.bench_function(format!("encode {txns} puts"), |bencher| {
            bencher.iter(|| black_box(encoded(black_box(&ops))));
        });
        group.bench_function(format!("decode {txns} puts"), |bencher| {
            let mut found = Vec::new();
            bencher.iter(|| {
                let mut decoder = Decoder::new(bytes.clone()).expect("a batch");
                while let Some(item) = decoder.next_item(&mut found).expect("a batch") {
                    black_box((&item, &found));
                }
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
