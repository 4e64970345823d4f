//! Graph → graph passes: from what an importer makes to what kernel formation likes to see.
//!
//! A pass is one function `run(&mut Graph, &PassContext) -> Result<Changed, PassError>` in one file. Peephole passes are
//! arrays of rules, each under the equation it applies ([`rewrite`]). [`optimize`] runs [`PIPELINE`] until nothing
//! changes. Every pass keeps the meaning that `infc_ir::interp` gives the graph, up to the rounding of floats.
//!
//! Where a rewrite of note is refused, the reason goes to [`PassContext::note`].

mod aimed;
pub mod blocked_scan;
pub mod branch_fold;
pub mod composites;
pub mod contract;
pub mod count;
pub mod cse;
pub mod dce;
pub mod evaluate;
pub mod fold;
pub mod hoist;
pub mod horizontal;
pub mod lift;
pub mod map;
pub mod movement;
pub mod precision;
pub mod quantize;
pub mod recognize;
pub mod rewrite;
pub mod scalar;
pub mod scale_fold;
pub mod split_k;
pub mod tabulate;
pub mod taps;
pub mod term;
pub mod view;
mod weighted;

use crate::ErrorClass;
use indexmap::IndexSet;
use infc_ir::entity::NodeId;
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Whether a pass changed the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It did.
    Yes,
    /// It did not.
    No,
}

impl Changed {
    /// Changed if either was.
    #[must_use]
    pub fn or(self, other: Changed) -> Changed {
        if self == Changed::Yes { self } else { other }
    }
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Changed::Yes } else { Changed::No }
    }
}

/// What a pass can fail with. All of these are errors of whoever made the graph, not of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// A node reads an element that its operand does not have.
    #[error("node {node} reads element {index} of an operand of {len_elems} elements")]
    OutOfBounds {
        /// The node.
        node: NodeId,
        /// Flat index.
        index: i64,
        /// Elements that there are.
        len_elems: usize,
    },
    /// A node's operands do not fit its operation.
    #[error("node {node}: {expected}")]
    Malformed {
        /// The node.
        node: NodeId,
        /// What should hold.
        expected: &'static str,
    },
}

/// What passes may decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassOptions {
    /// Merge contractions of one input with several constant operands ([`horizontal`]).
    pub horizontal: bool,
    /// A folded constant may be as large as its inputs, or this large, whichever is more.
    pub fold_limit_bytes: usize,
    /// How often at most [`optimize`] goes through the pipeline.
    pub max_rounds: u32,
    /// [`optimize`] leaves out passes of a higher class.
    pub allowed: ErrorClass,
}

impl Default for PassOptions {
    fn default() -> Self {
        Self { horizontal: false, fold_limit_bytes: 1 << 20, max_rounds: 12, allowed: ErrorClass::Reassociating }
    }
}

/// Why a rewrite did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The pass that says so.
    pub pass: &'static str,
    /// The node it is about.
    pub node: NodeId,
    /// The reason.
    pub reason: &'static str,
}

/// What passes share: options, and the log of refusals.
#[derive(Debug, Default)]
pub struct PassContext {
    /// See [`PassOptions`].
    pub options: PassOptions,
    pass: Cell<&'static str>,
    /// Whether a graph around the one at hand takes something for granted of its dims.
    takes_for_granted: Cell<bool>,
    notes: RefCell<IndexSet<Note>>,
}

impl PassContext {
    /// A context with the given options.
    #[must_use]
    pub fn new(options: PassOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Says whether the graph may be never run though nothing is taken for granted of its dims.
    #[must_use]
    pub fn of_what_may_never_run(self, may_never_run: bool) -> Self {
        self.takes_for_granted.set(may_never_run);
        self
    }

    /// True if the graph, or one around it, takes something for granted of its dims or requires it: what cannot be
    /// computed in it may be what is never run.
    fn may_never_run(&self, graph: &Graph) -> bool {
        self.takes_for_granted.get() || !graph.assumptions.is_empty() || !graph.requires.is_empty()
    }

    /// Says why a rewrite of this node was refused. Said twice, it is kept once.
    pub fn note(&self, node: NodeId, reason: &'static str) {
        self.notes.borrow_mut().insert(Note { pass: self.pass.get(), node, reason });
    }

    /// All that was noted, in order.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        self.notes.borrow().iter().cloned().collect()
    }
}

/// A pass with its name.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// As it appears in logs and dumps.
    pub name: &'static str,
    /// Does it.
    pub run: fn(&mut Graph, &PassContext) -> Result<Changed, PassError>,
    /// How far its rewrites may move results.
    pub class: ErrorClass,
}

impl Pass {
    const fn exact(name: &'static str, run: fn(&mut Graph, &PassContext) -> Result<Changed, PassError>) -> Self {
        Self { name, run, class: ErrorClass::Exact }
    }

    const fn reassociating(
        name: &'static str,
        run: fn(&mut Graph, &PassContext) -> Result<Changed, PassError>,
    ) -> Self {
        Self { name, run, class: ErrorClass::Reassociating }
    }
}

/// All passes in the order in which a round runs them.
///
/// Recognition reads through maps and so does not depend on how far [`map`] has fused them; it does need the views
/// composed ([`view`]) and scalar constants inside bodies ([`map`]), so patterns that are hidden in the first round
/// show in the second. It counts as reassociating because a composite's body need not associate factors and shifts as
/// the spelled-out form did.
///
/// [`quantize`] comes before [`fold`] and [`map`]: dequantised weights are constants, and a quantisation fuses with the
/// dequantisation after it.
pub const PIPELINE: &[Pass] = &[
    Pass::exact("dce", dce::run),
    Pass::exact("cse", cse::run),
    Pass::exact("view", view::run),
    Pass::reassociating("quantize", quantize::run),
    Pass::exact("fold", fold::run),
    Pass::reassociating("recognize", recognize::run),
    Pass::exact("contract", contract::run),
    Pass::reassociating("taps", taps::run),
    Pass::exact("count", count::run),
    Pass::exact("map", map::run),
    Pass::exact("hoist", hoist::run),
    Pass::exact("lift", lift::run),
    Pass::reassociating("scale-fold", scale_fold::run),
    Pass::reassociating("branch-fold", branch_fold::run),
    Pass::exact("horizontal", horizontal::run),
];

/// Runs the [`PIPELINE`] until a whole round changes nothing, or [`PassOptions::max_rounds`] are over.
///
/// # Errors
/// As the passes.
pub fn optimize(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    let around = cx.takes_for_granted.get();
    cx.takes_for_granted.set(cx.may_never_run(graph));
    let result = optimize_within(graph, cx);
    cx.takes_for_granted.set(around);
    result
}

/// [`optimize`], when the context knows what is taken for granted.
fn optimize_within(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    let mut any = Changed::No;
    for _ in 0..cx.options.max_rounds {
        let mut round = Changed::No;
        for pass in PIPELINE.iter().filter(|pass| pass.class <= cx.options.allowed) {
            round = round.or(run_pass(pass, graph, cx)?);
        }
        any = any.or(round);
        if round == Changed::No {
            break;
        }
    }
    dce::run(graph, cx)?;
    for id in graph.order.clone() {
        for body in bodies(&mut graph.nodes[id].op) {
            // A body that is shared is copied only if something changes in it.
            let mut inner = body.as_ref().clone();
            if optimize(&mut inner, cx)? == Changed::Yes {
                *body = Arc::new(inner);
                any = Changed::Yes;
            }
        }
    }
    Ok(any)
}

/// The graphs inside of an operation that are computed as they are. That of a composite is its definition and stays.
fn bodies(op: &mut Op) -> Vec<&mut Arc<Graph>> {
    match op {
        Op::Recurrence(recurrence) => vec![&mut recurrence.body],
        Op::If(branches) => vec![&mut branches.then, &mut branches.otherwise],
        Op::Constant(_)
        | Op::Map(_)
        | Op::View(_)
        | Op::Reduce(_)
        | Op::Contract(_)
        | Op::Gather(_)
        | Op::Concat(_)
        | Op::Scan(_)
        | Op::DimValue(_)
        | Op::Host(_)
        | Op::Composite(_) => Vec::new(),
    }
}

/// Runs one pass under its name.
///
/// # Errors
/// As the pass.
pub fn run_pass(pass: &Pass, graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    cx.pass.set(pass.name);
    (pass.run)(graph, cx)
}
