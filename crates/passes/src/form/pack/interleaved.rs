//! How many sums each column of a contraction is taken apart into, so that fewer lanes stay empty.
//!
//! Vectors of columns leave lanes empty where columns are few, or a few more than fill vectors: 24 take as long as 32.
//! Taken apart into two sums per column (`formulate::interleave`), they are 48 lanes of three vectors for two points at a
//! time. In the end the sums of a column, which lie next to each other, are added up, which takes a few instructions per
//! vector.

use super::{MIN_COLUMNS, PANEL, lanes_per_row, whole_vectors};

/// Sums that a column may be taken apart into.
const SUMS: [i64; 3] = [2, 4, 8];

/// Lanes of multiply-adds that it takes as long as to halve the sums of a vector: it is stored, loaded in two parts, and
/// these added.
const HALVING: i64 = 4 * PANEL;

/// The part of the time that has to be saved at least.
const LEAST_GAIN: f64 = 0.07;

/// Lanes of multiply-adds that a row of sums takes if columns are taken apart.
fn lanes_apart(columns: i64, points: i64, sums: i64) -> i64 {
    let lanes = whole_vectors(columns.saturating_mul(sums));
    let halvings = i64::from(sums.ilog2());
    (lanes / sums).saturating_mul(points).saturating_add(lanes / PANEL * HALVING * halvings)
}

/// The sums into which a contraction takes each of its columns apart, as many lanes as fill vectors: of `points` that are
/// summed, `innermost` next to each other. `None` if that does not take clearly less than columns that stay together.
pub(crate) fn sums(columns: i64, points: i64, innermost: i64) -> Option<i64> {
    // In a vector that is not full, conditions on lanes cost more than is gained.
    let is_whole = |sums: &i64| columns.checked_mul(*sums).is_some_and(|lanes| lanes % PANEL == 0);
    let possible = SUMS.into_iter().filter(|sums| innermost % sums == 0).filter(is_whole);
    let (lanes, sums) = possible.map(|sums| (lanes_apart(columns, points, sums), sums)).min()?;
    let pays = lanes as f64 <= lanes_per_row(columns, points, innermost) as f64 * (1.0 - LEAST_GAIN);
    (columns >= MIN_COLUMNS && pays).then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::sums as of;

    #[test]
    fn columns_that_leave_lanes_empty_are_taken_apart() {
        assert_eq!(of(24, 320, 320), Some(2), "three vectors instead of four");
        assert_eq!(of(24, 9 * 112, 112), Some(2));
        assert_eq!(of(8, 40, 40), Some(2));
        assert_eq!(of(12, 9 * 64, 64), Some(4), "three vectors for four points");
        assert_eq!(of(24, 320, 5), None, "pairs would be of two rows of what is summed");
        assert_eq!(of(32, 320, 320), None);
        assert_eq!(of(200, 1000, 1000), None, "a thirteenth is not worth it");
        assert_eq!(of(24, 8, 8), None, "adding them up takes longer");
        assert_eq!(of(3, 40, 40), None, "these lie one after the other");
        assert_eq!(of(21, 320, 320), None, "a vector of six lanes would be left over");
        assert_eq!(of(18, 1600, 1600), Some(8));
    }
}
