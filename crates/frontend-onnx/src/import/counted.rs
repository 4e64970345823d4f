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

/// What is counted is less than this, either way, and so is what is added in a step.
const FAR: i64 = 1 << 40;

/// Up to here floats of 32 bits count.
const EXACT_IN_F32: i64 = 1 << 24;

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
    let is_unknown = |n: &usize| states.get(*n).is_some_and(|first| known(first).is_none());
    let of_state = |variable| if let Some(Variable::State(n)) = variable { Some(n) } else { None };
    let wanted = variables.filter_map(of_state).filter(is_unknown).collect();
    let turns = turns(all, states, &found, ranges);
    Counting { states: found, turns, wanted }
}

/// The one element of a value, if it is a known integer.
fn known(value: &Tracked) -> Option<Dim> {
    match &value.dims()?[..] {
        [dim] => Some(dim.clone()),
        _ => None,
    }
}

/// The one element of a constant, if it is an integer that is not far away.
fn constant(proto: &TensorProto) -> Option<Number> {
    if proto.dims.iter().any(|&n| n != 1) {
        return None;
    }
    let value = known(&Tracked::of_constant("", tensor_proto::read(proto).ok()?))?;
    value.as_const().filter(|n| n.abs() < FAR).map(|n| Number::of(Dim::constant(n)))
}

impl Number {
    fn of(plus: Dim) -> Self {
        Self { variable: None, plus, was_float: false }
    }

    fn of_variable(variable: Variable) -> Self {
        Self { variable: Some(variable), ..Self::of(Dim::constant(0)) }
    }

    fn and(self, other: Self, sign: i64) -> Option<Self> {
        let variable = match (self.variable, other.variable) {
            (variable, None) => variable,
            (None, variable) if sign > 0 => variable,
            (left, right) if left == right && sign < 0 => None,
            _ => return None,
        };
        let was_float = self.was_float || other.was_float;
        Some(Self { variable, plus: self.plus + other.plus.scale(sign), was_float })
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
        self.numbers.extend(inputs.next().map(|name| (name, Number::of_variable(Variable::Step))));
        // Where a step takes place, the condition has held.
        self.truths.extend(inputs.next().map(|name| (name, Vec::new())));
        for (n, (name, state)) in inputs.zip(states).enumerate() {
            self.same.insert(name, n);
            let is_one = state.shape().iter().all(|extent| extent.is_const(1));
            if is_one && matches!(state.dtype(), DType::I32 | DType::I64) {
                self.numbers.insert(name, Number::of_variable(Variable::State(n)));
            }
        }
    }

    fn number(&mut self, name: &'m str) -> Option<Number> {
        if self.own.contains(name) {
            return self.numbers.get(name).cloned();
        }
        known(&(self.outer)(name)?).map(Number::of)
    }

    /// What a node says.
    fn learn(&mut self, node: &'m NodeProto) {
        let (Some(output), true) = (node.output.first(), matches!(node.domain(), "" | "ai.onnx")) else { return };
        let input = |n: usize| node.input.get(n).map(String::as_str);
        let attribute = |name: &str| node.attribute.iter().find(|a| a.name() == name);
        let first = input(0).unwrap_or_default();
        let (mut number, mut truth) = (None, None);
        match node.op_type() {
            "Identity" => {
                if let Some(&state) = self.same.get(first) {
                    self.same.insert(output, state);
                }
                (number, truth) = (self.number(first), self.truths.get(first).cloned());
            }
            // Of one element.
            "Squeeze" | "Unsqueeze" | "Reshape" => {
                (number, truth) = (self.number(first), self.truths.get(first).cloned());
            }
            "Cast" => match attribute("to").and_then(|to| tensor_proto::dtype_from_onnx(i32::try_from(to.i()).ok()?)) {
                Some(DType::I32 | DType::I64 | DType::F64) => number = self.number(first),
                Some(DType::F32) => number = self.number(first).map(|x| Number { was_float: true, ..x }),
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

    /// What a state is, by what becomes of it in a step.
    fn state(&self, n: usize, first: &Tracked, next: &str) -> State {
        if self.same.get(next) == Some(&n) {
            return State::Fixed(first.clone());
        }
        let next = self.numbers.get(next).filter(|next| next.variable == Some(Variable::State(n)) && !next.was_float);
        let by = next.and_then(|next| next.plus.as_const()).filter(|by| by.abs() < FAR);
        match (by, known(first)) {
            (Some(by), Some(from)) if matches!(first.dtype(), DType::I32 | DType::I64) => {
                State::Counter { ty: first.ty().clone(), from, by }
            }
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
        // What has to be less than nothing.
        let base = left_base + *plus - right_base;
        let by = left_by - right_by;
        if by <= 0 {
            let holds = ranges.interval(&base.simplify(ranges)).max.is_some_and(|max| max < 0);
            if holds {
                continue;
            }
            return None;
        }
        let until = base.scale(-1).ceil_div(&Dim::constant(by)) + 1;
        let most = if left.was_float || right.was_float { EXACT_IN_F32 } else { i64::MAX };
        fewest = Some(match fewest {
            None => (until, most),
            Some((fewest, at_most)) => (fewest.minimum(&until), at_most.min(most)),
        });
    }
    let (turns, most) = fewest?;
    Some((turns.maximum(&Dim::constant(1)).simplify(ranges), most))
}
