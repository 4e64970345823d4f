//! Ensembles of trees, small ones by all tests at once and large ones node by node.

use super::Case;
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use infc_tensor::Tensor;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }

    /// One of few numbers, so that features meet splits.
    fn split(&mut self) -> f32 {
        [-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, f32::INFINITY][self.below(8)]
    }

    /// One of these, or less, or none.
    fn number(&mut self) -> f32 {
        match self.below(10) {
            0 => f32::NAN,
            1 => f32::NEG_INFINITY,
            _ => self.split(),
        }
    }
}

const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

/// What trees are drawn.
#[derive(Clone, Copy)]
struct Drawn<'a> {
    trees: usize,
    /// Leaves of a tree, at most.
    leaves: usize,
    features: usize,
    modes: &'a [&'a str],
    targets: usize,
    /// Whether all leaves of a tree are for one target.
    alone: bool,
    positive: bool,
}

const PLAIN: Drawn<'_> =
    Drawn { trees: 3, leaves: 20, features: 4, modes: &["BRANCH_LEQ"], targets: 1, alone: true, positive: false };

/// The lists of the older operators, and of `TreeEnsemble`.
#[derive(Default)]
struct Lists {
    tree: Vec<i64>,
    node: Vec<i64>,
    feature: Vec<i64>,
    value: Vec<f32>,
    mode: Vec<String>,
    then: Vec<i64>,
    otherwise: Vec<i64>,
    missing: Vec<i64>,
    leaf: [Vec<i64>; 3],
    weight: Vec<f32>,
}

impl Lists {
    fn of(random: &mut Random, drawn: Drawn<'_>) -> Self {
        let mut lists = Self::default();
        for tree in 0..drawn.trees {
            let leaves = if drawn.leaves > 100 { drawn.leaves } else { 1 + random.below(drawn.leaves) };
            let first = lists.tree.len();
            let mut waiting = vec![(first, leaves)];
            lists.push(tree, 0);
            while let Some((at, leaves)) = waiting.pop() {
                if leaves == 1 {
                    let targets = if drawn.alone { vec![tree % drawn.targets] } else { (0..drawn.targets).collect() };
                    for target in targets {
                        lists.leaf[0].push(tree as i64);
                        lists.leaf[1].push(lists.node[at]);
                        lists.leaf[2].push(target as i64);
                        let weight = random.below(1000) as f32 / 500.0;
                        lists.weight.push(if drawn.positive { weight / 10.0 } else { weight - 1.0 });
                    }
                    continue;
                }
                let left = if leaves > 20 { leaves / 2 } else { 1 + random.below(leaves - 1) };
                lists.feature[at] = random.below(drawn.features) as i64;
                lists.value[at] = random.split();
                lists.mode[at] = drawn.modes[random.below(drawn.modes.len())].to_owned();
                // Equality of a missing value is not asked here.
                let may_pass = lists.mode[at] != "BRANCH_EQ";
                lists.missing[at] = i64::from(may_pass && random.below(3) == 0);
                for leaves in [left, leaves - left] {
                    waiting.push((lists.tree.len(), leaves));
                    let node = lists.tree.len() - first;
                    if leaves == left && lists.then[at] == 0 {
                        lists.then[at] = node as i64;
                    } else {
                        lists.otherwise[at] = node as i64;
                    }
                    lists.push(tree, node);
                }
            }
        }
        lists
    }

    fn push(&mut self, tree: usize, node: usize) {
        self.tree.push(tree as i64);
        self.node.push(node as i64);
        self.feature.push(0);
        self.value.push(0.0);
        self.mode.push("LEAF".to_owned());
        self.then.push(0);
        self.otherwise.push(0);
        self.missing.push(0);
    }

    /// A case with them, whose leaves' lists begin with `prefix`.
    fn case(&self, op: &'static str, prefix: &str) -> Case {
        let modes: Vec<&str> = self.mode.iter().map(String::as_str).collect();
        let names: [&'static str; 4] = match prefix {
            "class" => ["class_treeids", "class_nodeids", "class_ids", "class_weights"],
            _ => ["target_treeids", "target_nodeids", "target_ids", "target_weights"],
        };
        let case = Case::new(op, 3)
            .domain("ai.onnx.ml")
            .ints("nodes_treeids", &self.tree)
            .ints("nodes_nodeids", &self.node)
            .ints("nodes_featureids", &self.feature)
            .floats("nodes_values", &self.value)
            .texts("nodes_modes", &modes)
            .ints("nodes_truenodeids", &self.then)
            .ints("nodes_falsenodeids", &self.otherwise)
            .ints("nodes_missing_value_tracks_true", &self.missing);
        let case = case.ints(names[0], &self.leaf[0]).ints(names[1], &self.leaf[1]).ints(names[2], &self.leaf[2]);
        case.floats(names[3], &self.weight)
    }
}

/// Rows of features.
fn rows(random: &mut Random, count: usize, features: usize) -> Tensor {
    let numbers: Vec<f32> = (0..count * features).map(|_| random.number()).collect();
    Tensor::from_elements(&[count, features], &numbers).expect("as many")
}

#[track_caller]
fn is_of_kernels(case: &Case) -> Graph {
    let graph = case.computes();
    assert!(graph.order.iter().all(|&id| !matches!(graph.nodes[id].op, Op::Host(_))), "{graph}");
    graph
}

fn looks_up_nodes(graph: &Graph) -> bool {
    let is_next = |op: &Op| matches!(op, Op::Constant(constant) if constant.name == "next nodes");
    graph.nodes.iter().any(|node| is_next(&node.op))
}

#[test]
fn trees_of_all_kinds_of_tests() {
    let mut random = Random(1);
    let mut forms = [0; 2];
    for (n, mode) in MODES.iter().copied().map(Some).chain([None, None]).enumerate() {
        let modes = mode.as_ref().map_or(&MODES[..], std::slice::from_ref);
        let large = if n % 3 == 0 { (16, 300, 1) } else { (1, 33, 3) };
        for (trees, leaves, count) in [(2, 8, 17), (1, 70, 5), large, (2, 1, 2), (3, 6, 0)] {
            let drawn = Drawn { trees, leaves, modes, ..PLAIN };
            let lists = Lists::of(&mut random, drawn);
            let x = rows(&mut random, count, drawn.features + n % 2);
            let case = lists.case("TreeEnsembleRegressor", "target").data(x).dynamic(&[0]);
            forms[usize::from(looks_up_nodes(&is_of_kernels(&case)))] += 1;
        }
    }
    assert!(forms.iter().all(|&count| count > 0), "{forms:?}");
}

#[test]
fn scores_of_several_targets() {
    let mut random = Random(2);
    for (targets, alone) in [(3, true), (3, false), (5, true)] {
        for (trees, leaves, count) in [(7, 5, 9), (8, 200, 1)] {
            let drawn = Drawn { trees, leaves, targets, alone, ..PLAIN };
            let lists = Lists::of(&mut random, drawn);
            let x = rows(&mut random, count, drawn.features);
            let base: Vec<f32> = (0..targets).map(|n| n as f32 / 2.0 - 1.0).collect();
            let case =
                || lists.case("TreeEnsembleRegressor", "target").data(x.clone()).int("n_targets", targets as i64);
            for (aggregate, post) in [("SUM", "SOFTMAX"), ("AVERAGE", "LOGISTIC"), ("MIN", "NONE"), ("MAX", "NONE")] {
                let case = case().text("aggregate_function", aggregate).text("post_transform", post);
                is_of_kernels(&if aggregate == "SUM" { case.floats("base_values", &base) } else { case });
                if trees > 7 {
                    break;
                }
            }
        }
    }
}

#[test]
fn classes_of_trees() {
    let mut random = Random(3);
    for (targets, alone, positive) in
        [(3, true, false), (3, false, true), (2, false, true), (1, true, true), (1, true, false)]
    {
        let drawn = Drawn { trees: 6, leaves: 6, targets, alone, positive, ..PLAIN };
        let lists = Lists::of(&mut random, drawn);
        let x = rows(&mut random, 19, drawn.features);
        // One score may be that of two classes.
        let labels: &[i64] = if targets == 3 { &[0, 1, 2] } else { &[7, -3] };
        for post in ["NONE", if targets == 3 { "SOFTMAX" } else { "LOGISTIC" }] {
            let case = lists.case("TreeEnsembleClassifier", "class").data(x.clone()).text("post_transform", post);
            let case = case.ints("classlabels_int64s", labels).outputs(2).dynamic(&[0]);
            is_of_kernels(&case);
            if targets == 1 {
                is_of_kernels(&case.floats("base_values", &[0.25]));
            }
        }
    }
}

#[test]
fn features_of_other_types() {
    let mut random = Random(4);
    let lists = Lists::of(&mut random, Drawn { modes: &MODES, ..PLAIN });
    let x: Vec<i64> = (0..24).map(|_| random.below(5) as i64 - 2).collect();
    let doubles: Vec<f64> = x.iter().map(|&n| n as f64 / 2.0).collect();
    let case = || lists.case("TreeEnsembleRegressor", "target");
    case().data(Tensor::from_elements(&[6, 4], &x).expect("as many")).agrees();
    is_of_kernels(&case().data(Tensor::from_elements(&[6, 4], &x).expect("as many")));
    is_of_kernels(&case().data(Tensor::from_elements(&[6, 4], &doubles).expect("as many")));
    is_of_kernels(&case().data(Tensor::from_elements(&[4], &doubles[..4]).expect("as many")));
}

/// What kernels do not compute is left to the host.
#[test]
fn trees_for_the_host() {
    let mut random = Random(5);
    let lists = Lists::of(&mut random, PLAIN);
    let x = rows(&mut random, 3, 4);
    let is_hosted = |case: &Case| {
        let graph = case.computes();
        assert!(graph.order.iter().any(|&id| matches!(graph.nodes[id].op, Op::Host(_))), "{graph}");
    };
    let case = |lists: &Lists| lists.case("TreeEnsembleRegressor", "target").data(x.clone());
    is_hosted(&case(&lists).text("post_transform", "PROBIT"));
    // Infinity is what a target has that no leaf speaks of.
    let mut infinite = Lists::of(&mut random, PLAIN);
    infinite.weight.fill(f32::INFINITY);
    is_hosted(&case(&infinite).text("aggregate_function", "MIN"));
    // A feature that rows have not, asked by a node that none of them comes to.
    let mut unseen = Lists::default();
    (0..5).for_each(|node| unseen.push(0, node));
    (unseen.then, unseen.otherwise) = (vec![1, 0, 3, 0, 0], vec![2, 0, 4, 0, 0]);
    (unseen.value[0], unseen.feature[2]) = (f32::INFINITY, 9);
    for node in [0, 2] {
        unseen.mode[node] = "BRANCH_LEQ".to_owned();
    }
    unseen.missing[0] = 1;
    unseen.leaf = [vec![0; 3], vec![1, 3, 4], vec![0; 3]];
    unseen.weight = vec![1.0, 2.0, 3.0];
    is_hosted(&case(&unseen));
}

/// A leaf may speak of a target more than once, and leaves of as many as there are.
#[test]
fn leaves_of_many_weights() {
    let mut random = Random(6);
    let mut lists = Lists::of(&mut random, Drawn { targets: 40, alone: false, ..PLAIN });
    for list in &mut lists.leaf {
        list.extend_from_within(..);
    }
    lists.weight.extend_from_within(..);
    lists.weight[0] = -7.0;
    let x = rows(&mut random, 6, 4);
    for aggregate in ["SUM", "AVERAGE", "MIN", "MAX"] {
        let case = lists.case("TreeEnsembleRegressor", "target").data(x.clone()).int("n_targets", 41);
        is_of_kernels(&case.text("aggregate_function", aggregate));
    }
    // So often that to ask all for each target would take forever.
    let mut lists = Lists::default();
    lists.push(0, 0);
    let count = 300_000;
    lists.leaf = [vec![0; count], vec![0; count], (0..count as i64).map(|n| n * 7 % 1_000_000).collect()];
    lists.weight = vec![1.0; count];
    let case = lists.case("TreeEnsembleRegressor", "target").data(rows(&mut random, 1, 4));
    is_of_kernels(&case.int("n_targets", 1_000_000));
}

/// A tree that is one long way, and one of few nodes with more ways than could be written down.
#[test]
fn trees_that_are_none() {
    let of = |count: usize, then: &dyn Fn(usize) -> i64, is_leaf: &dyn Fn(usize) -> i64| {
        let all = |f: &dyn Fn(usize) -> i64| (0..count).map(f).collect::<Vec<i64>>();
        let last = |n: usize| i64::from(n + 1 == count);
        let next = all(&|n| if last(n) == 1 { 0 } else { n as i64 + 1 });
        let features = Tensor::from_elements(&[2, 1], &[1.0f32, -1.0]).expect("two");
        Case::new("TreeEnsemble", 5)
            .domain("ai.onnx.ml")
            .data(features)
            .ints("tree_roots", &[0])
            .ints("nodes_featureids", &vec![0; count])
            .tensor("nodes_modes", Tensor::from_elements(&[count], &vec![0u8; count]).expect("as many"))
            .tensor("nodes_splits", Tensor::from_elements(&[count], &vec![0.0f32; count]).expect("as many"))
            .ints("nodes_truenodeids", &all(then))
            .ints("nodes_falsenodeids", &next)
            .ints("nodes_trueleafs", &all(is_leaf))
            .ints("nodes_falseleafs", &all(&last))
            .ints("leaf_targetids", &[0, 0])
            .tensor("leaf_weights", floats_of(&[0.5, 2.0]))
    };
    let is_hosted = |graph: &Graph| graph.order.iter().any(|&id| matches!(graph.nodes[id].op, Op::Host(_)));
    let chain = of(20_000, &|_| 1, &|_| 1);
    assert!(is_hosted(&chain.computes()));
    let ways = of(40, &|n| (n as i64 + 1) % 40, &|n| i64::from(n == 39));
    assert!(is_hosted(&ways.computes()));
    // A short chain is a tree like others.
    is_of_kernels(&of(100, &|_| 1, &|_| 1));
}

/// By position, as the newest operator has them, with a set to be a member of.
#[test]
fn trees_by_position() {
    let features = Tensor::from_elements(&[3, 2], &[1.0f32, 2.0, f32::NAN, 0.5, 3.0, -1.0]).expect("six");
    let modes = |modes: &[u8]| Tensor::from_elements(&[modes.len()], modes).expect("as many");
    let case = |kinds: &[u8]| {
        Case::new("TreeEnsemble", 5)
            .domain("ai.onnx.ml")
            .data(features.clone())
            .int("n_targets", 2)
            .ints("tree_roots", &[0, 2])
            .ints("nodes_featureids", &[0, 1, 1])
            .tensor("nodes_modes", modes(kinds))
            .tensor("nodes_splits", Tensor::from_elements(&[3], &[1.0f32, 0.75, 0.0]).expect("three"))
            .ints("nodes_truenodeids", &[0, 1, 3])
            .ints("nodes_falsenodeids", &[1, 2, 4])
            .ints("nodes_trueleafs", &[1, 1, 1])
            .ints("nodes_falseleafs", &[0, 1, 1])
            .ints("leaf_targetids", &[0, 1, 0, 1, 1])
            .tensor("leaf_weights", Tensor::from_elements(&[5], &[1.0f32, 2.0, 4.0, 8.0, 16.0]).expect("five"))
    };
    for kinds in [[0, 1, 2], [3, 4, 5], [2, 3, 0]] {
        case(&kinds).agrees();
        is_of_kernels(&case(&kinds));
    }
    let graph = case(&[6, 0, 0]).tensor("membership_values", floats_of(&[1.0, 3.0, f32::NAN])).agrees();
    assert!(graph.order.iter().any(|&id| matches!(graph.nodes[id].op, Op::Host(_))));
}

fn floats_of(numbers: &[f32]) -> Tensor {
    Tensor::from_elements(&[numbers.len()], numbers).expect("as many")
}
