//! Building graph nodes from tracked values: the primitives that every operator's import is written in.
//!
//! Each primitive computes what can be known, checks the result's type, and adds a node otherwise. What is wrong comes
//! back as a [`Problem`]; who imports the node adds which node it was.

mod finish;
mod fold;
mod join;
mod linear;
mod movement;
mod narrow;
mod nested;
mod numbers;
mod shapes;
mod subgraph;
mod types;
mod values;
mod window;

pub(crate) use finish::Contradiction;
pub(crate) use movement::{AxisSlice, var};
pub(crate) use narrow::{Rounding, ScaleRounding, carried};
pub(crate) use numbers::{MAX_SIZE, may_be_numbers};
pub(crate) use shapes::{MAX_RANK, check_complexity, exact_quotient, is_long, mismatch, product, quotient, show};
pub(crate) use subgraph::{Step, Steps};
pub(crate) use types::{check_computable, check_storable, compute_type};
pub(crate) use window::{Window, WindowAxis};

use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::AccessMap;
use infc_ir::entity::{OriginId, ScalarId, SymbolId, ValueId, VarId};
use infc_ir::graph::{BROADCAST_EXTENTS, Graph, Port, SymbolSource, TensorType};
use infc_ir::index::{Dim, Facts, IndexExpr, Ranges};
use infc_ir::kernel::Reducer;
use infc_ir::op::{ConcatOp, ContractOp, GatherOp, MapOp, Op, ReduceOp, ScanOp, ViewOp};
use infc_ir::scalar::{Body, Const, ScalarOp, is_computable};
use infc_tensor::DType;
use std::collections::BTreeMap;

/// The result of anything that builds.
pub(crate) type Result<T> = std::result::Result<T, Problem>;

/// A graph under construction.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(crate) graph: Graph,
    /// What is taken for granted of dims; each fact is an assumption of the graph.
    pub(crate) facts: Facts,
    /// Extents that the run tells, which are these or 1: of axes that may be folded.
    pub(crate) folded: BTreeMap<SymbolId, Dim>,
    /// Whether what is imported now ends in a shape, so that its elements are to be known whatever it takes.
    pub(crate) exact: bool,
    /// What the nodes added next come from.
    origin: OriginId,
    /// For constants, which belong to all their readers.
    pub(crate) no_origin: OriginId,
    /// Whether operators that ONNX defines by others round as those do, see [`Builder::step_type`].
    pub(crate) strict: bool,
    /// Whether host operations may be added: a graph that becomes one kernel has none.
    pub(crate) may_use_host: bool,
    /// Whether extents that are broadcast to each other may be what they like, as far as nobody knows: they are taken to be equal
    /// otherwise.
    pub(crate) extents_differ: bool,
    /// Whether this is a graph that is thrown away: nobody would check what is required of dims in it.
    pub(crate) is_trial: bool,
}

/// What a builder takes for granted at some point; see [`Builder::return_to`].
#[derive(Debug)]
pub(crate) struct State {
    facts: Facts,
    assumptions: usize,
    requires: usize,
}

impl Builder {
    pub(crate) fn new(graph: Graph) -> Self {
        let mut graph = graph;
        let no_origin = graph.origins.push(Vec::new());
        Self {
            graph,
            facts: Facts::default(),
            folded: BTreeMap::new(),
            exact: false,
            strict: false,
            origin: no_origin,
            no_origin,
            may_use_host: true,
            extents_differ: false,
            is_trial: false,
        }
    }

    /// Says which ONNX node the following graph nodes come from.
    pub(crate) fn set_origin(&mut self, name: &str) {
        self.origin = self.graph.origins.push(vec![name.to_owned()]);
    }

    /// What is taken for granted so far.
    pub(crate) fn state(&self) -> State {
        State {
            facts: self.facts.clone(),
            assumptions: self.graph.assumptions.len(),
            requires: self.graph.requires.len(),
        }
    }

    /// Takes back what has been taken for granted since. Nodes that were added since may stay: nothing reads them.
    pub(crate) fn return_to(&mut self, state: State) {
        self.facts = state.facts;
        self.graph.assumptions.truncate(state.assumptions);
        self.graph.requires.truncate(state.requires);
    }

    /// What is known of symbols.
    pub(crate) fn ranges(&self) -> Ranges {
        self.facts.narrowed(Ranges::of_symbols(&self.graph.symbols))
    }

    /// What is known of symbols and of the coordinates of a shape.
    pub(crate) fn ranges_over(&self, shape: &[Dim]) -> Ranges {
        let mut ranges = self.ranges();
        for (n, extent) in shape.iter().enumerate() {
            ranges.set_axis(VarId(n as u32), extent);
        }
        ranges
    }

    /// Adds an input of the graph, of any element type.
    pub(crate) fn input(&mut self, name: &str, ty: TensorType) -> Result<Tracked> {
        self.check_shape(&ty)?;
        let value = self.graph.add_input(name, carried(&ty));
        Ok(Tracked::of_value(ty, value))
    }

    fn state_facts(&mut self) {
        if self.facts.replaced_atoms() == 0 {
            return;
        }
        // Inputs may no longer tell the symbols that something stands for.
        let symbols: Vec<SymbolId> = self.graph.symbols.ids().collect();
        let of_input = |s: &SymbolId| match self.graph.source(*s)? {
            // What an operation produces, the operation says.
            SymbolSource::Produced { .. } => None,
            source => Some((*s, source)),
        };
        self.graph.sources = symbols.iter().filter_map(of_input).collect();
        let facts = std::mem::take(&mut self.facts);
        self.graph.rewrite_dims(&|dim| facts.apply(dim));
    }

    /// Adds an output of the graph.
    pub(crate) fn output(&mut self, name: &str, tracked: &Tracked) -> Result<()> {
        let value = self.value(tracked)?;
        self.graph.outputs.push(Port::new(name, value));
        Ok(())
    }

    fn add(&mut self, op: Op, inputs: &[ValueId], ty: TensorType) -> Result<Tracked> {
        self.check(&ty)?;
        let value = self.graph.add(op, inputs, carried(&ty), self.origin);
        Ok(Tracked::of_value(ty, value))
    }

    /// Movement: element `i` of the result is element `map(i)` of `x`, or `otherwise`.
    pub(crate) fn view_or(
        &mut self,
        x: &Tracked,
        map: AccessMap,
        shape: Vec<Dim>,
        otherwise: Const,
    ) -> Result<Tracked> {
        debug_assert_eq!((map.rank, map.index.len()), (shape.len(), x.rank()));
        let ty = TensorType::new(x.dtype(), shape);
        self.check(&ty)?;
        // What is not read is zero where the elements have no arithmetic.
        let otherwise = if is_computable(ty.dtype) { otherwise } else { Const::zero(narrow::carrier(ty.dtype)) };
        let ranges = self.ranges_over(&ty.shape);
        let map = map.simplify(&ranges);
        if ty.shape == x.shape() && map == AccessMap::identity(x.rank()).simplify(&ranges) {
            return Ok(x.clone());
        }
        if let (Some(item), true) = (x.as_uniform(), map.valid.is_empty()) {
            return Ok(Tracked::uniform(ty, item.clone()));
        }
        if let Some(items) = fold::view_items(x, &map, &ty.shape, otherwise) {
            return Ok(Tracked::of_items(ty, items));
        }
        let value = self.value(x)?;
        self.add(Op::View(ViewOp { map, shape: ty.shape.clone(), otherwise }), &[value], ty)
    }

    /// Movement that reads an element everywhere.
    pub(crate) fn view(&mut self, x: &Tracked, index: Vec<IndexExpr>, shape: Vec<Dim>) -> Result<Tracked> {
        let map = AccessMap { rank: shape.len(), index, valid: Vec::new() };
        self.view_or(x, map, shape, Const::zero(x.dtype()))
    }

    /// An element-wise function over broadcast inputs.
    pub(crate) fn map(
        &mut self,
        inputs: &[&Tracked],
        f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId,
    ) -> Result<Tracked> {
        let shapes: Vec<&[Dim]> = inputs.iter().map(|t| t.shape()).collect();
        let shape = self.broadcast_shape(&shapes)?;
        self.map_over(shape, inputs, f)
    }

    /// An element-wise function over inputs that are broadcast to the given shape.
    pub(crate) fn map_over(
        &mut self,
        shape: Vec<Dim>,
        inputs: &[&Tracked],
        f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId,
    ) -> Result<Tracked> {
        let mut body = Body::default();
        let mut read: Vec<&Tracked> = Vec::new();
        let mut params = Vec::new();
        for &input in inputs {
            types::check_computable(input.dtype())?;
            params.push(match input.as_uniform() {
                Some(item) => item.push(&mut body, input.dtype()),
                None => {
                    read.push(input);
                    body.param((read.len() - 1) as u8, input.dtype())
                }
            });
        }
        let result = f(&mut body, &params);
        types::check_body(&body)?;
        let ty = TensorType::new(body.dtype(result), shape);
        self.check(&ty)?;
        let read: Vec<Tracked> = read.into_iter().map(|t| self.broadcast(t, &ty.shape)).collect::<Result<_>>()?;
        let read: Vec<&Tracked> = read.iter().collect();
        if let Some(known) = self.map_known(&body, result, &read, &ty) {
            return Ok(known);
        }
        if let ScalarOp::Param(n, _) = body.ops[result] {
            return Ok(read[usize::from(n)].clone());
        }
        // Only what the result needs.
        let mut pruned = Body::default();
        let results = pruned.import(&body, &[result], &mut |_, _| None);
        let values = self.values(&read)?;
        self.add(Op::Map(MapOp { body: pruned, results }), &values, ty)
    }

    /// As [`Builder::map`], computing half types in f32 and rounding the result to the first input's type.
    pub(crate) fn compute(
        &mut self,
        inputs: &[&Tracked],
        f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId,
    ) -> Result<Tracked> {
        let shapes: Vec<&[Dim]> = inputs.iter().map(|t| t.shape()).collect();
        let shape = self.broadcast_shape(&shapes)?;
        self.compute_over(shape, inputs, f)
    }

    /// As [`Builder::compute`], over inputs that are broadcast to the given shape.
    pub(crate) fn compute_over(
        &mut self,
        shape: Vec<Dim>,
        inputs: &[&Tracked],
        f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId,
    ) -> Result<Tracked> {
        let dtype = inputs[0].dtype();
        self.map_over(shape, inputs, |body, params| {
            let wide: Vec<ScalarId> = params.iter().map(|&p| body.cast(compute_type(body.dtype(p)), p)).collect();
            let result = f(body, &wide);
            if body.dtype(result) == compute_type(dtype) { body.cast(dtype, result) } else { result }
        })
    }

    /// Folds axes, which disappear; one value per component of the reducer.
    pub(crate) fn reduce(
        &mut self,
        inputs: &[&Tracked],
        axes: &[usize],
        reducer: Reducer,
        f: impl FnOnce(&mut Body, &[ScalarId]) -> Vec<ScalarId>,
    ) -> Result<Vec<Tracked>> {
        let shape = inputs[0].shape().to_vec();
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        let mut body = Body::default();
        let params: Vec<ScalarId> = inputs.iter().enumerate().map(|(n, t)| body.param(n as u8, t.dtype())).collect();
        let elements = f(&mut body, &params);
        types::check_body(&body)?;
        types::check_body(&reducer.combine)?;
        let kept: Vec<Dim> =
            shape.iter().enumerate().filter(|(n, _)| !axes.contains(n)).map(|(_, d)| d.clone()).collect();
        let types: Vec<TensorType> = reducer.init.iter().map(|c| TensorType::new(c.dtype, kept.clone())).collect();
        types.iter().try_for_each(|ty| self.check(ty))?;
        inputs
            .iter()
            .map(|t| t.dtype())
            .chain(types.iter().map(|ty| ty.dtype))
            .try_for_each(types::check_computable)?;
        let op = ReduceOp { axes, body, elements, reducer };
        if let Some(known) = self.reduce_known(inputs, &shape, &op, &types) {
            return Ok(known);
        }
        let values = self.values(inputs)?;
        let outputs = self.graph.add_node(Op::Reduce(op), &values, types.clone(), self.origin);
        Ok(types.into_iter().zip(outputs).map(|(ty, value)| Tracked::of_value(ty, value)).collect())
    }

    /// A sum of products over labelled axes; half types are multiplied and summed in f32.
    pub(crate) fn contract(
        &mut self,
        (lhs, lhs_labels): (&Tracked, &[u8]),
        (rhs, rhs_labels): (&Tracked, &[u8]),
        output: &[u8],
    ) -> Result<Tracked> {
        if lhs.dtype() != rhs.dtype() {
            return Err(Problem::TypeMismatch { left: lhs.dtype(), right: rhs.dtype() });
        }
        let dtype = lhs.dtype();
        let wide = compute_type(dtype);
        let (lhs, rhs) = (self.cast(lhs, wide)?, self.cast(rhs, wide)?);
        let product = self.contract_in(wide, (&lhs, lhs_labels), (&rhs, rhs_labels), output)?;
        self.cast(&product, dtype)
    }

    /// A sum of products over labelled axes, computed in the given type; the operands may have other types.
    pub(crate) fn contract_in(
        &mut self,
        dtype: DType,
        (lhs, lhs_labels): (&Tracked, &[u8]),
        (rhs, rhs_labels): (&Tracked, &[u8]),
        output: &[u8],
    ) -> Result<Tracked> {
        let is_number = |d: DType| (d.is_float() || d.is_int()) && is_computable(d);
        if let Some(found) = [lhs.dtype(), rhs.dtype(), dtype].into_iter().find(|&d| !is_number(d)) {
            return Err(Problem::UnsupportedType { expected: "numbers of at least 8 bits", found });
        }
        let mut extents: Vec<Option<Dim>> = vec![None; 256];
        for (label, extent) in lhs_labels.iter().zip(lhs.shape()).chain(rhs_labels.iter().zip(rhs.shape())) {
            match &extents[usize::from(*label)] {
                // Batches of matrices are broadcast to each other.
                Some(known) if self.extents_differ && output.contains(label) => {
                    let both = self.broadcast_extent(&known.clone(), extent)?;
                    extents[usize::from(*label)] = Some(both);
                }
                Some(known) if output.contains(label) => self.require_equal(BROADCAST_EXTENTS, known, extent)?,
                Some(known) => self.require_equal("contracted extents", known, extent)?,
                None => extents[usize::from(*label)] = Some(extent.clone()),
            }
        }
        let mut operands = [lhs.clone(), rhs.clone()];
        if self.extents_differ {
            for (operand, labels) in operands.iter_mut().zip([lhs_labels, rhs_labels]) {
                let shape: Vec<Dim> = labels.iter().filter_map(|&l| extents[usize::from(l)].clone()).collect();
                *operand = self.broadcast(operand, &shape)?;
            }
        }
        let [lhs, rhs] = &operands;
        let shape: Vec<Dim> = output
            .iter()
            .map(|&l| extents[usize::from(l)].clone().expect("every output label is an operand's"))
            .collect();
        let values = self.values(&[lhs, rhs])?;
        let op = ContractOp { lhs: lhs_labels.to_vec(), rhs: rhs_labels.to_vec(), output: output.to_vec() };
        self.add(Op::Contract(op), &values, TensorType::new(dtype, shape))
    }

    /// Looks up slices of `data` along `axis`.
    pub(crate) fn gather(&mut self, data: &Tracked, indices: &Tracked, axis: usize) -> Result<Tracked> {
        let shape: Vec<Dim> =
            data.shape()[..axis].iter().chain(indices.shape()).chain(&data.shape()[axis + 1..]).cloned().collect();
        if !shapes::is_empty_with(&shape, &data.shape()[axis]) {
            // Positions out of range are clamped, for which there must be one in range, if anything is looked up.
            let any = indices.shape().iter().filter(|d| d.as_const().is_none());
            let any: Dim = any.map(|d| d.minimum(&Dim::constant(1))).product();
            // What never has elements is not looked up by what may have none, but by mistake.
            let is_plain = is_long(&any) || data.shape()[axis].is_const(0);
            let least = if is_plain { Dim::constant(1) } else { any.simplify(&self.ranges()) };
            self.require_at_least("the axis that is looked up", &data.shape()[axis], &least)?;
        }
        types::check_computable(indices.dtype())?;
        let values = self.values(&[data, indices])?;
        self.add(Op::Gather(GatherOp { axis }), &values, TensorType::new(data.dtype(), shape))
    }

    /// Puts values one after the other along `axis`.
    pub(crate) fn concat(&mut self, inputs: &[&Tracked], axis: usize) -> Result<Tracked> {
        let [first, rest @ ..] = inputs else { return Err(Problem::MissingInput { index: 0 }) };
        let mut shape = first.shape().to_vec();
        for next in rest {
            if next.dtype() != first.dtype() {
                return Err(Problem::TypeMismatch { left: first.dtype(), right: next.dtype() });
            }
            if next.rank() != first.rank() {
                return Err(shapes::mismatch(format!("{} axes", first.rank()), next.shape()));
            }
            for (n, (mine, theirs)) in first.shape().iter().zip(next.shape()).enumerate() {
                if n != axis {
                    self.require_equal("extents beside the concatenated axis", mine, theirs)?;
                    // Of two ways to say the same, the number is better.
                    if theirs.as_const().is_some() {
                        shape[n] = theirs.clone();
                    }
                }
            }
            shape[axis] = shape[axis].clone() + next.shape()[axis].clone();
        }
        if rest.is_empty() {
            return Ok((*first).clone());
        }
        // What is taken to be equal and no fact can say, a view does: a part is as wide as the whole.
        let mut parts = Vec::with_capacity(inputs.len());
        for &part in inputs {
            let extent = |n: usize| if n == axis { part.shape()[n].clone() } else { shape[n].clone() };
            let within: Vec<Dim> = (0..shape.len()).map(extent).collect();
            let is_as_wide = self.restated(part.shape()) == self.restated(&within);
            parts.push(if is_as_wide {
                part.clone()
            } else {
                self.view(part, (0..within.len()).map(var).collect(), within)?
            });
        }
        let inputs = &parts.iter().collect::<Vec<_>>()[..];
        if let Some(whole) = self.concat_in_groups(inputs, axis, &shape[axis])? {
            return Ok(whole);
        }
        let ty = TensorType::new(first.dtype(), shape);
        self.check(&ty)?;
        if let Some(items) = fold::concat_items(inputs, axis, &ty) {
            return Ok(Tracked::of_items(ty, items));
        }
        let values = self.values(inputs)?;
        self.add(Op::Concat(ConcatOp { axis }), &values, ty)
    }

    /// A running fold along an axis.
    pub(crate) fn scan(&mut self, x: &Tracked, op: ScanOp) -> Result<Tracked> {
        types::check_computable(x.dtype())?;
        types::check_body(&op.reducer.combine)?;
        let value = self.value(x)?;
        self.add(Op::Scan(op), &[value], x.ty().clone())
    }

    /// An element-wise function of the coordinates alone.
    pub(crate) fn generate(&mut self, shape: Vec<Dim>, f: impl FnOnce(&mut Body) -> ScalarId) -> Result<Tracked> {
        self.map_over(shape, &[], |body, _| f(body))
    }
}

/// The value of an index expression as a scalar.
pub(crate) fn index(body: &mut Body, e: IndexExpr) -> ScalarId {
    body.push(ScalarOp::Index(e))
}
