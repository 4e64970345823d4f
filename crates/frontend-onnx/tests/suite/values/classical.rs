//! Linear models, support vector machines, and what prepares their features.

use super::{Case, floats};
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use infc_tensor::Tensor;

fn ml(op: &'static str) -> Case {
    Case::new(op, 1).domain("ai.onnx.ml")
}

#[track_caller]
fn is_of_kernels(case: &Case) -> Graph {
    let graph = case.agrees();
    assert!(graph.order.iter().all(|&id| !matches!(graph.nodes[id].op, Op::Host(_))), "{graph}");
    graph
}

fn numbers(count: usize, times: f32) -> Vec<f32> {
    floats(&[count]).elements::<f32>().expect("floats").iter().map(|v| v * times).collect()
}

fn integers(shape: &[usize]) -> Tensor {
    let numbers: Vec<i64> = (0..shape.iter().product::<usize>()).map(|n| n as i64 * 7 % 11 - 5).collect();
    Tensor::from_elements(shape, &numbers).expect("as many")
}

#[test]
fn linear_models() {
    let regressor = |targets: usize| {
        let case = ml("LinearRegressor").int("targets", targets as i64);
        case.floats("coefficients", &numbers(4 * targets, 1.0))
    };
    is_of_kernels(&regressor(1).data(floats(&[5, 4])).dynamic(&[0]));
    is_of_kernels(&regressor(1).data(floats(&[4])));
    is_of_kernels(&regressor(3).data(integers(&[5, 4])).floats("intercepts", &numbers(3, 2.0)));
    is_of_kernels(&regressor(3).data(floats(&[5, 4])).text("post_transform", "SOFTMAX"));
    for (labels, scores) in [(&[0, 1, 2][..], 3), (&[5, -2, 9], 3), (&[0, 1], 1), (&[4, 3], 1), (&[0, 1], 2)] {
        for post in ["NONE", "LOGISTIC", "SOFTMAX"] {
            let case = ml("LinearClassifier").outputs(2).ints("classlabels_ints", labels).text("post_transform", post);
            let case = case.floats("coefficients", &numbers(4 * scores, 1.0)).data(floats(&[7, 4]));
            is_of_kernels(&case.floats("intercepts", &numbers(scores, 0.5)).dynamic(&[0]));
        }
    }
}

/// A first score that is no number is exceeded by none; one behind it exceeds none.
#[test]
fn scores_that_are_no_numbers() {
    let rows = [f32::NAN, 1.0, 1.0, f32::NAN, 2.0, 3.0, f32::NEG_INFINITY, 1.0];
    let x = Tensor::from_elements(&[4, 2], &rows).expect("eight");
    for labels in [[0, 1, 2], [7, 5, 3]] {
        for coefficients in [[0.0, 1.0, 1.0, 0.0, 0.5, 0.5], [1.0, 0.0, 0.0, 1.0, 0.0, 2.0]] {
            let case = ml("LinearClassifier").outputs(2).ints("classlabels_ints", &labels).data(x.clone());
            is_of_kernels(&case.floats("coefficients", &coefficients).dynamic(&[0]));
        }
    }
    let texts = ml("LinearClassifier").outputs(2).texts("classlabels_strings", &["a", "b", "c"]).data(x);
    texts.floats("coefficients", &[0.0, 1.0, 1.0, 0.0, 0.5, 0.5]).agrees();
}

/// Where nobody knows how many features there are, the host counts how many scores the coefficients are for.
#[test]
fn scores_of_an_unknown_number_of_features() {
    for count in [3, 6] {
        let case = ml("LinearClassifier").outputs(2).ints("classlabels_ints", &[4, 9]).data(floats(&[5, 3]));
        case.floats("coefficients", &numbers(count, 1.0)).dynamic(&[0, 1]).agrees();
    }
}

/// Labels that are texts are looked up by the host, and nothing else is.
#[test]
fn labels_that_are_texts() {
    let case = ml("LinearClassifier").outputs(2).texts("classlabels_strings", &["no", "yes"]);
    let graph = case.floats("coefficients", &numbers(4, 1.0)).data(floats(&[7, 4])).dynamic(&[0]).agrees();
    let hosted = graph.order.iter().filter_map(|&id| match &graph.nodes[id].op {
        Op::Host(host) => Some(host.op_type.as_str()),
        _ => None,
    });
    assert_eq!(hosted.collect::<Vec<_>>(), ["Constant", "Gather"]);
}

#[test]
fn features_that_are_prepared() {
    let holes = Tensor::from_elements(&[3, 2], &[1.0f32, f32::NAN, -2.0, 3.0, f32::NAN, 0.0]).expect("six");
    for norm in ["MAX", "L1", "L2"] {
        is_of_kernels(&ml("Normalizer").text("norm", norm).data(floats(&[4, 3])).dynamic(&[0, 1]));
        is_of_kernels(&ml("Normalizer").text("norm", norm).data(integers(&[5])));
        let zeros = Tensor::from_elements(&[2, 2], &[0.0f32, 0.0, -1.0, -3.0]).expect("four");
        is_of_kernels(&ml("Normalizer").text("norm", norm).data(zeros));
        is_of_kernels(&ml("Normalizer").text("norm", norm).data(holes.clone()));
    }
    let scaler = || ml("Scaler").floats("offset", &[0.5, -1.0, 2.0]).floats("scale", &[2.0]);
    is_of_kernels(&scaler().data(floats(&[4, 3])).dynamic(&[0]));
    is_of_kernels(&scaler().data(integers(&[4, 3])));
    is_of_kernels(&ml("Binarizer").float("threshold", 0.25).data(floats(&[4, 3])).dynamic(&[0]));
    is_of_kernels(&ml("Binarizer").float("threshold", 0.25).data(integers(&[6])));
    let imputer = |list: &[f32], replaced: f32| {
        ml("Imputer").floats("imputed_value_floats", list).float("replaced_value_float", replaced)
    };
    is_of_kernels(&imputer(&[7.0, 8.0], f32::NAN).data(holes.clone()));
    is_of_kernels(&imputer(&[7.0], f32::NAN).data(holes.clone()).dynamic(&[0]));
    is_of_kernels(&imputer(&[7.0, 8.0], -2.0).data(holes));
    let tables = || ml("FeatureVectorizer").data(floats(&[3, 4])).data(integers(&[3, 2]));
    is_of_kernels(&tables().dynamic(&[0]));
    is_of_kernels(&tables().ints("inputdimensions", &[3, 2]));
    is_of_kernels(&ml("FeatureVectorizer").data(floats(&[4])));
    let places = Tensor::from_elements(&[1, 3], &[2i64, 0, 2]).expect("three");
    is_of_kernels(&ml("ArrayFeatureExtractor").data(floats(&[2, 4, 3])).constant(places.clone()).dynamic(&[0]));
    is_of_kernels(&ml("ArrayFeatureExtractor").data(floats(&[4])).constant(places.clone()));
    is_of_kernels(&ml("ArrayFeatureExtractor").data(integers(&[4, 3])).data(places));
}

#[test]
fn support_vector_machines() {
    let features = 3;
    for kernel in ["LINEAR", "POLY", "RBF", "SIGMOID"] {
        let of = |op: &'static str| ml(op).text("kernel_type", kernel).floats("kernel_params", &[0.5, 1.0, 2.0]);
        let regressor = || {
            let case = of("SVMRegressor").int("n_supports", 5).floats("support_vectors", &numbers(5 * features, 1.0));
            case.floats("coefficients", &numbers(5, 0.5)).floats("rho", &[0.25]).data(floats(&[7, features]))
        };
        is_of_kernels(&regressor().dynamic(&[0]));
        is_of_kernels(&regressor().int("one_class", 1));
        let linear = of("SVMRegressor").floats("coefficients", &numbers(features, 1.0)).floats("rho", &[0.5]);
        is_of_kernels(&linear.data(floats(&[7, features])));
        for per_class in [&[2, 3][..], &[2, 1, 3], &[1, 0, 2, 2]] {
            let (classes, vectors) = (per_class.len(), per_class.iter().sum::<i64>() as usize);
            let labels: Vec<i64> = (0..classes as i64).map(|n| n * 3 % 5).collect();
            let case = of("SVMClassifier").outputs(2).ints("classlabels_ints", &labels);
            let case =
                case.ints("vectors_per_class", per_class).floats("rho", &numbers(classes * (classes - 1) / 2, 0.1));
            let case = case.floats("support_vectors", &numbers(vectors * features, 1.0));
            let case = case.floats("coefficients", &numbers(vectors * (classes - 1), 1.0));
            is_of_kernels(&case.data(floats(&[9, features])).dynamic(&[0]));
        }
        let classes = of("SVMClassifier").outputs(2).ints("classlabels_ints", &[0, 1, 2]).floats("rho", &[0.5]);
        is_of_kernels(&classes.floats("coefficients", &numbers(3 * features, 1.0)).data(floats(&[5, features])));
    }
}
