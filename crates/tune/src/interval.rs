//! Medians, and how sure they are.

/// The middle of values, once they are sorted: of an even number what lies between two. `None` of none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let &upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The lower end, the median and the upper end: an interval that encloses the median of the distribution with this probability
/// at least; `None` if there are too few values for that. Its ends are two of the sorted values, which by the binomial
/// distribution enclose it whatever the distribution is (David and Nagaraja, "Order Statistics", 2003, section 7.1).
#[must_use]
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The k smallest values are all below the median with the probability of at least n - k + 1 heads of n coins...
    let mut left_out = None;
    let mut tail = 0.0;
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    for k in 0..n / 2 {
        // ... so `tail` is that of at most k values below the median.
        tail += log_term.exp();
        if tail > (1.0 - confidence) / 2.0 {
            break;
        }
        left_out = Some(k);
        log_term += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    let k = left_out?;
    Some((sorted[k], median(&sorted)?, sorted[n - 1 - k]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_binomial_distribution() {
        // Tables of the sign test: of 20 values the 6th and 15th, of 6 all, of 5 none at 95 %.
        let values = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_interval(&values(20), 0.95), Some((6.0, 10.5, 15.0)));
        assert_eq!(median_interval(&values(6), 0.95), Some((1.0, 3.5, 6.0)));
        assert_eq!(median_interval(&values(5), 0.95), None);
        // Many: the normal approximation, n/2 ± 0.98 √n.
        let (lower, _, upper) = median_interval(&values(10_000), 0.95).unwrap();
        assert!((lower - 4902.0).abs() <= 1.0 && (upper - 5099.0).abs() <= 1.0, "{lower} {upper}");
    }
}
