//! Trees as tables that are read in order: no row of features takes a way of its own.
//!
//! The leaves of a tree are numbered from left to right, 32 to a *word*. A test leaves those leaves in a word that can still be
//! reached when it is known how it comes out; the bits that all tests of a word leave are the leaf, or none if the leaf is
//! in another word of the tree. Every row asks all tests, which is more than a way from root to leaf asks, but the same
//! for all rows: sixteen of them are one comparison and one conjunction of vectors, without a branch or a look-up.
//!
//! Source: C. Lucchese et al., "QuickScorer: a fast algorithm to rank documents with additive ensembles of regression
//! trees", SIGIR 2015; its order of tests by feature is left out, which takes branches.

use super::interval::{Columns, Interval};
use super::tables::{self, Ends, Reached, numbers};
use crate::build::{Builder, Result, index, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, UnaryOp};
use infc_reference::{Branch, Forest, Next};
use infc_tensor::DType;

/// Leaves in a word.
pub(super) const LEAVES: usize = 32;

/// A test of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) interval: Interval,
    /// The leaves that are left where it holds.
    pub(super) held: u32,
    /// Those that are left where it does not.
    pub(super) missed: u32,
}

/// Up to 32 neighbouring leaves of a tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    pub(super) tests: Vec<Entry>,
    /// Number of each leaf in the forest.
    pub(super) leaves: Vec<usize>,
    /// Whether this is all of its tree, so that there is always a leaf.
    pub(super) is_tree: bool,
}

/// A branch between its leaves.
struct Span {
    branch: usize,
    start: usize,
    middle: usize,
    end: usize,
}

/// The words of a forest whose features are numbers of this type; `None` if it has a test that is no interval, a tree of
/// more than so many nodes, or tables of more than so many tests ([`table_len`]).
pub(super) fn words(
    forest: &Forest,
    dtype: DType,
    (nodes, most): (usize, usize),
    columns: &mut Columns,
) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut tests = 0;
    for &root in &forest.roots {
        let (leaves, spans) = spread(forest, root, nodes)?;
        let is_tree = leaves.len() <= LEAVES;
        let word = |leaves: &[usize]| Word { tests: Vec::new(), leaves: leaves.to_vec(), is_tree };
        let mut of_tree: Vec<Word> = leaves.chunks(LEAVES).map(word).collect();
        for span in &spans {
            let interval = Interval::of(&forest.branches[span.branch], dtype, columns)?;
            let reached = span.start / LEAVES..span.end.div_ceil(LEAVES);
            tests += reached.len();
            if tests > most {
                return None;
            }
            for n in reached {
                let first = n * LEAVES;
                let then = bits(span.start, span.middle, first);
                // In a word that is a whole tree the first leaf that is left counts.
                let passed = if is_tree { u32::MAX } else { !bits(span.middle, span.end, first) };
                let (held, missed) = if interval.swapped { (!then, passed) } else { (passed, !then) };
                of_tree[n].tests.push(Entry { interval, held, missed });
            }
        }
        words.append(&mut of_tree);
    }
    (table_len(&words) <= most).then_some(words)
}

/// Tests in the tables of words, each of which has as many as the greatest.
pub(super) fn table_len(words: &[Word]) -> usize {
    words.iter().map(|word| word.tests.len()).max().unwrap_or(0) * words.len()
}

/// The bits of the leaves from `start` to `end` in the word that begins with leaf `first`.
fn bits(start: usize, end: usize, first: usize) -> u32 {
    let place = |leaf: usize| leaf.saturating_sub(first).min(LEAVES) as u32;
    let below = |n: u32| 1u32.checked_shl(n).map_or(u32::MAX, |bit| bit - 1);
    below(place(end)) & !below(place(start))
}

/// The leaves of a tree from left to right, and its branches; `None` if there are more of these than `most`.
fn spread(forest: &Forest, root: Next, most: usize) -> Option<(Vec<usize>, Vec<Span>)> {
    enum Visit {
        Enter(Next),
        Middle(usize),
        End(usize),
    }
    let (mut leaves, mut spans) = (Vec::new(), Vec::<Span>::new());
    let mut stack = vec![Visit::Enter(root)];
    while let Some(visit) = stack.pop() {
        match visit {
            Visit::Enter(Next::Leaf(leaf)) => leaves.push(leaf),
            Visit::Enter(Next::Node(branch)) => {
                let (at, start) = (spans.len(), leaves.len());
                if at >= most {
                    return None;
                }
                let Branch { then, otherwise, .. } = forest.branches[branch];
                spans.push(Span { branch, start, middle: start, end: start });
                stack.extend([Visit::End(at), Visit::Enter(otherwise), Visit::Middle(at), Visit::Enter(then)]);
            }
            Visit::Middle(at) => spans[at].middle = leaves.len(),
            Visit::End(at) => spans[at].end = leaves.len(),
        }
    }
    Some((leaves, spans))
}

/// Which leaves rows come to, of features `[columns, rows]`, in words in this order; `None` is one without leaves.
pub(super) fn reached(
    build: &mut Builder,
    columns: &Tracked,
    words: &[Word],
    order: &[Option<usize>],
) -> Result<Reached> {
    let none = Word { is_tree: true, ..Word::default() };
    let words: Vec<&Word> = order.iter().map(|n| n.map_or(&none, |n| &words[n])).collect();
    let most = words.iter().map(|word| word.tests.len()).max().unwrap_or(0).max(1);
    let shape = [words.len(), most];
    let tests = || words.iter().flat_map(|word| (0..most).map(|n| word.tests.get(n)));
    let column = |test: Option<&Entry>| test.map_or(0, |test| test.interval.column as i32);
    let places = numbers(build, "columns of tests", &shape, tests().map(column));
    // [words, tests, rows]
    let asked = build.gather(columns, &places, 0)?;
    let spread = |build: &mut Builder, table: &Tracked| build.view(table, vec![var(0), var(1)], asked.shape().to_vec());
    let intervals = tests().map(|test| test.map(|test| &test.interval));
    let ends = Ends::of(build, columns.dtype(), &shape, intervals.collect::<Vec<_>>().into_iter());
    let mut inputs = vec![asked.clone(), spread(build, &ends.most)?];
    for (name, of) in [("leaves where tests hold", true), ("leaves where they do not", false)] {
        let left = |test: &Entry| if of { test.held } else { test.missed };
        inputs.push(if tests().flatten().all(|test| left(test) == u32::MAX) {
            build.scalar(DType::I32, -1.0)
        } else {
            let bits = tests().map(|test| test.map_or(-1, |test| left(test).cast_signed()));
            let bits = numbers(build, name, &shape, bits);
            spread(build, &bits)?
        });
    }
    if let Some(least) = &ends.least {
        inputs.push(spread(build, least)?);
    }
    let inputs: Vec<&Tracked> = inputs.iter().collect();
    let left = build.map_over(asked.shape().to_vec(), &inputs, |body, p| {
        let holds = tables::holds(body, p[0], p[1], p.get(4).copied());
        body.select(holds, p[2], p[3])
    })?;
    let all = Reducer::binary(BinaryOp::And, Const::from_i64(DType::I32, -1));
    let left = build.reduce(&[&left], &[1], all, |_, p| p.to_vec())?.remove(0);
    let places = build.map(&[&left], |body, p| {
        let word = index(body, var(0).scale(LEAVES as i64));
        let word = body.cast(DType::I32, word);
        let place = lowest_bit(body, p[0]);
        body.binary(BinaryOp::Add, word, place)
    })?;
    let exists = if words.iter().all(|word| word.is_tree) {
        None
    } else {
        Some(build.map(&[&left], |body, p| {
            let none = body.constant(DType::I32, 0.0);
            body.compare(CompareOp::Ne, p[0], none)
        })?)
    };
    let leaves = words.iter().flat_map(|word| (0..LEAVES).map(|n| word.leaves.get(n).copied())).collect();
    Ok(Reached { places, exists, leaves })
}

/// The number of the lowest bit that is set, from 0 to 31; any of these if none is.
///
/// As a float the bit alone has it in its exponent; bit 31 is the sign as well, which lies beyond the five bits of the result.
fn lowest_bit(body: &mut Body, bits: ScalarId) -> ScalarId {
    let negative = body.unary(UnaryOp::Neg, bits);
    let lowest = body.binary(BinaryOp::And, bits, negative);
    let power = body.cast(DType::F32, lowest);
    let power = body.bit_cast(DType::I32, power);
    let [fraction, bias, few] = [23.0, 127.0, 31.0].map(|n| body.constant(DType::I32, n));
    let exponent = body.binary(BinaryOp::Shr, power, fraction);
    let exponent = body.binary(BinaryOp::Sub, exponent, bias);
    body.binary(BinaryOp::And, exponent, few)
}
