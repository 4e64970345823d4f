//! What records of schedules and of choices have in common: by how much what they say was quicker, measured where and how.

use serde::Serialize;

/// What there is one best record for: kernel (or question), target, machine, threads, whether sums keep their order.
pub type Place<'r> = (&'r str, &'r str, &'r str, usize, bool);

/// What a record says that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Seconds of what the record is for.
    pub seconds: f64,
    /// The same of what it is quicker than, measured in turns with it.
    pub default_seconds: f64,
    /// The upper end of the 95 % interval of the one over the other.
    pub ratio_at_most: f64,
}

impl Times {
    /// Fails with what is expected and found if no measurement by so many threads gives such numbers.
    pub(crate) fn check(&self, threads: usize) -> Result<(), String> {
        let &Self { seconds, default_seconds, ratio_at_most: at_most } = self;
        for (what, number) in [("seconds", seconds), ("default_seconds", default_seconds), ("ratio_at_most", at_most)] {
            if !(number.is_finite() && number > 0.0) {
                return Err(format!("{what}: expected a number above 0, found {number}"));
            }
        }
        if at_most >= 1.0 {
            return Err(format!("ratio_at_most: expected a number below 1, found {at_most}"));
        }
        let ratio = seconds / default_seconds;
        // The quotient was rounded twice.
        if ratio.is_nan() || ratio > at_most * (1.0 + 1e-9) {
            return Err(format!(
                "seconds over default_seconds: expected {at_most} at most (ratio_at_most), found {ratio}"
            ));
        }
        if threads == 0 {
            return Err("threads: expected 1 or more, found 0".to_owned());
        }
        Ok(())
    }
}

/// The line of a record.
pub(crate) fn line(record: &impl Serialize) -> String {
    let mut line = serde_json::to_string(record).unwrap_or_default();
    line.push('\n');
    line
}

/// A line of a file of records, of either kind.
pub trait Proven {
    /// What was measured.
    fn times(&self) -> Times;

    /// See [`Place`].
    fn place(&self) -> Place<'_>;

    /// The line, with its end.
    fn to_line(&self) -> String;

    /// Its time over that of what it is quicker than; smaller is better.
    fn ratio(&self) -> f64 {
        let Times { seconds, default_seconds, .. } = self.times();
        seconds / default_seconds
    }

    /// Whether it is the better of two for one place: by what is proven, not by what is likely. Of records that are equal
    /// in all numbers one is still the better, so that merging does not depend on the order of files.
    fn is_better_than(&self, other: &Self) -> bool {
        let order = self.times().ratio_at_most.total_cmp(&other.times().ratio_at_most);
        let order = order.then_with(|| self.ratio().total_cmp(&other.ratio()));
        order.then_with(|| self.to_line().cmp(&other.to_line())).is_lt()
    }

    /// Whether a compilation for so many threads takes it before another one for the same kernel or question: what was measured
    /// with as many comes first.
    fn is_taken_before(&self, other: &Self, threads: Option<usize>) -> bool {
        let fits = |record: &Self| Some(record.place().3) == threads;
        if fits(self) == fits(other) { self.is_better_than(other) } else { fits(self) }
    }
}
