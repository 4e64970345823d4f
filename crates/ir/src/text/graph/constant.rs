//! Constant tensors in text: their elements if few, else a hash.

use super::super::error::ParseErrorKind;
use super::super::parser::{Mark, Parsed, Parser};
use super::super::scalar::constant_text;
use crate::graph::Graph;
use crate::op::Op;
use crate::scalar::{Const, has_arithmetic};
use infc_tensor::{AlignedBytes, Attribute, DType, Tensor};
use std::collections::BTreeMap;

/// Constants of at most so many elements print them.
const MAX_PRINTED: usize = 16;

/// What stands for a tensor in text: a hash of its type, shape and elements, in hexadecimal.
#[must_use]
pub fn constant_hash(tensor: &Tensor) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tensor.dtype().name().as_bytes());
    for &extent in tensor.shape() {
        hasher.update(&(extent as u64).to_le_bytes());
    }
    hasher.update(tensor.bytes());
    for text in tensor.strings().unwrap_or_default() {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The constants of a graph (and of the composites in it) that print as a hash.
#[must_use]
pub fn constants_by_hash(graph: &Graph) -> BTreeMap<String, Tensor> {
    let mut constants = BTreeMap::new();
    collect(graph, &mut constants);
    constants
}

fn collect(graph: &Graph, constants: &mut BTreeMap<String, Tensor>) {
    for node in graph.order.iter().filter_map(|&id| graph.nodes.get(id)) {
        match &node.op {
            Op::Constant(c) if !prints_elements(&c.tensor) => {
                constants.insert(constant_hash(&c.tensor), c.tensor.clone());
            }
            Op::Composite(composite) => collect(&composite.body, constants),
            Op::Recurrence(recurrence) => collect(&recurrence.body, constants),
            Op::If(branches) => {
                collect(&branches.then, constants);
                collect(&branches.otherwise, constants);
            }
            Op::Host(host) => {
                for (_, attribute) in host.attributes.iter() {
                    let tensors = match attribute {
                        Attribute::Tensor(tensor) => std::slice::from_ref(tensor),
                        Attribute::Tensors(tensors) => tensors,
                        _ => continue,
                    };
                    for tensor in tensors.iter().filter(|t| !prints_elements(t)) {
                        constants.insert(constant_hash(tensor), tensor.clone());
                    }
                }
            }
            _ => {}
        }
    }
}

fn prints_elements(tensor: &Tensor) -> bool {
    let whole = tensor.dtype().size_bytes().is_some();
    whole && has_arithmetic(tensor.dtype()) && tensor.len_elems() <= MAX_PRINTED
}

/// `[1, 2, 3]` or `#"…"`.
pub(super) fn tensor_text(tensor: &Tensor) -> String {
    if !prints_elements(tensor) {
        return format!("#\"{}\"", constant_hash(tensor));
    }
    let dtype = tensor.dtype();
    let size = dtype.size_bytes().unwrap_or(1);
    let element = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        constant_text(Const { dtype, bits: u64::from_le_bytes(word) })
    };
    let elements: Vec<String> = tensor.bytes().chunks_exact(size).map(element).collect();
    format!("[{}]", elements.join(", "))
}

impl Parser<'_> {
    /// What [`tensor_text`] prints, of a known type and shape.
    pub(super) fn tensor(
        &mut self,
        dtype: DType,
        shape: Vec<usize>,
        resolve: &dyn Fn(&str) -> Option<Tensor>,
    ) -> Parsed<Tensor> {
        let mark = self.mark();
        if self.eat("#") {
            let hash = self.name("the hash of a constant")?;
            let known = resolve(&hash).filter(|t| t.dtype() == dtype && *t.shape() == *shape);
            return known.ok_or_else(|| self.unknown(mark, "constant", hash));
        }
        self.expect("[")?;
        let Some(size) = dtype.size_bytes().filter(|_| has_arithmetic(dtype)) else {
            return self.expected("a constant by its hash");
        };
        let mut bytes = Vec::new();
        self.list("]", |p| {
            let constant = p.constant(dtype)?;
            bytes.extend_from_slice(&constant.bits.to_le_bytes()[..size]);
            Ok(())
        })?;
        let found = bytes.len() / size;
        Tensor::from_bytes(dtype, shape.clone(), AlignedBytes::from_slice(&bytes)).map_err(|_| {
            let expected = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(usize::MAX);
            self.wrong_count(mark, "elements", expected, found)
        })
    }

    pub(super) fn wrong_count(
        &self,
        mark: Mark,
        what: &'static str,
        expected: usize,
        found: usize,
    ) -> super::super::ParseError {
        self.error_at(mark, ParseErrorKind::WrongCount { what, expected, found })
    }
}
