//! Classical models on tables of features, by hand-worked cases.

use infc_reference::{Attribute, Attributes, EvalError, Node, evaluate};
use infc_tensor::Tensor;

fn run(
    op_type: &str,
    attributes: &[(&str, Attribute)],
    inputs: &[&Tensor],
    outputs: usize,
) -> Result<Vec<Tensor>, EvalError> {
    let attributes: Attributes = attributes.iter().cloned().collect();
    let node = Node { op_type, domain: "ai.onnx.ml", opset: 3, attributes: &attributes, num_outputs: outputs };
    evaluate(&node, &inputs.iter().map(|&t| Some(t)).collect::<Vec<_>>())
}

fn table(rows: usize, values: &[f32]) -> Tensor {
    Tensor::from_elements(&[rows, values.len() / rows], values).unwrap()
}

fn texts(list: &[&str]) -> Attribute {
    Attribute::Strings(list.iter().map(|&s| s.to_owned()).collect())
}

#[test]
fn two_classes_share_a_score() {
    let x = table(2, &[1.0, 2.0, -1.0, 0.0]);
    let attributes = [
        ("coefficients", Attribute::Floats(vec![1.0, 0.5])),
        ("intercepts", Attribute::Floats(vec![-1.0])),
        ("classlabels_strings", texts(&["no", "yes"])),
    ];
    let found = run("LinearClassifier", &attributes, &[&x], 2).unwrap();
    assert_eq!(found[0].strings().unwrap(), ["yes", "no"]);
    assert_eq!(found[1].elements::<f32>().unwrap(), [0.0, 1.0, 3.0, -2.0]);
}

#[track_caller]
fn is_near(found: &Tensor, expected: &[f32]) {
    let found = found.elements::<f32>().unwrap();
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(found.len() == expected.len() && near, "{found:?}, expected {expected:?}");
}

/// Scores of two classes of which one has a score, as ONNX Runtime 1.32 gives them; ONNX does not say.
#[test]
fn scores_of_two_classes_by_one() {
    let text = |text: &str| Attribute::String(text.to_owned());
    let x = table(2, &[1.0, 2.0, -1.0, 0.5]);
    let labels = ("classlabels_ints", Attribute::Ints(vec![3, 4]));
    for (post, expected) in [
        ("NONE", [-2.1, 3.1, 1.4, -0.4]),
        ("LOGISTIC", [0.043_107, 0.956_893, 0.598_688, 0.401_312]),
        ("SOFTMAX", [-2.1, 3.1, 1.4, -0.4]),
    ] {
        let linear = [
            ("coefficients", Attribute::Floats(vec![1.0, 1.0])),
            ("intercepts", Attribute::Floats(vec![0.1])),
            ("post_transform", text(post)),
            labels.clone(),
        ];
        is_near(&run("LinearClassifier", &linear, &[&x], 2).unwrap()[1], &expected);
    }
    for (post, expected) in [
        ("NONE", [1.223, -1.223, 1.031, -1.031]),
        ("LOGISTIC", [0.772_6, 0.227_4, 0.737_1, 0.262_9]),
        ("SOFTMAX", [2.223, -1.223, 2.031, -1.031]),
    ] {
        let machine = [
            ("coefficients", Attribute::Floats(vec![0.5, -0.25, 0.75])),
            ("kernel_type", text("RBF")),
            ("kernel_params", Attribute::Floats(vec![0.5, 0.0, 3.0])),
            ("post_transform", text(post)),
            ("rho", Attribute::Floats(vec![-1.2])),
            ("support_vectors", Attribute::Floats(vec![1.0, 0.0, 0.0, 1.0, -1.0, -1.0])),
            ("vectors_per_class", Attribute::Ints(vec![2, 1])),
            labels.clone(),
        ];
        let found = run("SVMClassifier", &machine, &[&x], 2).unwrap();
        assert_eq!(found[0].elements::<i64>().unwrap(), [4, 4]);
        let found = found[1].elements::<f32>().unwrap();
        let near = found.iter().zip(&expected).all(|(a, b): (&f32, &f32)| (a - b).abs() < 6e-4);
        assert!(found.len() == 4 && near, "{found:?}, expected {expected:?}");
    }
    for (post, weights, expected) in [
        ("NONE", [0.3, 0.9], [0.1, 0.9, 0.7, 0.3]),
        ("LOGISTIC", [0.3, 0.9], [0.289_051, 0.710_949, 0.425_557, 0.574_443]),
        ("SOFTMAX", [0.3, 0.9], [0.1, 0.9, 0.7, 0.3]),
        ("NONE", [-0.3, 0.9], [-0.9, 0.9, 0.3, -0.3]),
        ("LOGISTIC", [-0.3, 0.9], [0.289_051, 0.710_949, 0.574_443, 0.425_557]),
        ("SOFTMAX", [-0.3, 0.9], [-0.9, 0.9, 0.3, -0.3]),
    ] {
        let ints = |list: &[i64]| Attribute::Ints(list.to_vec());
        let tree = [
            ("nodes_treeids", ints(&[0, 0, 0])),
            ("nodes_nodeids", ints(&[0, 1, 2])),
            ("nodes_featureids", ints(&[0, 0, 0])),
            ("nodes_modes", texts(&["BRANCH_LEQ", "LEAF", "LEAF"])),
            ("nodes_values", Attribute::Floats(vec![0.5, 0.0, 0.0])),
            ("nodes_truenodeids", ints(&[1, 0, 0])),
            ("nodes_falsenodeids", ints(&[2, 0, 0])),
            ("class_treeids", ints(&[0, 0])),
            ("class_nodeids", ints(&[1, 2])),
            ("class_ids", ints(&[0, 0])),
            ("class_weights", Attribute::Floats(weights.to_vec())),
            ("classlabels_int64s", ints(&[4, 9])),
            ("post_transform", text(post)),
        ];
        let found = run("TreeEnsembleClassifier", &tree, &[&x], 2).unwrap();
        assert_eq!(found[0].elements::<i64>().unwrap(), [9, 4]);
        is_near(&found[1], &expected);
    }
}

/// x0 ≤ 0.5 ? (x1 ≤ 2 ? 1 : 2) : 3, and a second tree that is one leaf of 10.
#[test]
fn trees_by_ids() {
    let ints = |list: &[i64]| Attribute::Ints(list.to_vec());
    let attributes = [
        ("nodes_treeids", ints(&[0, 0, 0, 0, 0, 1])),
        ("nodes_nodeids", ints(&[0, 1, 2, 3, 4, 0])),
        ("nodes_featureids", ints(&[0, 1, 0, 0, 0, 0])),
        ("nodes_modes", texts(&["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"])),
        ("nodes_values", Attribute::Floats(vec![0.5, 2.0, 0.0, 0.0, 0.0, 0.0])),
        ("nodes_truenodeids", ints(&[1, 3, 0, 0, 0, 0])),
        ("nodes_falsenodeids", ints(&[2, 4, 0, 0, 0, 0])),
        ("nodes_missing_value_tracks_true", ints(&[1, 0, 0, 0, 0, 0])),
        ("target_treeids", ints(&[0, 0, 0, 1])),
        ("target_nodeids", ints(&[2, 3, 4, 0])),
        ("target_ids", ints(&[0, 0, 0, 0])),
        ("target_weights", Attribute::Floats(vec![3.0, 1.0, 2.0, 10.0])),
    ];
    let x = table(4, &[0.0, 2.0, 0.5, 3.0, 1.0, 0.0, f32::NAN, 0.0]);
    let found = run("TreeEnsembleRegressor", &attributes, &[&x], 1).unwrap();
    assert_eq!(found[0].elements::<f32>().unwrap(), [11.0, 12.0, 13.0, 11.0]);
    // A tree that leads nowhere, or in a circle, is an error.
    for (name, list) in [("nodes_truenodeids", [9i64, 3, 0, 0, 0, 0]), ("nodes_truenodeids", [0, 3, 0, 0, 0, 0])] {
        let mut damaged = attributes.to_vec();
        damaged.retain(|(n, _)| *n != name);
        damaged.push((name, ints(&list)));
        assert!(run("TreeEnsembleRegressor", &damaged, &[&x], 1).is_err(), "{list:?}");
    }
}

#[test]
fn keys_and_values() {
    let attributes =
        [("keys_floats", Attribute::Floats(vec![0.0, f32::NAN])), ("values_strings", texts(&["zero", "none"]))];
    let x = Tensor::from_elements(&[3], &[-0.0f32, f32::NAN, 1.0]).unwrap();
    let found = run("LabelEncoder", &attributes, &[&x], 1).unwrap();
    assert_eq!(found[0].strings().unwrap(), ["zero", "none", "_Unused"]);
}

#[test]
fn a_machine_of_two_vectors() {
    let attributes = [
        ("kernel_type", Attribute::String("RBF".to_owned())),
        ("kernel_params", Attribute::Floats(vec![1.0, 0.0, 0.0])),
        ("support_vectors", Attribute::Floats(vec![0.0, 1.0])),
        ("coefficients", Attribute::Floats(vec![2.0, -1.0])),
        ("rho", Attribute::Floats(vec![0.5])),
        ("n_supports", Attribute::Int(2)),
    ];
    let found = run("SVMRegressor", &attributes, &[&table(1, &[0.0])], 1).unwrap();
    let expected = 2.0 - (-1.0f32).exp() + 0.5;
    assert!((found[0].elements::<f32>().unwrap()[0] - expected).abs() < 1e-6);
}

/// The class with the most votes need not be the most probable one. Expected is what ONNX Runtime 1.32 gives.
#[test]
fn votes_decide_beside_probabilities() {
    let attributes = [
        ("classlabels_ints", Attribute::Ints(vec![5, 6, 7])),
        ("kernel_type", Attribute::String("RBF".to_owned())),
        ("kernel_params", Attribute::Floats(vec![0.5, 0.0, 3.0])),
        ("support_vectors", Attribute::Floats(vec![1.0, 0.0, 0.0, 1.0, -1.0, -1.0])),
        ("vectors_per_class", Attribute::Ints(vec![1, 1, 1])),
        ("coefficients", Attribute::Floats(vec![0.5, -0.25, 0.75, 0.1, 0.2, -0.3])),
        ("rho", Attribute::Floats(vec![0.1, -0.2, 0.3])),
        ("prob_a", Attribute::Floats(vec![-1.0, -0.8, -0.5])),
        ("prob_b", Attribute::Floats(vec![0.1, 0.2, 0.3])),
    ];
    let found = run("SVMClassifier", &attributes, &[&table(2, &[1.0, 2.0, -1.0, 0.5])], 2).unwrap();
    assert_eq!(found[0].elements::<i64>().unwrap(), [5, 5]);
    is_near(&found[1], &[0.290_247, 0.324_503, 0.385_250, 0.307_479, 0.324_912, 0.367_609]);
}

fn map(keys: &Tensor, values: &[f32]) -> Tensor {
    Tensor::map(keys, &Tensor::from_elements(&[values.len()], values).unwrap()).unwrap()
}

#[test]
fn rows_become_maps() {
    let labels = ("classlabels_int64s", Attribute::Ints(vec![7, -1]));
    let keys = Tensor::from_elements(&[2], &[7i64, -1]).unwrap();
    let found = run("ZipMap", std::slice::from_ref(&labels), &[&table(2, &[0.25, 0.75, 1.0, 0.0])], 1).unwrap();
    assert_eq!(found[0].values().unwrap(), [map(&keys, &[0.25, 0.75]), map(&keys, &[1.0, 0.0])]);
    let keys = Tensor::from_strings(&[2], vec!["no".to_owned(), "yes".to_owned()]).unwrap();
    let x = Tensor::from_elements(&[2], &[0.5f32, 1.5]).unwrap();
    let found = run("ZipMap", &[("classlabels_strings", texts(&["no", "yes"]))], &[&x], 1).unwrap();
    assert_eq!(found[0].values().unwrap(), [map(&keys, &[0.5, 1.5])]);
    assert!(run("ZipMap", &[labels], &[&table(1, &[0.0; 3])], 1).is_err());
}

/// Expected are what ONNX Runtime 1.32 gives.
#[test]
fn maps_become_rows() {
    let keys = Tensor::from_elements(&[3], &[4i64, 1, 0]).unwrap();
    let x = map(&keys, &[1.75, -2.5, 1e-9]);
    let cast = |to: &str, sparse: bool| {
        let form = if sparse { "SPARSE" } else { "DENSE" };
        let attributes = [
            ("cast_to", Attribute::String(to.to_owned())),
            ("map_form", Attribute::String(form.to_owned())),
            ("max_map", Attribute::Int(6)),
        ];
        run("CastMap", &attributes, &[&x], 1).unwrap().remove(0)
    };
    assert_eq!(cast("TO_FLOAT", false).elements::<f32>().unwrap(), [1e-9, -2.5, 1.75]);
    assert_eq!(cast("TO_FLOAT", false).shape(), [1, 3]);
    assert_eq!(cast("TO_FLOAT", true).elements::<f32>().unwrap(), [1e-9, -2.5, 0.0, 0.0, 1.75, 0.0]);
    assert_eq!(cast("TO_INT64", false).elements::<i64>().unwrap(), [0, -2, 1]);
    assert_eq!(cast("TO_INT64", true).elements::<i64>().unwrap(), [0, -2, 0, 0, 1, 0]);
    assert_eq!(cast("TO_STRING", false).strings().unwrap(), ["0.000000", "-2.500000", "1.750000"]);
    let sparse = ["0.000000", "-2.500000", "0.f", "0.f", "1.750000", "0.f"];
    assert_eq!(cast("TO_STRING", true).strings().unwrap(), sparse);
    // Keys beyond the places are left out; negative ones are none.
    let two = [("map_form", Attribute::String("SPARSE".to_owned())), ("max_map", Attribute::Int(2))];
    let few = map(&Tensor::from_elements(&[2], &[4i64, 1]).unwrap(), &[1.5, 2.0]);
    assert_eq!(run("CastMap", &two, &[&few], 1).unwrap()[0].elements::<f32>().unwrap(), [0.0, 2.0]);
    let negative = map(&Tensor::from_elements(&[1], &[-1i64]).unwrap(), &[1.5]);
    assert!(run("CastMap", &two, &[&negative], 1).is_err());
    assert!(run("CastMap", &two, &[&table(1, &[1.0])], 1).is_err());
}

#[test]
fn vocabularies_choose_from_maps() {
    let keys = Tensor::from_strings(&[3], vec!["c".to_owned(), "z".to_owned(), "a".to_owned()]).unwrap();
    let words = [("string_vocabulary", texts(&["a", "b", "c"]))];
    let found = run("DictVectorizer", &words, &[&map(&keys, &[1.5, 2.0, 3.0])], 1).unwrap();
    assert_eq!((found[0].shape(), found[0].elements::<f32>().unwrap()), (&[1, 3][..], &[3.0, 0.0, 1.5][..]));
    let keys = Tensor::from_elements(&[1], &[9i64]).unwrap();
    let text = Tensor::map(&keys, &Tensor::from_strings(&[1], vec!["x".to_owned()]).unwrap()).unwrap();
    let numbers = [("int64_vocabulary", Attribute::Ints(vec![3, 9]))];
    let found = run("DictVectorizer", &numbers, &[&text], 1).unwrap();
    assert_eq!(found[0].strings().unwrap(), ["", "x"]);
    assert!(run("DictVectorizer", &words, &[&text], 1).is_err());
}

/// A node that is evaluated again reads its lists once: what they say holds for other rows, and for other attributes anew.
#[test]
fn trees_and_pools_of_a_node_that_is_evaluated_again() {
    let leaf = |weight: f32| -> Attributes {
        [
            ("nodes_treeids", Attribute::Ints(vec![0])),
            ("nodes_nodeids", Attribute::Ints(vec![0])),
            ("nodes_featureids", Attribute::Ints(vec![0])),
            ("nodes_modes", texts(&["LEAF"])),
            ("nodes_values", Attribute::Floats(vec![0.0])),
            ("nodes_truenodeids", Attribute::Ints(vec![0])),
            ("nodes_falsenodeids", Attribute::Ints(vec![0])),
            ("target_treeids", Attribute::Ints(vec![0])),
            ("target_nodeids", Attribute::Ints(vec![0])),
            ("target_ids", Attribute::Ints(vec![0])),
            ("target_weights", Attribute::Floats(vec![weight])),
        ]
        .into_iter()
        .collect()
    };
    let run = |attributes: &Attributes, rows: usize| {
        let op_type = "TreeEnsembleRegressor";
        let node = Node { op_type, domain: "ai.onnx.ml", opset: 3, attributes, num_outputs: 1 };
        let x = table(rows, &vec![1.0; rows]);
        evaluate(&node, &[Some(&x)]).unwrap()[0].elements::<f32>().unwrap().to_vec()
    };
    let mut attributes = leaf(2.5);
    assert_eq!((run(&attributes, 1), run(&attributes, 2)), (vec![2.5], vec![2.5; 2]));
    attributes.insert("target_weights", Attribute::Floats(vec![7.0]));
    assert_eq!(run(&attributes, 3), [7.0; 3]);
    let pool: Attributes = [
        ("pool_int64s", Attribute::Ints(vec![5, 6, 5, 6])),
        ("ngram_counts", Attribute::Ints(vec![0, 2])),
        ("ngram_indexes", Attribute::Ints(vec![0, 1, 2])),
        ("min_gram_length", Attribute::Int(1)),
        ("max_gram_length", Attribute::Int(2)),
        ("max_skip_count", Attribute::Int(0)),
        ("mode", Attribute::String("TF".to_owned())),
    ]
    .into_iter()
    .collect();
    let node = Node { op_type: "TfIdfVectorizer", domain: "", opset: 9, attributes: &pool, num_outputs: 1 };
    for (row, expected) in [(&[5i64, 6, 6][..], [1.0f32, 2.0, 1.0]), (&[6, 5], [1.0, 1.0, 0.0])] {
        let x = Tensor::from_elements(&[row.len()], row).unwrap();
        assert_eq!(evaluate(&node, &[Some(&x)]).unwrap()[0].elements::<f32>().unwrap(), expected);
    }
}
