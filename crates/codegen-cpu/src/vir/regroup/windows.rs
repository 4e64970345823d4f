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
        (self.start..self.start + self.len as i64 * SIZE).contains(&place)
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
