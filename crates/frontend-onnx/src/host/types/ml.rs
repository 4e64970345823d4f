//! The operators of `ai.onnx.ml`.

use super::{Rule, Typing};
use crate::build::{Result, mismatch};
use crate::element::Element;
use crate::error::Problem;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_tensor::{Attribute, DType};
use std::rc::Rc;

/// The rule for an operator, if there is one.
pub(super) fn find(op_type: &str) -> Option<Rule> {
    let rule: Rule = match op_type {
        "ArrayFeatureExtractor" => extract,
        "Binarizer" | "Imputer" => same,
        "FeatureVectorizer" => vectorize,
        "Normalizer" | "Scaler" => floats,
        "LabelEncoder" => encode,
        "CategoryMapper" => map_categories,
        "OneHotEncoder" => one_hot,
        "LinearRegressor" => |t| regressor(t, "targets"),
        "SVMRegressor" => |t| scores(t, DType::F32, 1),
        "TreeEnsembleRegressor" => |t| regressor(t, "n_targets"),
        "TreeEnsemble" => ensemble,
        "LinearClassifier" => |t| classifier(t, "classlabels_ints"),
        "TreeEnsembleClassifier" => |t| classifier(t, "classlabels_int64s"),
        "SVMClassifier" => svm_classifier,
        "ZipMap" => zip_map,
        "CastMap" => cast_map,
        "DictVectorizer" => vectorize_map,
        _ => return None,
    };
    Some(rule)
}

/// How many rows a table has; a vector is one.
fn rows(t: &Typing<'_, '_>, index: usize) -> Result<Dim> {
    let x = t.call.input(index)?;
    match x.shape() {
        [_] => Ok(Dim::constant(1)),
        [rows, _] => Ok(rows.clone()),
        other => Err(mismatch("a vector or a matrix", other)),
    }
}

fn same(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    Ok(vec![t.call.input(0)?.ty().clone()])
}

fn floats(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    Ok(vec![TensorType::new(DType::F32, t.call.input(0)?.shape().to_vec())])
}

/// `[…, positions]`; a vector is one row.
fn extract(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (x, positions) = (t.call.input(0)?, t.call.input(1)?);
    let mut shape = x.shape().to_vec();
    if shape.pop().is_none() {
        return Err(mismatch("an axis of features", x.shape()));
    }
    if shape.is_empty() {
        shape.push(Dim::constant(1));
    }
    shape.push(crate::build::product(positions.shape())?);
    Ok(vec![TensorType::new(x.dtype(), shape)])
}

fn vectorize(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let mut width = Dim::constant(0);
    for (n, table) in t.call.variadic()?.iter().enumerate() {
        let given = t.call.ints("inputdimensions")?.and_then(|list| list.get(n).copied());
        let own = table.shape().last().cloned().unwrap_or_else(|| Dim::constant(1));
        width = width + given.map_or(own, Dim::constant);
    }
    Ok(vec![TensorType::new(DType::F32, vec![rows(t, 0)?, width])])
}

fn encode(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let has = |name: &str| t.attributes.contains(name);
    let dtype = if let Some(Attribute::Tensor(values)) = t.attributes.get("values_tensor") {
        values.dtype()
    } else if has("values_int64s") {
        DType::I64
    } else if has("values_floats") {
        DType::F32
    } else if has("values_strings") || x.dtype() != DType::String {
        DType::String
    } else {
        DType::I64
    };
    Ok(vec![TensorType::new(dtype, x.shape().to_vec())])
}

fn map_categories(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let dtype = if x.dtype() == DType::String { DType::I64 } else { DType::String };
    Ok(vec![TensorType::new(dtype, x.shape().to_vec())])
}

/// How many elements a list among the attributes has.
fn len_of(t: &Typing<'_, '_>, name: &str) -> i64 {
    match t.attributes.get(name) {
        Some(Attribute::Ints(list)) => list.len() as i64,
        Some(Attribute::Strings(list)) => list.len() as i64,
        Some(Attribute::Floats(list)) => list.len() as i64,
        _ => 0,
    }
}

fn one_hot(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let mut shape = t.call.input(0)?.shape().to_vec();
    let strings = len_of(t, "cats_strings");
    shape.push(Dim::constant(if strings > 0 { strings } else { len_of(t, "cats_int64s") }));
    Ok(vec![TensorType::new(DType::F32, shape)])
}

fn scores(t: &mut Typing<'_, '_>, dtype: DType, width: i64) -> Result<Vec<TensorType>> {
    Ok(vec![TensorType::new(dtype, vec![rows(t, 0)?, Dim::constant(width)])])
}

fn regressor(t: &mut Typing<'_, '_>, targets: &'static str) -> Result<Vec<TensorType>> {
    let width = t.call.int_or(targets, 1)?.max(0);
    scores(t, DType::F32, width)
}

fn ensemble(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (dtype, width) = (t.call.input(0)?.dtype(), t.call.int_or("n_targets", 1)?.max(0));
    scores(t, dtype, width)
}

/// Labels and scores of so many classes.
fn classified(t: &mut Typing<'_, '_>, ints: &str, width: Option<i64>) -> Result<Vec<TensorType>> {
    let strings = len_of(t, "classlabels_strings");
    let (dtype, classes) = if strings > 0 { (DType::String, strings) } else { (DType::I64, len_of(t, ints)) };
    if classes == 0 {
        let found = "none".to_owned();
        return Err(Problem::InvalidAttribute { attribute: "classlabels_strings", expected: "labels", found });
    }
    let rows = rows(t, 0)?;
    let scores = vec![rows.clone(), Dim::constant(width.unwrap_or(classes))];
    Ok(vec![TensorType::new(dtype, vec![rows]), TensorType::new(DType::F32, scores)])
}

fn classifier(t: &mut Typing<'_, '_>, ints: &str) -> Result<Vec<TensorType>> {
    classified(t, ints, None)
}

/// Scores of classes if they are probabilities, the machine is linear, or there are two, else of pairs.
fn svm_classifier(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let strings = len_of(t, "classlabels_strings");
    let classes = if strings > 0 { strings } else { len_of(t, "classlabels_ints") };
    let by_class = classes == 2 || len_of(t, "prob_a") > 0 || len_of(t, "support_vectors") == 0;
    let width = if by_class { None } else { Some(classes * (classes - 1).max(0) / 2) };
    classified(t, "classlabels_ints", width)
}

/// A map per row.
fn zip_map(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (rows, values) = (rows(t, 0)?, t.call.input(0)?.dtype());
    t.tell(0, Some(Rc::new(Element::map_to(values))));
    Ok(vec![TensorType::new(DType::Sequence, vec![rows])])
}

/// What a map's values are.
fn values_of_map(t: &Typing<'_, '_>) -> Result<DType> {
    let map = t.call.input(0)?;
    match (map.dtype(), map.element()) {
        (DType::Map, Some(values)) => Ok(values.dtype),
        (DType::Map, None) => Err(Problem::DynamicValue { what: "the type of a map's values" }),
        (found, _) => Err(Problem::UnsupportedType { expected: "a map", found }),
    }
}

/// `[1, values]`; if they are few among many keys, as many as the node says.
fn cast_map(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    values_of_map(t)?;
    let dtype = match t.call.string("cast_to", "TO_FLOAT")?.as_str() {
        "TO_STRING" => DType::String,
        "TO_INT64" => DType::I64,
        _ => DType::F32,
    };
    let width = match t.call.string("map_form", "DENSE")?.as_str() {
        "SPARSE" => Dim::constant(t.call.int_or("max_map", 1)?.max(0)),
        _ => t.fresh(0, 1, None),
    };
    Ok(vec![TensorType::new(dtype, vec![Dim::constant(1), width])])
}

/// `[1, vocabulary]`
fn vectorize_map(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let width = len_of(t, "string_vocabulary").max(len_of(t, "int64_vocabulary"));
    Ok(vec![TensorType::new(values_of_map(t)?, vec![Dim::constant(1), Dim::constant(width)])])
}
