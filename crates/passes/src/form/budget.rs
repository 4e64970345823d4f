//! How much larger than in the model the constants of a plan may become.
//!
//! Panels are padded, and a constant that kernels want in several arrangements is stored once for each. Both are
//! charged here as kernels are finished, in order; an arrangement that would exceed the limit is refused, and the
//! kernel reads the constant as it is.

use super::log::Refusal;
use super::narrow::half_of;
use super::plan::Packing;
use infc_ir::entity::ValueId;
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use infc_tensor::{DType, Tensor};
use std::collections::{BTreeMap, HashSet};

/// Growth that is never refused, so that padding does not count where all constants together are small.
const SLACK_BYTES: u64 = 64 << 10;

/// Growth that is not refused for being much of little, if there may be any: a process that runs a model takes as much in
/// any case, and convolutions of a network of a megabyte gain as much by minimal filtering as others.
pub(super) const FREE_BYTES: u64 = 4 << 20;

/// What may still be spent.
pub(super) struct WeightBudget {
    left_bytes: u64,
    /// Bytes of each constant as it is; in halves if that is what it is.
    original_bytes: BTreeMap<ValueId, u64>,
    /// The half types that hold constants.
    halves: BTreeMap<ValueId, DType>,
    /// The arrangements that are stored.
    stored: HashSet<(ValueId, Packing)>,
    /// Constants that have an arrangement already.
    placed: HashSet<ValueId>,
    /// What was refused.
    pub(super) refusals: Vec<Refusal>,
}

impl WeightBudget {
    /// `max_growth` is the size of all constants in the plan over their size in the graph; 1 allows next to nothing.
    pub(super) fn new(graph: &Graph, max_growth: f64) -> Self {
        let constants = || {
            graph.order.iter().map(|&id| &graph.nodes[id]).filter_map(|node| match &node.op {
                Op::Constant(constant) => Some((*node.outputs.first()?, &constant.tensor)),
                _ => None,
            })
        };
        let halves: BTreeMap<ValueId, DType> =
            constants().filter_map(|(value, tensor)| Some((value, half_of(tensor)?))).collect();
        let bytes = |(value, tensor): (ValueId, &Tensor)| {
            let parts = if halves.contains_key(&value) { 2 } else { 1 };
            (value, tensor.bytes().len() as u64 / parts)
        };
        let original_bytes: BTreeMap<ValueId, u64> = constants().map(bytes).collect();
        let total: u64 = original_bytes.values().sum();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped, and a limit of bytes")]
        let growth = (total as f64 * (max_growth - 1.0).max(0.0)) as u64;
        let growth = if max_growth > 1.0 { growth.max(FREE_BYTES) } else { growth };
        Self {
            left_bytes: growth.saturating_add(SLACK_BYTES),
            original_bytes,
            halves,
            stored: HashSet::new(),
            placed: HashSet::new(),
            refusals: Vec::new(),
        }
    }

    /// The half type that holds a constant.
    pub(super) fn half_of(&self, value: ValueId) -> Option<DType> {
        self.halves.get(&value).copied()
    }

    /// Bytes of all constants as they are.
    pub(super) fn original_bytes(&self) -> u64 {
        self.original_bytes.values().sum()
    }

    /// Bytes by which constants may still grow.
    pub(super) const fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Whether a constant may be stored in this arrangement too; if so, it is charged.
    pub(super) fn admits(&mut self, graph: &Graph, value: ValueId, packing: &Packing) -> bool {
        // What is no constant of the graph is computed when the model runs, and takes no place in the file.
        let Some(&original) = self.original_bytes.get(&value) else { return true };
        if self.stored.contains(&(value, packing.clone())) {
            return true;
        }
        let elem_bytes = graph.ty(value).dtype.size_bytes().unwrap_or(1) as u64;
        let packed = packing.len_bytes(elem_bytes).unwrap_or(u64::MAX);
        let cost = if self.placed.contains(&value) { packed } else { packed.saturating_sub(original) };
        if cost > self.left_bytes {
            if let Some((node, producer)) = graph.producer(value) {
                let origins = graph.origins.get(producer.origin).cloned().unwrap_or_default();
                self.refusals.push(Refusal {
                    node,
                    origins,
                    reason: "weights not packed: they would grow beyond --max-weight-growth",
                });
            }
            return false;
        }
        self.left_bytes -= cost;
        self.placed.insert(value);
        self.stored.insert((value, packing.clone()));
        true
    }
}
