//! Models whose inputs and outputs have no bytes, through the whole line: text, sequences, optionals.

use infc::{CompileOptions, Source};
use infc_frontend_onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto, type_proto,
};
use infc_runtime::{Model, SessionOptions, Tensor};
use infc_tensor::DType;
use prost::Message;

fn tensor_of(dtype: DType) -> TypeProto {
    let elem_type = Some(infc_frontend_onnx::dtype_to_onnx(dtype));
    let shape = infc_frontend_onnx::proto::TensorShapeProto { dim: vec![Default::default()] };
    let tensor = type_proto::Tensor { elem_type, shape: Some(shape) };
    TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }
}

fn sequence_of(element: TypeProto) -> TypeProto {
    let sequence = type_proto::Sequence { elem_type: Some(Box::new(element)) };
    TypeProto { denotation: None, value: Some(type_proto::Value::SequenceType(Box::new(sequence))) }
}

fn optional_of(element: TypeProto) -> TypeProto {
    let optional = type_proto::Optional { elem_type: Some(Box::new(element)) };
    TypeProto { denotation: None, value: Some(type_proto::Value::OptionalType(Box::new(optional))) }
}

fn session(
    inputs: &[(&str, TypeProto)],
    nodes: &[(&str, &[&str], &str)],
    outputs: &[(&str, TypeProto)],
) -> infc_runtime::Session {
    let ports = |ports: &[(&str, TypeProto)]| -> Vec<ValueInfoProto> {
        let port = |(name, ty): &(&str, TypeProto)| ValueInfoProto {
            name: Some((*name).to_owned()),
            r#type: Some(ty.clone()),
            ..ValueInfoProto::default()
        };
        ports.iter().map(port).collect()
    };
    let node = |&(op_type, inputs, output): &(&str, &[&str], &str)| NodeProto {
        op_type: Some(op_type.to_owned()),
        name: Some(output.to_owned()),
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: nodes.iter().map(node).collect(),
        input: ports(inputs),
        output: ports(outputs),
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(20) }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    let source = Source::bytes(model.encode_to_vec());
    let options = CompileOptions { targets: vec!["x86-64-v2".to_owned()], ..CompileOptions::default() };
    let compilation = infc::compile(&source, &options, &mut ()).unwrap_or_else(|e| panic!("{e}"));
    let model = Model::from_vec(compilation.to_bytes().expect("an artifact")).unwrap_or_else(|e| panic!("{e}"));
    model.session(&SessionOptions::default()).expect("a session")
}

fn floats(elements: &[f32]) -> Tensor {
    Tensor::from_elements(&[elements.len()], elements).expect("a vector")
}

fn texts(elements: &[&str]) -> Tensor {
    Tensor::from_strings(&[elements.len()], elements.iter().map(|&s| s.to_owned()).collect()).expect("a vector")
}

#[test]
fn text_in_and_out() {
    let text = || tensor_of(DType::String);
    let inputs = [("a", text()), ("b", text())];
    let nodes: [(&str, &[&str], &str); 1] = [("StringConcat", &["a", "b"], "y")];
    // An input may be an output, too.
    let mut session = session(&inputs, &nodes, &[("y", text()), ("a", text())]);
    for (a, b, expected) in [(&["x", "ä"][..], &["1", ""][..], &["x1", "ä"][..]), (&[], &[], &[])] {
        let found = session.run_owned(&[&texts(a), &texts(b)]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found, [texts(expected), texts(a)]);
    }
    let error = session.run_owned(&[&floats(&[1.0]), &texts(&["x"])]).expect_err("no text");
    assert_eq!(error.code(), "runtime::wrong-type");
}

/// What comes out of a sequence is computed with, and goes back into one.
#[test]
fn sequences_in_and_out() {
    let float = || tensor_of(DType::F32);
    let inputs = [("s", sequence_of(float())), ("n", tensor_of(DType::I64))];
    let nodes: [(&str, &[&str], &str); 4] = [
        ("SequenceAt", &["s", "n"], "x"),
        ("Neg", &["x"], "y"),
        ("SequenceInsert", &["s", "y"], "t"),
        ("SequenceLength", &["t"], "len"),
    ];
    let outputs = [("t", sequence_of(float())), ("y", float()), ("len", tensor_of(DType::I64))];
    let mut session = session(&inputs, &nodes, &outputs[..2]);
    let one = Tensor::from_elements(&[1], &[1i64]).expect("one");
    for parts in [&[&[1.0f32][..], &[2.0, 3.0]][..], &[&[], &[], &[4.0]]] {
        let mut values: Vec<Tensor> = parts.iter().map(|part| floats(part)).collect();
        let s = Tensor::sequence(values.clone()).expect("a sequence");
        let found = session.run_owned(&[&s, &one]).unwrap_or_else(|e| panic!("{e}"));
        let negated = floats(&parts[1].iter().map(|x| -x).collect::<Vec<_>>());
        values.push(negated.clone());
        assert_eq!(found, [Tensor::sequence(values).expect("a sequence"), negated]);
    }
    // Of another element type than the model says: found out where it is taken.
    let s = Tensor::sequence(vec![texts(&["x"]), texts(&["y"])]).expect("a sequence");
    assert_eq!(session.run_owned(&[&s, &one]).expect_err("text").code(), "runtime::unexpected-result");
    let error = session.run_owned(&[&floats(&[1.0]), &one]).expect_err("no sequence");
    assert_eq!(error.code(), "runtime::wrong-type");
}

#[test]
fn optionals_in_and_out() {
    let inputs = [("o", optional_of(tensor_of(DType::F32)))];
    let nodes: [(&str, &[&str], &str); 2] = [("OptionalHasElement", &["o"], "has"), ("Identity", &["o"], "same")];
    let outputs = [("has", tensor_of(DType::Bool)), ("same", optional_of(tensor_of(DType::F32)))];
    let mut session = session(&inputs, &nodes, &outputs);
    for value in [None, Some(floats(&[1.0, 2.0]))] {
        let o = Tensor::optional(value.clone()).expect("an optional");
        let found = session.run_owned(&[&o]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found, [Tensor::from_bools(&[], &[value.is_some()]).expect("one"), o]);
    }
}
