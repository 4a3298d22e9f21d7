//! What the engine must answer: a map of versions, and etcd's rule in its plainest form.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::types::{Revision, Space};
use crate::{Direction, KeyRange};

/// A version with its value's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) key: Bytes,
    pub(crate) revision: Revision,
    pub(crate) create: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
    pub(crate) value: Option<Bytes>,
}

/// Every version ever written, oldest first for each key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) versions: BTreeMap<(Space, Bytes), Vec<Plain>>,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
}

impl Model {
    pub(crate) fn latest(&self, space: Space, key: &[u8]) -> Option<&Plain> {
        let newest = self.versions.get(&(space, Bytes::copy_from_slice(key)))?.last()?;
        newest.value.as_ref().map(|_| newest)
    }

    pub(crate) fn push(&mut self, space: Space, plain: Plain) {
        self.versions.entry((space, plain.key.clone())).or_default().push(plain);
    }

    /// Forgets what came after `revision`.
    pub(crate) fn cut(&mut self, revision: i64, compacted: i64) {
        (self.revision, self.compacted) = (revision, compacted);
        for versions in self.versions.values_mut() {
            versions.retain(|version| version.revision.main <= revision);
        }
    }

    pub(crate) fn scan(&self, space: Space, range: &KeyRange, main: i64, direction: Direction) -> Vec<Plain> {
        let mut found: Vec<Plain> = self
            .in_range(space, range)
            .filter_map(|versions| versions.iter().rev().find(|version| version.revision.main <= main))
            .filter(|version| version.value.is_some())
            .cloned()
            .collect();
        if direction == Direction::Backward {
            found.reverse();
        }
        found
    }

    pub(crate) fn history(&self, space: Space, range: &KeyRange, from: i64, to: i64) -> Vec<Plain> {
        let mut found = Vec::new();
        for versions in self.in_range(space, range) {
            let newest_compacted =
                versions.iter().rposition(|version| version.revision.main <= self.compacted);
            for (at, version) in versions.iter().enumerate() {
                let kept = match newest_compacted {
                    None => true,
                    Some(newest) if at == newest => {
                        version.value.is_some() || version.revision.main == self.compacted
                    }
                    Some(newest) => at > newest,
                };
                if kept && (from..=to).contains(&version.revision.main) {
                    found.push(version.clone());
                }
            }
        }
        found.sort_by_key(|version| version.revision);
        found
    }

    fn in_range(&self, space: Space, range: &KeyRange) -> impl Iterator<Item = &Vec<Plain>> {
        let inside =
            move |entry: &(&(Space, Bytes), &Vec<Plain>)| entry.0.0 == space && range.contains(&entry.0.1);
        self.versions.iter().filter(inside).map(|(_, versions)| versions)
    }
}
