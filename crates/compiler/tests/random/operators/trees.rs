//! Ensembles of trees.

use super::Drawer;
use crate::draft::{Candidate, Draft};
use infc_tensor::{Attribute, DType};

pub(super) const DRAWERS: &[Drawer] = &[regressor];

/// Most leaves of a tree: three words of them.
const MOST_LEAVES: i64 = 70;

fn regressor(d: &mut Draft) -> Option<Candidate> {
    let is_table = |dtype: DType| matches!(dtype, DType::F32 | DType::F64 | DType::I64);
    let x = d.any(|t| is_table(t.dtype()) && t.rank() == 2 && t.shape()[1] > 0)?;
    let features = d.shape(x)[1] as i64;
    let (trees, targets) = (d.random.between(1, 4), d.random.between(1, 3));
    let leaves = d.random.between(1, MOST_LEAVES);
    let mut nodes: [Vec<i64>; 6] = Default::default();
    let (mut modes, mut splits) = (Vec::new(), Vec::new());
    let (mut of_leaves, mut weights): ([Vec<i64>; 3], Vec<f32>) = Default::default();
    let kinds: &[&str] = if d.random.one_in(2) { &["BRANCH_LEQ"] } else { &["BRANCH_LT", "BRANCH_GTE", "BRANCH_EQ"] };
    for tree in 0..trees {
        // A heap of so many inner nodes: those of its children from twice its number on.
        let inner = d.random.between(0, leaves - 1);
        for node in 0..2 * inner + 1 {
            let is_leaf = node >= inner;
            let passes = !is_leaf && kinds.len() == 1 && d.random.one_in(2);
            let feature = d.random.between(0, features - 1);
            let children = if is_leaf { [0, 0] } else { [2 * node + 1, 2 * node + 2] };
            for (list, value) in nodes.iter_mut().zip([tree, node, feature, children[0], children[1], passes.into()]) {
                list.push(value);
            }
            modes.push(if is_leaf { "LEAF" } else { *d.random.pick(kinds) }.to_owned());
            splits.push(d.random.between(-8, 8) as f32 / 4.0);
            if is_leaf {
                for (list, value) in of_leaves.iter_mut().zip([tree, node, tree % targets]) {
                    list.push(value);
                }
                weights.push(d.random.between(-16, 16) as f32 / 8.0);
            }
        }
    }
    let names = ["treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "missing_value_tracks_true"];
    let candidate = Candidate::new("TreeEnsembleRegressor", &[x]).of("ai.onnx.ml").with("n_targets", targets);
    let candidate = names.iter().zip(nodes).fold(candidate, |c, (name, list)| c.with(&format!("nodes_{name}"), list));
    let candidate = candidate.with("nodes_modes", Attribute::Strings(modes)).with("nodes_values", splits);
    let names = ["treeids", "nodeids", "ids"];
    let candidate =
        names.iter().zip(of_leaves).fold(candidate, |c, (name, list)| c.with(&format!("target_{name}"), list));
    Some(candidate.with("target_weights", weights))
}
