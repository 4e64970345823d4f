//! Trees over features, as the attributes of the three operators write them down.
//!
//! The two older operators list nodes by the ids of tree and node, the new one by position; both become [`Forest`].

use crate::error::{EvalError, Result};
use crate::numeric::read_as_f64;
use infc_tensor::Attributes;
use std::collections::HashMap;

/// What a branch asks of a feature; of a NaN nothing holds but that it differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `x ≤ split`
    AtMost(f64),
    /// `x < split`
    Less(f64),
    /// `x ≥ split`
    AtLeast(f64),
    /// `x > split`
    Greater(f64),
    /// `x = split`
    Equal(f64),
    /// `x ≠ split`
    Differs(f64),
    /// One of these.
    Among(Vec<f64>),
}

impl Test {
    pub(super) fn holds(&self, x: f64) -> bool {
        match self {
            Test::AtMost(split) => x <= *split,
            Test::Less(split) => x < *split,
            Test::AtLeast(split) => x >= *split,
            Test::Greater(split) => x > *split,
            Test::Equal(split) => x == *split,
            Test::Differs(split) => x != *split,
            Test::Among(set) => set.contains(&x),
        }
    }
}

/// What a branch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The branch of that number.
    Node(usize),
    /// The leaf of that number.
    Leaf(usize),
}

/// A node that leads on.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The feature that is asked.
    pub feature: usize,
    /// What it is asked.
    pub test: Test,
    /// Whether a missing value (NaN) takes the way of those that pass.
    pub missing_passes: bool,
    /// Where those go that pass.
    pub then: Next,
    /// Where the others go.
    pub otherwise: Next,
}

/// Trees over shared lists of nodes and leaves; a leaf has weights for targets.
#[derive(Clone, Debug, Default)]
pub struct Forest {
    /// All that lead on.
    pub branches: Vec<Branch>,
    /// The weights of each leaf, with the targets they are for.
    pub leaves: Vec<Vec<(usize, f64)>>,
    /// Where each tree begins.
    pub roots: Vec<Next>,
}

pub(super) fn bad<T>(name: &'static str, reason: &'static str) -> Result<T> {
    Err(EvalError::InvalidAttribute { name, reason })
}

impl Forest {
    /// The forest of a `TreeEnsembleRegressor` or `TreeEnsembleClassifier`; else that of a `TreeEnsemble`.
    ///
    /// # Errors
    /// [`EvalError::InvalidAttribute`] if lists do not fit together or refer to what is not there.
    pub fn read(op_type: &str, attributes: &Attributes) -> Result<Self> {
        match op_type {
            "TreeEnsembleRegressor" => Self::of_ids(attributes, "target", "target_ids"),
            "TreeEnsembleClassifier" => Self::of_ids(attributes, "class", "class_ids"),
            _ => Self::of_positions(attributes),
        }
    }

    /// From the lists of `TreeEnsemble`, by position.
    fn of_positions(attributes: &Attributes) -> Result<Self> {
        let index = |list: &[i64], n: usize, name: &'static str, len: usize| -> Result<usize> {
            let found = list.get(n).copied().and_then(|v| usize::try_from(v).ok()).filter(|&v| v < len);
            found.ok_or(EvalError::InvalidAttribute { name, reason: "it is too short, or refers to what is not there" })
        };
        let ints = |name: &'static str| -> Result<&[i64]> { Ok(attributes.ints(name)?.unwrap_or_default()) };
        let tensor =
            |name: &'static str| -> Result<Vec<f64>> { attributes.tensor(name)?.map_or(Ok(Vec::new()), read_as_f64) };
        let (features, modes, splits) = (ints("nodes_featureids")?, tensor("nodes_modes")?, tensor("nodes_splits")?);
        let (then, otherwise) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let (then_leaf, otherwise_leaf) = (ints("nodes_trueleafs")?, ints("nodes_falseleafs")?);
        let missing = ints("nodes_missing_value_tracks_true")?;
        let (targets, weights) = (ints("leaf_targetids")?, tensor("leaf_weights")?);
        super::long_enough(&weights, targets.len(), "leaf_weights")?;
        let mut leaves = Vec::with_capacity(targets.len());
        for (n, &weight) in weights.iter().enumerate() {
            leaves.push(vec![(index(targets, n, "leaf_targetids", usize::MAX)?, weight)]);
        }
        // The members of sets, in the order of the nodes that test for them, each set ended by a NaN.
        let members = tensor("membership_values")?;
        let mut sets = members.split(|v| v.is_nan());
        let count = features.len();
        let mut branches = Vec::with_capacity(count);
        for n in 0..count {
            let Some((&mode, &split)) = modes.get(n).zip(splits.get(n)) else {
                return bad("nodes_modes", "it is not as long as the others need it to be");
            };
            let test = match mode as i64 {
                0 => Test::AtMost(split),
                1 => Test::Less(split),
                2 => Test::AtLeast(split),
                3 => Test::Greater(split),
                4 => Test::Equal(split),
                5 => Test::Differs(split),
                6 => Test::Among(sets.next().unwrap_or_default().to_vec()),
                _ => return bad("nodes_modes", "a mode is not known"),
            };
            let next = |nodes: &[i64], leaf: &[i64], name: &'static str| -> Result<Next> {
                Ok(if leaf.get(n).is_some_and(|&is_leaf| is_leaf != 0) {
                    Next::Leaf(index(nodes, n, name, leaves.len())?)
                } else {
                    Next::Node(index(nodes, n, name, count)?)
                })
            };
            branches.push(Branch {
                feature: index(features, n, "nodes_featureids", usize::MAX)?,
                test,
                missing_passes: missing.get(n).is_some_and(|&passes| passes != 0),
                then: next(then, then_leaf, "nodes_truenodeids")?,
                otherwise: next(otherwise, otherwise_leaf, "nodes_falsenodeids")?,
            });
        }
        let roots = ints("tree_roots")?;
        let roots = (0..roots.len()).map(|n| Ok(Next::Node(index(roots, n, "tree_roots", count)?)));
        let roots = roots.collect::<Result<_>>()?;
        Ok(Self { branches, leaves, roots })
    }

    /// From the lists of the older operators; leaves have weights in lists that begin with `prefix`.
    fn of_ids(attributes: &Attributes, prefix: &'static str, ids: &'static str) -> Result<Self> {
        let ints = |name: &str| -> Result<&[i64]> { Ok(attributes.ints(name)?.unwrap_or_default()) };
        let floats = |name: &str| -> Result<Vec<f64>> {
            if let Some(tensor) = attributes.tensor(&format!("{name}_as_tensor"))? {
                return read_as_f64(tensor);
            }
            let list = attributes.floats(name)?.unwrap_or_default();
            Ok(list.iter().copied().map(f64::from).collect())
        };
        let (trees, nodes) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let (features, values) = (ints("nodes_featureids")?, floats("nodes_values")?);
        let (then, otherwise) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let missing = ints("nodes_missing_value_tracks_true")?;
        let modes = attributes.strings("nodes_modes")?.unwrap_or_default();
        let count = nodes.len();
        for (list, name) in [
            (trees, "nodes_treeids"),
            (features, "nodes_featureids"),
            (then, "nodes_truenodeids"),
            (otherwise, "nodes_falsenodeids"),
        ] {
            super::long_enough(list, count, name)?;
        }
        super::long_enough(&values, count, "nodes_values")?;
        super::long_enough(modes, count, "nodes_modes")?;
        let mut weights: HashMap<(i64, i64), Vec<(usize, f64)>> = HashMap::new();
        let of_leaf = |what: &str| format!("{prefix}_{what}");
        let (leaf_trees, leaf_nodes) = (ints(&of_leaf("treeids"))?, ints(&of_leaf("nodeids"))?);
        let (leaf_targets, leaf_weights) = (ints(&of_leaf("ids"))?, floats(&of_leaf("weights"))?);
        super::long_enough(leaf_trees, leaf_weights.len(), ids)?;
        super::long_enough(leaf_nodes, leaf_weights.len(), ids)?;
        super::long_enough(leaf_targets, leaf_weights.len(), ids)?;
        for (n, &weight) in leaf_weights.iter().enumerate() {
            let target = usize::try_from(leaf_targets[n]).or_else(|_| bad(ids, "it must not be negative"))?;
            weights.entry((leaf_trees[n], leaf_nodes[n])).or_default().push((target, weight));
        }
        let mut forest = Self::default();
        let mut places: HashMap<(i64, i64), Next> = HashMap::new();
        let mut numbered = 0;
        for n in 0..count {
            let key = (trees[n], nodes[n]);
            let next = if modes[n] == "LEAF" {
                forest.leaves.push(weights.remove(&key).unwrap_or_default());
                Next::Leaf(forest.leaves.len() - 1)
            } else {
                numbered += 1;
                Next::Node(numbered - 1)
            };
            // The first node of a tree is its root.
            if n == 0 || trees[n - 1] != trees[n] {
                forest.roots.push(next);
            }
            places.insert(key, next);
        }
        for n in (0..count).filter(|&n| modes[n] != "LEAF") {
            let find = |node: i64| {
                places.get(&(trees[n], node)).copied().map_or_else(|| bad("nodes_nodeids", "a node is missing"), Ok)
            };
            forest.branches.push(Branch {
                feature: usize::try_from(features[n])
                    .or_else(|_| bad("nodes_featureids", "it must not be negative"))?,
                test: match modes[n].as_str() {
                    "BRANCH_LEQ" => Test::AtMost(values[n]),
                    "BRANCH_LT" => Test::Less(values[n]),
                    "BRANCH_GTE" => Test::AtLeast(values[n]),
                    "BRANCH_GT" => Test::Greater(values[n]),
                    "BRANCH_EQ" => Test::Equal(values[n]),
                    "BRANCH_NEQ" => Test::Differs(values[n]),
                    _ => return bad("nodes_modes", "a mode is not known"),
                },
                missing_passes: missing.get(n).is_some_and(|&passes| passes != 0),
                then: find(then[n])?,
                otherwise: find(otherwise[n])?,
            });
        }
        Ok(forest)
    }
}
