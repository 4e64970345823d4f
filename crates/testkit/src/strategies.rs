//! Proptest strategies for index expressions, kernels and graphs.
//!
//! A strategy draws a list of numbers, and a generator takes its choices from the list; when the list is used up, every
//! further choice is the first, which is always the simplest. Shrinking the list therefore shrinks the structure.
//!
//! Kernels and graphs are valid, small, and can be interpreted on any inputs: what could lie outside is guarded.

mod body;
mod graph;
mod index;
mod kernel;

pub use graph::graphs;
pub use index::{IndexCase, access_maps, index_exprs};
pub use kernel::{exact_kernel, exact_kernels, kernels};

use proptest::prelude::*;

/// Choices drawn from a list of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    numbers: std::vec::IntoIter<u16>,
    /// Only arithmetic that is the same on every machine: floats are neither multiplied, which may be fused with a sum,
    /// nor taken to functions that are approximated.
    exact: bool,
}

impl Choices {
    pub(crate) fn new(numbers: Vec<u16>) -> Self {
        Self { numbers: numbers.into_iter(), exact: false }
    }

    pub(crate) fn exact(numbers: Vec<u16>) -> Self {
        Self { exact: true, ..Self::new(numbers) }
    }

    /// Whether floats are only added and compared.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    /// From 0 to `options − 1`; 0 when the list is used up.
    pub(crate) fn pick(&mut self, options: usize) -> usize {
        usize::from(self.numbers.next().unwrap_or(0)) % options.max(1)
    }

    /// One of several, the first when the list is used up.
    pub(crate) fn of<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.pick(options.len())].clone()
    }

    /// True once in `n`, never when the list is used up.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }

    /// From `from` to `to`, both included.
    pub(crate) fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.pick((to - from + 1) as usize) as i64
    }
}

/// A strategy from a generator.
fn generated<T: std::fmt::Debug>(
    length: usize,
    generate: impl Fn(&mut Choices) -> T + Clone,
) -> impl Strategy<Value = T> + Clone {
    prop::collection::vec(any::<u16>(), 0..length).prop_map(move |numbers| generate(&mut Choices::new(numbers)))
}
