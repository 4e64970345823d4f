//! Loops that count: what their states and conditions are follows from the number of the step.
//!
//! `while i < n` becomes a `Loop` that carries `i`, and with it everything that no step changes: `n`, weights (so
//! TensorFlow's recurrent layers are exported that it does not recognise). Its condition looks like one on data. But `i` is known in every
//! step, what nobody changes is the value that it was at first, and how often such a condition holds is a dim.

use crate::proto::{GraphProto, NodeProto, TensorProto};
use crate::tensor_proto;
use crate::tracked::Tracked;
use infc_ir::graph::TensorType;
use infc_ir::index::{Dim, Ranges};
use infc_tensor::DType;
use std::collections::{HashMap, HashSet};

/// A condition that is made of more comparisons is not looked at.
const MOST_COMPARISONS: usize = 8;

/// Numbers that are known are less than this, either way.
const FAR: u64 = 1 << 40;

/// So many steps, from a number that is no further from nothing than [`NEAR`], are counted right in floats of 32 bits.
const EXACT_IN_F32: i64 = 1 << 23;

/// See [`EXACT_IN_F32`].
const NEAR: u64 = 1 << 20;

/// What a state of a `Loop` is in each step.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// What the step before made of it.
    Carried,
    /// What it was at first.
    Fixed(Tracked),
    /// `from + by · number of the step`, in all its elements.
    Counter { ty: TensorType, from: Dim, by: i64 },
}

/// What is known of a `Loop` without its steps.
#[derive(Debug)]
pub(super) struct Counting {
    /// What each state is.
    pub(super) states: Vec<State>,
    /// The steps that there are if the first one takes place, if the condition says no more than that; with the most of
    /// them that it counts right.
    pub(super) turns: Option<(Dim, i64)>,
    /// States whose first values would have to be known for that.
    pub(super) wanted: Vec<usize>,
}

/// What changes from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Step,
    State(usize),
}

/// An integer of a step: a dim, and maybe one variable.
#[derive(Clone, Debug)]
struct Number {
    variable: Option<Variable>,
    plus: Dim,
    dtype: DType,
    /// How many axes the value has, all of one element; `None` if that is not known.
    rank: Option<usize>,
    /// Whether it was a float of 32 bits on the way.
    was_float: bool,
}

/// `left + plus < right`.
#[derive(Clone, Debug)]
struct Less {
    left: Number,
    plus: i64,
    right: Number,
}

/// What the names of one step stand for.
struct Facts<'m, 'o> {
    /// Everything that the graph defines.
    own: HashSet<&'m str>,
    /// States that are passed on.
    same: HashMap<&'m str, usize>,
    numbers: HashMap<&'m str, Number>,
    /// Truths, by all that has to hold.
    truths: HashMap<&'m str, Vec<Less>>,
    /// Values of the graphs around this one.
    outer: &'o mut dyn FnMut(&'m str) -> Option<Tracked>,
}

/// Looks at the body of a `Loop` with these first states; `outer` gives the values of names that are not its own.
pub(super) fn counting<'m>(
    graph: &'m GraphProto,
    states: &[Tracked],
    ranges: &Ranges,
    outer: &mut dyn FnMut(&'m str) -> Option<Tracked>,
) -> Counting {
    let mut facts =
        Facts { own: HashSet::new(), same: HashMap::new(), numbers: HashMap::new(), truths: HashMap::new(), outer };
    facts.begin(graph, states);
    graph.node.iter().for_each(|node| facts.learn(node));
    let results = graph.output.iter().skip(1).map(|output| output.name());
    let found: Vec<State> = states.iter().zip(results).enumerate().map(|(n, (t, r))| facts.state(n, t, r)).collect();
    let all = graph.output.first().and_then(|condition| facts.truths.get(condition.name()));
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let variables = all.iter().flat_map(|less| [less.left.variable, less.right.variable]);
    let of_state = |variable| if let Some(Variable::State(n)) = variable { Some(n) } else { None };
    let compared: Vec<usize> = variables.filter_map(of_state).collect();
    let is_unknown = |n: &usize| states.get(*n).is_some_and(|first| known(first).is_none());
    let result = |n: usize| graph.output.get(n + 1).map(|output| output.name()).unwrap_or_default();
    let can_count = |&n: &usize| states.get(n).is_some_and(|first| facts.next(n, first, result(n)).is_some());
    let wanted =
        if compared.iter().all(can_count) { compared.into_iter().filter(is_unknown).collect() } else { Vec::new() };
    let turns = turns(all, states, &found, ranges);
    Counting { states: found, turns, wanted }
}

/// The one element of a value, if it is a known integer that is not far away.
fn known(value: &Tracked) -> Option<Dim> {
    if !matches!(value.dtype(), DType::I32 | DType::I64) {
        return None;
    }
    match &value.dims()?[..] {
        [dim] => Some(dim.clone()).filter(|dim| dim.as_const().is_none_or(|n| n.unsigned_abs() < FAR)),
        _ => None,
    }
}

/// A constant of one element that is such a number.
fn constant(proto: &TensorProto) -> Option<Number> {
    if proto.dims.iter().any(|&n| n != 1) {
        return None;
    }
    Number::of_value(&Tracked::of_constant("", tensor_proto::read(proto).ok()?))
}

impl Number {
    fn of_value(value: &Tracked) -> Option<Self> {
        let (plus, dtype, rank) = (known(value)?, value.dtype(), Some(value.rank()));
        Some(Self { variable: None, plus, dtype, rank, was_float: false })
    }

    fn of_variable(variable: Variable, dtype: DType, rank: usize) -> Self {
        Self { variable: Some(variable), plus: Dim::constant(0), dtype, rank: Some(rank), was_float: false }
    }

    fn and(self, other: Self, sign: i64) -> Option<Self> {
        let variable = match (self.variable, other.variable) {
            (variable, None) => variable,
            (None, variable) if sign > 0 => variable,
            (left, right) if left == right && sign < 0 => None,
            _ => return None,
        };
        let was_float = self.was_float || other.was_float;
        let rank = self.rank.zip(other.rank).map(|(a, b)| a.max(b));
        Some(Self { variable, plus: self.plus + other.plus.scale(sign), dtype: self.dtype, rank, was_float })
    }
}

impl<'m> Facts<'m, '_> {
    /// What is known before the first node.
    fn begin(&mut self, graph: &'m GraphProto, states: &[Tracked]) {
        let initializers = graph.initializer.iter().map(TensorProto::name);
        let results = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
        self.own = graph.input.iter().map(|input| input.name()).chain(initializers).chain(results).collect();
        self.numbers.extend(graph.initializer.iter().filter_map(|proto| Some((proto.name(), constant(proto)?))));
        let mut inputs = graph.input.iter().map(|input| input.name());
        self.numbers.extend(inputs.next().map(|name| (name, Number::of_variable(Variable::Step, DType::I64, 0))));
        // Where a step takes place, the condition has held.
        self.truths.extend(inputs.next().map(|name| (name, Vec::new())));
        for (n, (name, state)) in inputs.zip(states).enumerate() {
            self.same.insert(name, n);
            let is_one = state.shape().iter().all(|extent| extent.is_const(1));
            if is_one && matches!(state.dtype(), DType::I32 | DType::I64) {
                self.numbers.insert(name, Number::of_variable(Variable::State(n), state.dtype(), state.rank()));
            }
        }
    }

    fn number(&mut self, name: &'m str) -> Option<Number> {
        if self.own.contains(name) {
            return self.numbers.get(name).cloned();
        }
        Number::of_value(&(self.outer)(name)?)
    }

    /// What a node says.
    fn learn(&mut self, node: &'m NodeProto) {
        let Some(output) = node.output.first() else { return };
        let input = |n: usize| node.input.get(n).map(String::as_str);
        let attribute = |name: &str| node.attribute.iter().find(|a| a.name() == name);
        let first = input(0).unwrap_or_default();
        let (mut same, mut number, mut truth) = (None, None, None);
        match node.op_type() {
            _ if !matches!(node.domain(), "" | "ai.onnx") => {}
            "Identity" => {
                same = self.same.get(first).copied();
                (number, truth) = (self.number(first), self.truths.get(first).cloned());
            }
            // Of one element.
            "Squeeze" | "Unsqueeze" | "Reshape" => {
                number = self.number(first).map(|x| Number { rank: None, ..x });
                truth = self.truths.get(first).cloned();
            }
            "Cast" => match attribute("to").and_then(|to| tensor_proto::dtype_from_onnx(i32::try_from(to.i()).ok()?)) {
                // What does not fit would become another number.
                Some(dtype @ DType::I32) => {
                    number = self.number(first).filter(|x| x.dtype != DType::I64).map(|x| Number { dtype, ..x });
                }
                Some(dtype @ (DType::I64 | DType::F64)) => number = self.number(first).map(|x| Number { dtype, ..x }),
                Some(dtype @ DType::F32) => {
                    number = self.number(first).map(|x| Number { dtype, was_float: true, ..x });
                }
                Some(DType::Bool) => truth = self.truths.get(first).cloned(),
                _ => {}
            },
            "Constant" => number = attribute("value").and_then(|value| constant(value.t.as_ref()?)),
            "Add" | "Sub" => {
                let sign = if node.op_type() == "Add" { 1 } else { -1 };
                number = self.two(input(0), input(1)).and_then(|[a, b]| a.and(b, sign));
            }
            "Less" => truth = self.less(input(0), input(1), 0),
            "LessOrEqual" => truth = self.less(input(0), input(1), -1),
            "Greater" => truth = self.less(input(1), input(0), 0),
            "GreaterOrEqual" => truth = self.less(input(1), input(0), -1),
            "And" => {
                let both = [input(0), input(1)].map(|name| name.and_then(|name| self.truths.get(name)));
                if let [Some(a), Some(b)] = both {
                    truth = Some([&a[..], &b[..]].concat()).filter(|all| all.len() <= MOST_COMPARISONS);
                }
            }
            "Not" => {
                // Of integers: `right ≤ left + plus`.
                if let Some([Less { left, plus, right }]) = self.truths.get(first).map(Vec::as_slice) {
                    truth = Some(vec![Less { left: right.clone(), plus: -1 - plus, right: left.clone() }]);
                }
            }
            _ => {}
        }
        // What had the name before has lost it.
        for output in &node.output {
            self.same.remove(output.as_str());
            self.numbers.remove(output.as_str());
            self.truths.remove(output.as_str());
        }
        self.same.extend(same.map(|same| (output.as_str(), same)));
        self.numbers.extend(number.map(|number| (output.as_str(), number)));
        self.truths.extend(truth.map(|truth| (output.as_str(), truth)));
    }

    fn two(&mut self, left: Option<&'m str>, right: Option<&'m str>) -> Option<[Number; 2]> {
        Some([self.number(left?)?, self.number(right?)?])
    }

    fn less(&mut self, left: Option<&'m str>, right: Option<&'m str>, plus: i64) -> Option<Vec<Less>> {
        let [left, right] = self.two(left, right)?;
        Some(vec![Less { left, plus, right }])
    }

    /// By how much a state grows in a step, if it is an integer of the same type afterwards, or stays as it is.
    fn next(&self, n: usize, first: &Tracked, next: &str) -> Option<i64> {
        if self.same.get(next) == Some(&n) {
            return Some(0);
        }
        let next =
            self.numbers.get(next).filter(|next| next.variable == Some(Variable::State(n)) && !next.was_float)?;
        let is_alike = next.dtype == first.dtype() && next.rank == Some(first.rank());
        next.plus.as_const().filter(|by| is_alike && by.unsigned_abs() < FAR)
    }

    /// What a state is, by what becomes of it in a step.
    fn state(&self, n: usize, first: &Tracked, next: &str) -> State {
        if self.same.get(next) == Some(&n) {
            return State::Fixed(first.clone());
        }
        match (self.next(n, first, next), known(first)) {
            (Some(by), Some(from)) => State::Counter { ty: first.ty().clone(), from, by },
            _ => State::Carried,
        }
    }
}

/// A number as `base + by · number of the step`.
fn line(number: &Number, firsts: &[Tracked], states: &[State]) -> Option<(Dim, i64)> {
    let plus = number.plus.clone();
    match number.variable {
        None => Some((plus, 0)),
        Some(Variable::Step) => Some((plus, 1)),
        Some(Variable::State(n)) => match states.get(n)? {
            State::Carried => None,
            State::Fixed(_) => Some((plus + known(firsts.get(n)?)?, 0)),
            State::Counter { from, by, .. } => Some((plus + from.clone(), *by)),
        },
    }
}

/// The steps that there are, if there is one, when another one follows as long as all comparisons hold at its end; `None` if
/// that is not known, or if they never end.
fn turns(all: &[Less], firsts: &[Tracked], states: &[State], ranges: &Ranges) -> Option<(Dim, i64)> {
    let mut fewest: Option<(Dim, i64)> = None;
    for Less { left, plus, right } in all {
        let ((left_base, left_by), (right_base, right_by)) =
            (line(left, firsts, states)?, line(right, firsts, states)?);
        let was_float = left.was_float || right.was_float;
        let is_near = |base: &Dim| base.as_const().is_some_and(|n| n.unsigned_abs() <= NEAR);
        let is_exact = is_near(&left_base) || is_near(&right_base);
        // What has to be less than nothing.
        let base = left_base + *plus - right_base;
        let by = left_by - right_by;
        if was_float && !(is_exact && by == 1) {
            return None;
        }
        if by <= 0 {
            let holds = ranges.interval(&base.simplify(ranges)).max.is_some_and(|max| max < 0);
            if holds {
                continue;
            }
            return None;
        }
        let until = base.scale(-1).ceil_div(&Dim::constant(by)) + 1;
        let most = if was_float { EXACT_IN_F32 } else { i64::MAX };
        fewest = Some(match fewest {
            None => (until, most),
            Some((fewest, at_most)) => (fewest.minimum(&until), at_most.min(most)),
        });
    }
    let (turns, most) = fewest?;
    Some((turns.maximum(&Dim::constant(1)).simplify(ranges), most))
}
