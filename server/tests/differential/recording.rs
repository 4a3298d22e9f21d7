//! What etcd answered, in a file: `NAME.gz` holds steps and their outcomes in order, compressed.
//!
//! A recording begins on an empty store. It is made by this test against a real etcd, and holds the requests
//! themselves, so that it stays good when the stories change.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::step::{Outcome, Step};

/// Where recordings are.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/recordings")
}

/// All recordings, by name.
pub(crate) fn all() -> Vec<(String, Vec<(Step, Outcome)>)> {
    let entries = std::fs::read_dir(directory()).expect("the directory of recordings");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), read(&path)))
        .collect()
}

fn read(path: &Path) -> Vec<(Step, Outcome)> {
    let file = std::fs::read(path).expect("a recording");
    let mut bytes = Vec::new();
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).expect("a recording is compressed");
    let mut left = &bytes[..];
    let mut steps = Vec::new();
    while !left.is_empty() {
        let step = Step::take(&mut left);
        steps.push((step, Outcome::take(&mut left)));
    }
    steps
}

/// Keeps `steps` as the recording `name`.
pub(crate) fn write(name: &str, steps: &[(Step, Outcome)]) {
    let mut bytes = Vec::new();
    for (step, outcome) in steps {
        step.put(&mut bytes);
        outcome.put(&mut bytes);
    }
    let mut file = GzEncoder::new(Vec::new(), Compression::best());
    file.write_all(&bytes).expect("memory");
    let file = file.finish().expect("memory");
    std::fs::write(directory().join(format!("{name}.gz")), file).expect("the recording is written");
}
