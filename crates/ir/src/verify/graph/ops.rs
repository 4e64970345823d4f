//! The rules of each operation.

use super::super::body::Leaves;
use super::super::{Report, ViolationKind};
use super::{Checker, check_graph};
use crate::access::Bound;
use crate::entity::{EntityId, VarId};
use crate::graph::{Graph, TensorType};
use crate::index::{Dim, IndexExpr, Ranges};
use crate::op::{ContractOp, HostBody, HostOp, IfOp, MapOp, Op, Produced, RecurrenceOp, ReduceOp, ViewOp};
use crate::scalar::Load;
use infc_tensor::DType;

type Types<'a> = [&'a TensorType];

impl Checker<'_> {
    pub(super) fn op(&mut self, op: &Op, inputs: &Types<'_>, outputs: &Types<'_>) {
        let counts = match op {
            Op::Constant(_) | Op::DimValue(_) => Some(0),
            Op::View(_) | Op::Scan(_) => Some(1),
            Op::Contract(_) | Op::Gather(_) => Some(2),
            Op::Host(host) => Some(host.inputs.iter().filter(|&&given| given).count()),
            Op::Map(_) | Op::Reduce(_) | Op::Concat(_) | Op::Recurrence(_) | Op::If(_) | Op::Composite(_) => None,
        };
        let one_output =
            !matches!(op, Op::Map(_) | Op::Reduce(_) | Op::Recurrence(_) | Op::If(_) | Op::Host(_) | Op::Composite(_));
        let counted = counts.is_none_or(|n| self.report.count("inputs", n, inputs.len()));
        if (one_output && !self.report.count("outputs", 1, outputs.len())) || !counted {
            return;
        }
        match op {
            Op::Constant(c) => {
                self.report.dtype("the constant", outputs[0].dtype, c.tensor.dtype());
                let shape: Vec<Dim> = c.tensor.shape().iter().map(|&d| Dim::constant(d as i64)).collect();
                self.same_shape("the constant", &outputs[0].shape, &shape);
            }
            Op::DimValue(dim) => {
                self.report.dim(dim, &self.ranges, self.symbols.len());
                self.report.dtype("the value of a dim", outputs[0].dtype, DType::I64);
                self.report.count("axes", 0, outputs[0].shape.len());
            }
            Op::Host(host) => self.host(host, outputs),
            Op::Map(map) => self.map(map, inputs, outputs),
            Op::View(view) => self.view(view, inputs[0], outputs[0]),
            Op::Reduce(reduce) => self.reduce(reduce, inputs, outputs),
            Op::Contract(contract) => self.contract(contract, inputs, outputs[0]),
            Op::Gather(gather) => {
                let (data, indices) = (inputs[0], inputs[1]);
                if !indices.dtype.is_int() {
                    let op = "a gathered index".to_owned();
                    self.report.push(ViolationKind::UnsupportedType { op, dtype: indices.dtype });
                }
                self.report.dtype("the output", data.dtype, outputs[0].dtype);
                if self.axis_exists(gather.axis, data.shape.len()) {
                    let mut shape = data.shape[..gather.axis].to_vec();
                    shape.extend_from_slice(&indices.shape);
                    shape.extend_from_slice(&data.shape[gather.axis + 1..]);
                    self.same_shape("the output", &shape, &outputs[0].shape);
                }
            }
            Op::Concat(concat) => self.concat(concat.axis, inputs, outputs[0]),
            Op::Scan(scan) => {
                self.report.dtype("the output", inputs[0].dtype, outputs[0].dtype);
                self.same_shape("the output", &inputs[0].shape, &outputs[0].shape);
                self.axis_exists(scan.axis, inputs[0].shape.len());
                self.report.reducer(&scan.reducer, &[inputs[0].dtype]);
            }
            Op::Recurrence(recurrence) => self.recurrence(recurrence, inputs, outputs),
            Op::If(branches) => self.branches(branches, inputs, outputs),
            Op::Composite(composite) => self.body(&composite.body, inputs, outputs),
        }
    }

    fn axis_exists(&mut self, axis: usize, rank: usize) -> bool {
        if axis >= rank {
            self.report.push(ViolationKind::Dangling { what: "axis", id: axis.to_string() });
        }
        axis < rank
    }

    /// Checks a body over the elements of the inputs, at the coordinates of a shape.
    fn elements(
        &mut self,
        body: &crate::scalar::Body,
        results: &[crate::entity::ScalarId],
        inputs: &Types<'_>,
        shape: &[Dim],
    ) -> Vec<DType> {
        let params: Vec<DType> = inputs.iter().map(|t| t.dtype).collect();
        let leaves = ElementLeaves { params, coordinates: Coordinates::new(&self.ranges, shape, self.symbols.len()) };
        self.report.body(body, results, &leaves)
    }

    /// Symbols that are produced exist, and are extents of the outputs.
    fn host(&mut self, host: &HostOp, outputs: &Types<'_>) {
        self.report.count("outputs", host.outputs.iter().filter(|&&named| named).count(), outputs.len());
        self.produced(&host.produces, outputs);
        match &host.body {
            Some(body) => self.host_body(host, body),
            // What a loop computes, something has to say.
            None if host.op_type == "Loop" && host.domain.is_empty() && host.graphs.is_empty() => {
                self.report.push(ViolationKind::Missing { what: "the body of a loop" });
            }
            None => {}
        }
    }

    /// The graph of a loop's step has what the loop gives it, and gives what the loop makes of it.
    fn host_body(&mut self, host: &HostOp, body: &HostBody) {
        let is_given = |input: usize| host.inputs.get(input) == Some(&true);
        for &capture in body.captures.iter().filter(|&&capture| !is_given(capture as usize)) {
            self.report.push(ViolationKind::Dangling { what: "input", id: capture.to_string() });
        }
        let before = HostBody::BEFORE_STATES + body.states();
        self.report.count("inputs of a step", before + body.captures.len(), body.graph.inputs.len());
        if !(HostBody::BEFORE_STATES..before).all(is_given) {
            self.report.push(ViolationKind::Missing { what: "a state of a loop" });
        }
        if body.graph.outputs.len() < 1 + body.states().max(host.outputs.len()) {
            self.report.push(ViolationKind::Missing { what: "an output of a step" });
        }
    }

    fn produced(&mut self, produces: &[Produced], outputs: &Types<'_>) {
        for produced in produces {
            let axes = outputs.get(produced.output as usize).map_or(0, |ty| ty.shape.len());
            if produced.axis as usize >= axes {
                self.report.push(ViolationKind::Dangling { what: "axis", id: produced.axis.to_string() });
            }
            if produced.symbol.index() >= self.symbols.len() {
                self.report.push(ViolationKind::Dangling { what: "symbol", id: produced.symbol.to_string() });
            }
        }
    }

    fn map(&mut self, map: &MapOp, inputs: &Types<'_>, outputs: &Types<'_>) {
        let Some(first) = outputs.first() else {
            return self.report.push(ViolationKind::Missing { what: "an output" });
        };
        for ty in inputs.iter().chain(outputs) {
            self.same_shape("an operand", &first.shape, &ty.shape);
        }
        let dtypes = self.elements(&map.body, &map.results, inputs, &first.shape);
        self.report.count("outputs", map.results.len(), outputs.len());
        for (&dtype, output) in dtypes.iter().zip(outputs) {
            self.report.dtype("an output", output.dtype, dtype);
        }
    }

    fn view(&mut self, view: &ViewOp, input: &TensorType, output: &TensorType) {
        self.report.count("coordinates", output.shape.len(), view.map.rank);
        self.report.count("indices", input.shape.len(), view.map.index.len());
        self.same_shape("the view", &output.shape, &view.shape);
        self.report.dtype("the output", input.dtype, output.dtype);
        self.report.dtype("the value outside", output.dtype, view.otherwise.dtype);
        self.report.constant(view.otherwise);
        let coordinates = Coordinates::new(&self.ranges, &output.shape, self.symbols.len());
        for expr in &view.map.index {
            coordinates.index(self.report, expr);
        }
        coordinates.bounds(self.report, &view.map.valid);
    }

    fn reduce(&mut self, reduce: &ReduceOp, inputs: &Types<'_>, outputs: &Types<'_>) {
        let Some(first) = inputs.first() else {
            return self.report.push(ViolationKind::Missing { what: "an input" });
        };
        for ty in inputs {
            self.same_shape("an input", &first.shape, &ty.shape);
        }
        let ascending = reduce.axes.is_sorted_by(|a, b| a < b);
        if !ascending {
            self.report.push(ViolationKind::NotAllowed { what: "axes that are not ascending" });
        }
        for &axis in &reduce.axes {
            self.axis_exists(axis, first.shape.len());
        }
        let kept = first.shape.iter().enumerate().filter(|(n, _)| !reduce.axes.contains(n));
        let shape: Vec<Dim> = kept.map(|(_, d)| d.clone()).collect();
        let dtypes = self.elements(&reduce.body, &reduce.elements, inputs, &first.shape);
        self.report.reducer(&reduce.reducer, &dtypes);
        self.report.count("outputs", reduce.reducer.init.len(), outputs.len());
        for (c, output) in reduce.reducer.init.iter().zip(outputs) {
            self.report.dtype("an output", output.dtype, c.dtype);
            self.same_shape("an output", &shape, &output.shape);
        }
    }

    fn contract(&mut self, contract: &ContractOp, inputs: &Types<'_>, output: &TensorType) {
        let operands = [(&contract.lhs, inputs[0]), (&contract.rhs, inputs[1]), (&contract.output, output)];
        let mut extents: Vec<(u8, Dim)> = Vec::new();
        for (labels, ty) in operands {
            if ty.dtype == DType::Bool || !crate::scalar::has_arithmetic(ty.dtype) {
                let op = "a contraction".to_owned();
                self.report.push(ViolationKind::UnsupportedType { op, dtype: ty.dtype });
            }
            self.report.count("labels", ty.shape.len(), labels.len());
            for (n, (label, extent)) in labels.iter().zip(&ty.shape).enumerate() {
                if labels[..n].contains(label) {
                    self.report.push(ViolationKind::NotAllowed { what: "a label twice in one operand" });
                }
                match extents.iter().find(|(l, _)| l == label).map(|(_, e)| e.clone()) {
                    Some(known) => self.same_extent("a label", &known, extent),
                    None => extents.push((*label, extent.clone())),
                }
            }
        }
        if contract.output.iter().any(|l| !contract.lhs.contains(l) && !contract.rhs.contains(l)) {
            self.report.push(ViolationKind::NotAllowed { what: "an output label that no input has" });
        }
    }

    fn concat(&mut self, axis: usize, inputs: &Types<'_>, output: &TensorType) {
        if inputs.is_empty() {
            return self.report.push(ViolationKind::Missing { what: "an input" });
        }
        if !self.axis_exists(axis, output.shape.len()) {
            return;
        }
        let mut total = Dim::constant(0);
        for input in inputs {
            self.report.dtype("an input", output.dtype, input.dtype);
            if !self.report.count("axes", output.shape.len(), input.shape.len()) {
                return;
            }
            for (n, (expected, found)) in output.shape.iter().zip(&input.shape).enumerate() {
                if n != axis {
                    self.same_extent("an input", expected, found);
                }
            }
            total = total + input.shape[axis].clone();
        }
        self.same_extent("the output", &total, &output.shape[axis]);
    }

    fn recurrence(&mut self, recurrence: &RecurrenceOp, inputs: &Types<'_>, outputs: &Types<'_>) {
        let body = &recurrence.body;
        self.report.dim(&recurrence.steps, &self.ranges, self.symbols.len());
        let sliced = recurrence.states.saturating_add(recurrence.slices);
        if sliced > inputs.len() || recurrence.states > outputs.len() {
            return self.report.push(ViolationKind::Missing { what: "a state or a slice" });
        }
        if !self.report.count("inputs", inputs.len(), body.inputs.len())
            || !self.report.count("outputs", outputs.len(), body.outputs.len())
        {
            return;
        }
        let stacked = |ty: &TensorType| {
            let shape = std::iter::once(recurrence.steps.clone()).chain(ty.shape.iter().cloned()).collect();
            TensorType { dtype: ty.dtype, shape }
        };
        let type_of = |port: &crate::graph::Port| body.values.get(port.value).map(|v| v.ty.clone());
        for (n, (port, ty)) in body.inputs.iter().zip(inputs).enumerate() {
            let Some(inner) = type_of(port) else { continue };
            let expected = if (recurrence.states..sliced).contains(&n) { stacked(&inner) } else { inner };
            self.report.dtype("an input of the body", expected.dtype, ty.dtype);
            self.same_shape("an input of the body", &expected.shape, &ty.shape);
        }
        for (n, (port, ty)) in body.outputs.iter().zip(outputs).enumerate() {
            let Some(inner) = type_of(port) else { continue };
            if n < recurrence.states {
                self.report.dtype("a state", inputs[n].dtype, inner.dtype);
                self.same_shape("a state", &inputs[n].shape, &inner.shape);
            }
            let expected = stacked(&inner);
            self.report.dtype("an output of the body", expected.dtype, ty.dtype);
            self.same_shape("an output of the body", &expected.shape, &ty.shape);
        }
        let place = format!("{} of ", self.report.place);
        check_graph(self.report, body, self.symbols, &place, self.depth + 1);
    }

    fn branches(&mut self, branches: &IfOp, inputs: &Types<'_>, outputs: &Types<'_>) {
        self.produced(&branches.produces, outputs);
        let Some((condition, inputs)) = inputs.split_first() else {
            return self.report.push(ViolationKind::Missing { what: "the condition" });
        };
        self.report.dtype("the condition", DType::Bool, condition.dtype);
        self.report.count("axes of the condition", 0, condition.shape.len());
        self.body(&branches.then, inputs, outputs);
        self.body(&branches.otherwise, inputs, outputs);
    }

    /// A graph that stands for the node: of its types, over the same symbols.
    fn body(&mut self, body: &Graph, inputs: &Types<'_>, outputs: &Types<'_>) {
        let pairs = [("inputs", &body.inputs, inputs), ("outputs", &body.outputs, outputs)];
        for (what, ports, types) in pairs {
            self.report.count(what, types.len(), ports.len());
            for (port, ty) in ports.iter().zip(types) {
                if let Some(value) = body.values.get(port.value) {
                    self.report.dtype("an operand of the body", ty.dtype, value.ty.dtype);
                    self.same_shape("an operand of the body", &ty.shape, &value.ty.shape);
                }
            }
        }
        let place = format!("{} of ", self.report.place);
        check_graph(self.report, body, self.symbols, &place, self.depth + 1);
    }
}

/// Coordinates of a shape: the variables of views and bodies.
struct Coordinates {
    ranges: Ranges,
    rank: usize,
    symbols: usize,
}

impl Coordinates {
    fn new(ranges: &Ranges, shape: &[Dim], symbols: usize) -> Self {
        let mut all = ranges.clone();
        for (n, dim) in shape.iter().enumerate() {
            all.set_axis(VarId::from_index(n), dim);
        }
        Self { ranges: all, rank: shape.len(), symbols }
    }

    fn index(&self, report: &mut Report, expr: &IndexExpr) {
        report.index(expr, &self.ranges, self.symbols, &|v| v.index() < self.rank);
    }

    fn bounds(&self, report: &mut Report, bounds: &[Bound]) {
        report.bounds(bounds, &self.ranges, self.symbols, &|v| v.index() < self.rank);
    }
}

/// The rules for the leaves of maps and reductions.
struct ElementLeaves {
    params: Vec<DType>,
    coordinates: Coordinates,
}

impl Leaves for ElementLeaves {
    fn params(&self) -> &[DType] {
        &self.params
    }

    fn index(&self, report: &mut Report, expr: &IndexExpr) {
        self.coordinates.index(report, expr);
    }

    fn bounds(&self, report: &mut Report, bounds: &[Bound]) {
        self.coordinates.bounds(report, bounds);
    }

    fn load(&self, report: &mut Report, _: &Load) {
        report.push(ViolationKind::NotAllowed { what: "a load in a graph" });
    }
}
