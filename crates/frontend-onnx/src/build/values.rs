//! Tracked values as values of the graph: added when something reads them, known elements as constants.

use super::{Builder, Result, carried, check_storable, narrow};
use crate::error::Problem;
use crate::known::{self, Item};
use crate::tracked::{Contents, Tracked, static_len};
use infc_ir::access::AccessMap;
use infc_ir::entity::ValueId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{ConstantOp, HostOp, Op, ViewOp};
use infc_ir::scalar::{Const, is_computable};
use infc_tensor::{Attributes, DType, Subgraphs, Tensor};
use std::sync::Arc;

impl Builder {
    /// The value in the graph, added now if it was not needed so far.
    pub(crate) fn value(&mut self, tracked: &Tracked) -> Result<ValueId> {
        if let Some(value) = tracked.value() {
            return Ok(value);
        }
        self.check(tracked.ty())?;
        let value = match (tracked.constant(), tracked.contents()) {
            (Some(constant), _) if !is_computable(tracked.dtype()) => {
                let op = ConstantOp { name: constant.name.clone(), tensor: constant.tensor.unpacked() };
                self.constant_value(Arc::new(op), carried(tracked.ty()))
            }
            (Some(constant), _) => self.constant_value(constant.clone(), tracked.ty().clone()),
            (None, Contents::Uniform(item)) if tracked.rank() > 0 => {
                let scalar = Tracked::uniform(TensorType::new(tracked.dtype(), Vec::new()), item.clone());
                let value = self.value(&scalar)?;
                let map = AccessMap { rank: tracked.rank(), index: Vec::new(), valid: Vec::new() };
                let op = ViewOp { map, shape: tracked.shape().to_vec(), otherwise: Const::zero(tracked.dtype()) };
                self.graph.add(Op::View(op), &[value], tracked.ty().clone(), self.origin)
            }
            (None, _) => self.items_value(tracked)?,
        };
        tracked.set_value(value);
        Ok(value)
    }

    /// An operator that the runtime evaluates, with the types of the outputs that `op` asks for.
    pub(crate) fn host(&mut self, op: HostOp, inputs: &[&Tracked], types: Vec<TensorType>) -> Result<Vec<Tracked>> {
        let all = inputs.iter().map(|t| t.dtype()).chain(types.iter().map(|ty| ty.dtype));
        if let Some(found) = all.into_iter().find(|&dtype| narrow::carrier(dtype) != dtype) {
            // The host would see what the graph has in their place.
            return Err(Problem::UnsupportedType { expected: "elements of whole bytes that are computed with", found });
        }
        let values = inputs.iter().map(|input| self.host_operand(input)).collect::<Result<Vec<_>>>()?;
        let outputs = self.graph.add_node(Op::Host(Arc::new(op)), &values, types.clone(), self.origin);
        Ok(types.into_iter().zip(outputs).map(|(ty, value)| Tracked::of_value(ty, value)).collect())
    }

    /// A value that a host operation reads, of any element type.
    fn host_operand(&mut self, input: &Tracked) -> Result<ValueId> {
        let (Some(constant), None) = (input.constant(), input.value()) else { return self.value(input) };
        if check_storable(input.dtype()).is_ok() {
            return self.value(input);
        }
        if input.dtype() != DType::String {
            let value = self.constant_value(constant.clone(), input.ty().clone());
            input.set_value(value);
            return Ok(value);
        }
        // Strings are no weights.
        let op = HostOp {
            op_type: "Constant".to_owned(),
            domain: String::new(),
            opset: 13,
            attributes: Attributes::from_iter([("value", constant.tensor.clone())]),
            graphs: Subgraphs::default(),
            body: None,
            inputs: Vec::new(),
            outputs: vec![true],
            produces: Vec::new(),
            reason: "its elements are strings".to_owned(),
        };
        let value = self.graph.add(Op::Host(Arc::new(op)), &[], input.ty().clone(), self.origin);
        input.set_value(value);
        Ok(value)
    }

    /// An element of a vector or a scalar if it is known, also where others beside it are not.
    pub(crate) fn known_element(&self, x: &Tracked, index: usize) -> Option<Item> {
        match x.items() {
            Some(items) => items.get(index).cloned(),
            None => self.element_of(x.value()?, index),
        }
    }

    /// What was put there by [`Builder::items_value`] and by concatenations of vectors.
    fn element_of(&self, mut value: ValueId, mut index: usize) -> Option<Item> {
        let len = |value: ValueId| static_len(&self.graph.values[value].ty.shape);
        loop {
            let (_, node) = self.graph.producer(value)?;
            match (&node.op, &node.inputs[..]) {
                (Op::Constant(constant), _) => return known::items_of(&constant.tensor)?.get(index).cloned(),
                (Op::DimValue(dim), _) => return Some(Item::Int(dim.clone())),
                (Op::Concat(_), parts) if self.graph.values[value].ty.shape.len() == 1 => {
                    let (part, at) = self.part_at(parts, 0, i64::try_from(index).ok()?)?;
                    (value, index) = (part, usize::try_from(at).ok()?);
                }
                // One element, in whatever shape.
                (Op::View(view), &[of]) if view.map.valid.is_empty() && len(of) == Some(1) => (value, index) = (of, 0),
                _ => return None,
            }
        }
    }

    pub(super) fn values(&mut self, inputs: &[&Tracked]) -> Result<Vec<ValueId>> {
        inputs.iter().map(|t| self.value(t)).collect()
    }

    fn constant_value(&mut self, constant: Arc<ConstantOp>, ty: TensorType) -> ValueId {
        self.graph.add(Op::Constant(constant), &[], ty, self.no_origin)
    }

    /// Elements that were tracked so far, as data.
    fn items_value(&mut self, tracked: &Tracked) -> Result<ValueId> {
        let items = tracked.items().expect("a value that is not in the graph has known elements");
        let extents: Vec<usize> = tracked.shape().iter().map(|d| d.as_const().map_or(0, |d| d as usize)).collect();
        // What is known of types that are not computed with are elements of their carriers: none, or padding.
        let ty = carried(tracked.ty());
        if let Some(tensor) = known::tensor_of(ty.dtype, &extents, &items) {
            let op = ConstantOp { name: String::new(), tensor };
            return Ok(self.constant_value(Arc::new(op), ty));
        }
        let dtype = tracked.dtype();
        let scalars = items.iter().map(|item| self.item_value(item, dtype)).collect::<Result<Vec<_>>>()?;
        let vectors = match &scalars[..] {
            [one] => one.clone(),
            _ => {
                let parts: Vec<Tracked> =
                    scalars.iter().map(|s| self.reshape(s, &[Dim::constant(1)])).collect::<Result<_>>()?;
                self.concat(&parts.iter().collect::<Vec<_>>(), 0)?
            }
        };
        let shaped = self.reshape(&vectors, tracked.shape())?;
        let typed = self.map(&[&shaped], |body, p| body.cast(dtype, p[0]))?;
        self.value(&typed)
    }

    /// An element as data: a dim in `i64`, unless it is among floats.
    fn item_value(&mut self, item: &Item, among: DType) -> Result<Tracked> {
        let ty = TensorType::new(DType::I64, Vec::new());
        let dim = match item {
            Item::Int(dim) => self.add(Op::DimValue(dim.clone()), &[], ty)?,
            Item::Const(c) => return Ok(Tracked::uniform(TensorType::new(c.dtype, Vec::new()), Item::Const(*c))),
        };
        if among.is_float() { self.map(&[&dim], |body, p| body.cast(among, p[0])) } else { Ok(dim) }
    }

    /// A constant scalar.
    pub(crate) fn scalar(&self, dtype: DType, value: f64) -> Tracked {
        Tracked::uniform(TensorType::new(dtype, Vec::new()), Item::from_const(Const::from_f64(dtype, value)))
    }

    /// A constant tensor.
    pub(crate) fn constant(&self, name: &str, tensor: Tensor) -> Tracked {
        Tracked::of_constant(name, tensor)
    }

    /// The value as the graph sees it: nothing is known of its elements, so what is computed from it stays visible to
    /// passes, however small it is.
    pub(crate) fn as_data(&mut self, x: &Tracked) -> Result<Tracked> {
        let value = self.value(x)?;
        Ok(Tracked::of_value(x.ty().clone(), value))
    }
}
