//! Ranges read in pieces are the ranges read at once.

mod harness;

use bytes::Bytes;
use engine::disk::MemoryDisk;
use harness::{Server, bytes, delete};
use raft::request::{KeyValue, Put, Range, RangeAnswer, SortOrder};
use raft::{Error, RangePieces, RangeRead, RowSize};

async fn open(server: &Server, request: Range) -> RangePieces {
    match server.store.range_read(request).await.expect("range").answer {
        RangeRead::Pieces(pieces) => pieces,
        RangeRead::Whole(answer) => panic!("a range in key order comes in pieces, not as {answer:?}"),
    }
}

/// Reads to the end; gives the answer and how many pieces it had.
async fn read(mut pieces: RangePieces, bytes_max: usize) -> (RangeAnswer, usize) {
    let mut answer = RangeAnswer { kvs: Vec::new(), more: false, count: pieces.count() };
    for n in 1.. {
        let piece = pieces.next(bytes_max).await.expect("a piece");
        answer.kvs.extend(piece.kvs);
        if let Some(more) = piece.last {
            answer.more = more;
            return (answer, n);
        }
    }
    unreachable!("a range ends")
}

fn size(row: &RowSize) -> usize {
    row.key + 3 * row.value + usize::try_from(row.mod_revision + row.version).expect("small")
}

fn size_of(pair: &KeyValue) -> usize {
    size(&RowSize {
        key: pair.key.len(),
        value: pair.value.len(),
        create_revision: pair.create_revision,
        mod_revision: pair.mod_revision,
        version: pair.version,
        lease: pair.lease,
    })
}

/// 3,000 puts of 1,500 keys, with values from nothing to 300 bytes, of which every seventh key is deleted.
async fn filled() -> Server {
    let server = Server::open(&MemoryDisk::new()).await;
    for n in 0..3000usize {
        let key = Bytes::from(format!("k{:04}", n * 7 % 1500));
        let value = Bytes::from(vec![b'v'; n * 31 % 300]);
        server.store.put(Put { key, value, ..Put::default() }).await.expect("put");
    }
    for n in (0..1500).step_by(7) {
        server.delete(&format!("k{n:04}")).await;
    }
    server
}

#[tokio::test(start_paused = true)]
async fn pieces_make_the_whole() {
    let server = filled().await;
    let all = Range { key: bytes("k"), range_end: bytes("l"), ..Range::default() };
    let down = SortOrder::Descend;
    for (request, why) in [
        (all.clone(), "all"),
        (Range { revision: 1700, ..all.clone() }, "an older revision"),
        (Range { limit: 100, ..all.clone() }, "a limit"),
        (Range { limit: 1286, ..all.clone() }, "a limit just above what there is"),
        (Range { limit: 1285, ..all.clone() }, "a limit that is just reached"),
        (Range { limit: 1284, ..all.clone() }, "a limit that cuts one off"),
        (Range { sort_order: down, ..all.clone() }, "backwards"),
        (Range { sort_order: down, limit: 333, ..all.clone() }, "the last rows, backwards"),
        (Range { keys_only: true, ..all.clone() }, "keys alone"),
        (Range { min_mod_revision: 2990, ..all.clone() }, "few pass the filter"),
        (Range { max_create_revision: 900, limit: 50, ..all.clone() }, "a filter and a limit"),
        (Range { max_mod_revision: 1, ..all.clone() }, "none passes the filter"),
        (Range { key: bytes("k0500"), range_end: Bytes::from_static(&[0]), ..all.clone() }, "to the end"),
        (Range { key: bytes("x"), range_end: bytes("y"), ..all.clone() }, "nothing there"),
        (Range { key: bytes("l"), range_end: bytes("k"), ..all.clone() }, "the wrong way round"),
    ] {
        let whole = server.store.range(request.clone()).await.expect("range").answer;
        for bytes_max in [300, 20_000, usize::MAX] {
            let (read, pieces) = read(open(&server, request.clone()).await, bytes_max).await;
            assert_eq!(read, whole, "{why}, pieces of {bytes_max} bytes");
            let bytes: usize = whole.kvs.iter().map(|pair| pair.key.len() + pair.value.len()).sum();
            assert!(
                pieces <= bytes / bytes_max.min(1 << 30) + 1,
                "{why}: {pieces} pieces of {bytes_max} bytes"
            );
        }
        let mut pieces = open(&server, request.clone()).await;
        let total: usize = whole.kvs.iter().map(size_of).sum();
        assert_eq!(pieces.measure(size).await, Ok((total as u64, whole.more)), "{why}, measured");
        let first = pieces.next(5000).await.expect("a piece");
        let rest = total - first.kvs.iter().map(size_of).sum::<usize>();
        if first.last.is_none() {
            assert_eq!(
                pieces.measure(size).await,
                Ok((rest as u64, whole.more)),
                "{why}, measured on the way"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pieces_do_not_move_with_the_store_and_end_at_a_compaction() {
    let server = filled().await;
    let all = Range { key: bytes("k"), range_end: bytes("l"), ..Range::default() };
    let whole = server.store.range(all.clone()).await.expect("range").answer;
    let mut pieces = open(&server, all).await;
    let mut kvs = pieces.next(2000).await.expect("a piece").kvs;
    server.store.delete_range(delete("k", "l")).await.expect("delete");
    let changed = server.put("k1499", "later").await;
    kvs.extend(pieces.next(50_000).await.expect("a piece").kvs);
    assert_eq!(kvs, whole.kvs[..kvs.len()], "as it was when the range was opened");
    server.store.compact(changed).await.expect("compact");
    assert_eq!(pieces.next(2000).await, Err(Error::Compacted));
    assert_eq!(pieces.measure(size).await, Err(Error::Compacted));
}
