//! Loads that cover what accesses read.

use super::{Access, SIZE};
use crate::vir::Value;

/// Consecutive elements that are loaded at once.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Bytes from the base.
    pub(super) start: i64,
    /// Elements: fewer than a vector has lanes if there are no more.
    pub(super) len: usize,
    /// The loaded value, once there is one.
    pub(super) value: Option<Value>,
}

impl Window {
    pub(super) fn contains(&self, place: i64) -> bool {
        (self.start..self.end()).contains(&place)
    }

    /// The place behind the last element.
    fn end(&self) -> i64 {
        self.start + self.len as i64 * SIZE
    }

    /// A window with the same elements and others beside them that windows in order cover, as many as fill a vector, if there
    /// are so many: a whole load needs no mask.
    pub(super) fn filled(self, lanes: usize, covered: &[Self]) -> Self {
        let missing = (lanes - self.len.min(lanes)) as i64 * SIZE;
        let (Some(first), Some(last)) = (covered.first(), covered.last()) else { return self };
        // What lies between elements that are read can be read.
        let behind = missing.min((last.end() - self.end()).max(0));
        let start = self.start - (missing - behind);
        if start < first.start { self } else { Self { start, len: self.len.max(lanes), value: None } }
    }
}

/// Loads of so many lanes that cover all places: runs without a hole of a vector's length, from their first element on.
pub(super) fn covering(mut places: Vec<i64>, lanes: usize) -> Vec<Window> {
    places.sort_unstable();
    places.dedup();
    let width = lanes as i64 * SIZE;
    let mut windows = Vec::new();
    for run in places.chunk_by(|a, b| b - a < width) {
        let (first, end) = (run[0], run[run.len() - 1] + SIZE);
        let mut start = first;
        while start < end {
            // The last one ends where the run ends, if there is room for it.
            let from = start.min((end - width).max(first));
            windows.push(Window { start: from, len: ((end - from).min(width) / SIZE) as usize, value: None });
            start += width;
        }
    }
    windows
}

/// The windows that a result is made of, by number: the first one that has an element, unless one that is taken has it.
pub(super) fn chosen(access: &Access, windows: &[Window]) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for place in access.on() {
        if !chosen.iter().any(|&n| windows[n].contains(place)) {
            chosen.extend((0..windows.len()).find(|&n| windows[n].contains(place)));
        }
    }
    chosen
}
