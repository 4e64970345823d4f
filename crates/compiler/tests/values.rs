//! Models whose inputs and outputs have no bytes, through the whole line: text, sequences, optionals, maps.

use infc::{CompileOptions, Source};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto, attribute_proto,
    type_proto,
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

fn map_of(keys: DType, values: DType) -> TypeProto {
    let key_type = Some(infc_frontend_onnx::dtype_to_onnx(keys));
    let map = type_proto::Map { key_type, value_type: Some(Box::new(tensor_of(values))) };
    TypeProto { denotation: None, value: Some(type_proto::Value::MapType(Box::new(map))) }
}

fn node(op_type: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op_type.to_owned()),
        name: Some(output.to_owned()),
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn session(
    inputs: &[(&str, TypeProto)],
    nodes: &[(&str, &[&str], &str)],
    outputs: &[(&str, TypeProto)],
) -> infc_runtime::Session {
    session_of(inputs, nodes.iter().map(|&(op_type, inputs, output)| node(op_type, inputs, output)).collect(), outputs)
}

fn session_of(
    inputs: &[(&str, TypeProto)],
    nodes: Vec<NodeProto>,
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
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: nodes,
        input: ports(inputs),
        output: ports(outputs),
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![
            OperatorSetIdProto { domain: None, version: Some(20) },
            OperatorSetIdProto { domain: Some("ai.onnx.ml".to_owned()), version: Some(3) },
        ],
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

fn classical(op_type: &str, inputs: &[&str], output: &str, attribute: AttributeProto) -> NodeProto {
    NodeProto { domain: Some("ai.onnx.ml".to_owned()), attribute: vec![attribute], ..node(op_type, inputs, output) }
}

fn words(name: &str, list: &[&str]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(attribute_proto::AttributeType::Strings as i32),
        strings: list.iter().map(|&s| s.as_bytes().to_vec().into()).collect(),
        ..AttributeProto::default()
    }
}

/// A map per row goes out, as behind the classifiers of scikit-learn; a map comes in and becomes a row.
#[test]
fn maps_in_and_out() {
    let inputs = [("m", map_of(DType::String, DType::F32)), ("x", tensor_of(DType::F32))];
    let nodes = vec![
        classical("DictVectorizer", &["m"], "row", words("string_vocabulary", &["a", "b"])),
        node("Add", &["row", "x"], "y"),
        classical("ZipMap", &["y"], "maps", words("classlabels_strings", &["no", "yes"])),
    ];
    let outputs = [
        ("y", tensor_of(DType::F32)),
        ("maps", sequence_of(map_of(DType::String, DType::F32))),
        ("m", map_of(DType::String, DType::F32)),
    ];
    let mut session = session_of(&inputs, nodes, &outputs);
    for (keys, values, row) in [(&["b", "z"][..], &[2.0f32, 9.0][..], [0.5, 3.5]), (&[], &[], [0.5, 1.5])] {
        let m = Tensor::map(&texts(keys), &floats(values)).expect("a map");
        let found = session.run_owned(&[&m, &floats(&[0.5, 1.5])]).unwrap_or_else(|e| panic!("{e}"));
        let map = Tensor::map(&texts(&["no", "yes"]), &floats(&row)).expect("a map");
        assert_eq!(found[0].elements::<f32>().expect("floats"), row);
        assert_eq!(found[1..], [Tensor::sequence(vec![map]).expect("a sequence"), m]);
    }
    let error = session.run_owned(&[&floats(&[1.0, 2.0]), &floats(&[1.0, 2.0])]).expect_err("no map");
    assert_eq!(error.code(), "runtime::wrong-type");
}

/// Nobody declares the types between: text has the shapes that numbers have.
#[test]
fn text_is_moved() {
    let inputs = [("a", tensor_of(DType::String)), ("n", tensor_of(DType::I64))];
    let nodes = vec![
        node("Gather", &["a", "n"], "found"),
        node_with("Concat", &["found", "a"], "twice", ("axis", 0)),
        node_with("Flatten", &["twice"], "row", ("axis", 0)),
    ];
    let mut session = session_of(&inputs, nodes, &[("row", tensor_of(DType::String))]);
    let n = Tensor::from_elements(&[1], &[1i64]).expect("one");
    let found = session.run_owned(&[&texts(&["x", "y"]), &n]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (found[0].shape(), found[0].strings().expect("text")),
        (&[1, 3][..], &["y", "x", "y"].map(String::from)[..])
    );
}

fn node_with(op_type: &str, inputs: &[&str], output: &str, attribute: (&str, i64)) -> NodeProto {
    let attribute = AttributeProto {
        name: Some(attribute.0.to_owned()),
        r#type: Some(attribute_proto::AttributeType::Int as i32),
        i: Some(attribute.1),
        ..AttributeProto::default()
    };
    NodeProto { attribute: vec![attribute], ..node(op_type, inputs, output) }
}

/// Numbers become text in the middle of a model, where nobody declares it.
#[test]
fn numbers_become_text() {
    let inputs = [("n", tensor_of(DType::I64)), ("unit", tensor_of(DType::String))];
    let text = i64::from(infc_frontend_onnx::dtype_to_onnx(DType::String));
    let nodes = vec![
        node("Neg", &["n"], "negated"),
        node_with("Cast", &["negated"], "written", ("to", text)),
        node("StringConcat", &["written", "unit"], "y"),
    ];
    let mut session = session_of(&inputs, nodes, &[("y", tensor_of(DType::String))]);
    let n = Tensor::from_elements(&[2], &[7i64, -12]).expect("two");
    let found = session.run_owned(&[&n, &texts(&["m", ""])]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found, [texts(&["-7m", "12"])]);
}

/// Text becomes bytes, which stand for text where shapes are found.
#[test]
fn text_becomes_numbers() {
    let inputs = [("a", tensor_of(DType::String)), ("b", tensor_of(DType::U8))];
    let bytes = i64::from(infc_frontend_onnx::dtype_to_onnx(DType::U8));
    let nodes = vec![
        node_with("Cast", &["a"], "read", ("to", bytes)),
        node("CastLike", &["a", "b"], "too"),
        node("Add", &["read", "b"], "sum"),
        node("Add", &["sum", "too"], "y"),
    ];
    let mut session = session_of(&inputs, nodes, &[("y", tensor_of(DType::U8))]);
    let b = Tensor::from_elements(&[2], &[1u8, 2]).expect("two");
    let found = session.run_owned(&[&texts(&["7", "40"]), &b]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found, [Tensor::from_elements(&[2], &[15u8, 82]).expect("two")]);
}

/// Complex numbers are moved by the host.
#[test]
fn complex_numbers_are_moved() {
    let inputs = [("z", tensor_of(DType::Complex64)), ("n", tensor_of(DType::I64))];
    let nodes = vec![
        node("Gather", &["z", "n"], "found"),
        node_with("Concat", &["found", "z"], "both", ("axis", 0)),
        node_with("Flatten", &["both"], "y", ("axis", 0)),
    ];
    let mut session = session_of(&inputs, nodes, &[("y", tensor_of(DType::Complex64))]);
    let complex = |shape: &[usize], parts: &[f32]| {
        let bytes = infc_tensor::AlignedBytes::from_slice(floats(parts).bytes());
        Tensor::from_bytes(DType::Complex64, shape.to_vec(), bytes).expect("two parts each")
    };
    let n = Tensor::from_elements(&[1], &[1i64]).expect("one");
    let found = session.run_owned(&[&complex(&[2], &[1.0, -1.0, 2.0, 0.5]), &n]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found, [complex(&[1, 3], &[2.0, 0.5, 1.0, -1.0, 2.0, 0.5])]);
}
