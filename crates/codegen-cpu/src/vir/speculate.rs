//! Loops that keep NaN in minima and maxima are run as if there were none, and once more if there was one.
//!
//! The machine's minimum gives its second operand if either is NaN, so keeping NaN takes a comparison and a selection
//! beside it. In a loop that writes no memory nobody sees a result before the last turn; so it may run with plain
//! minima while it watches whether an operand is NaN, two operands to a comparison:
//!
//! ```text
//! loop { x = …                                   loop { x = …; y = …
//!        p = min acc, x                     →           acc′ = min acc, x; bcc′ = min bcc, y
//!        acc′ = acc ≠ acc ? acc : p }                   numbers′ = numbers ∧ ordered x, y }
//!                                                if numbers { } else { the loop as it was }
//! ```
//!
//! Results of minima whose operands are numbers are numbers, so accumulators are not watched, only what they start from.
//! The result is that of the loop as it was, bit for bit; data with NaN takes twice the time.

use super::copy::Copier;
use super::{BinaryOp, Block, Cond, Elem, Function, I64, Inst, Loop, Op, Type, Value, dce, emit, eval, fresh};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Constant trip counts up to this are not worth a test behind the loop.
const FEW_TURNS: i64 = 2;

/// Rewrites all loops for which it holds. Observations are gathered in up to `chains` masks in turns, so that none has
/// to wait for the last one.
pub fn run(function: &mut Function, chains: usize) {
    let ops = dce::definitions(function);
    let mut pass = Pass { ops, types: std::mem::take(&mut function.types), chains };
    pass.block(&mut function.body);
    function.types = pass.types;
    dce::run(function);
}

struct Pass {
    /// Of the values there were before the pass.
    ops: Vec<Option<Op>>,
    types: Vec<Type>,
    chains: usize,
}

/// A minimum or maximum that keeps NaN: `a ≠ a ? a : picked` with `picked = min a, b`.
#[derive(Clone, Copy)]
struct Keeping {
    operands: [Value; 2],
    picked: Value,
}

/// What goes around loops, by the value inside.
struct Carried {
    init: Value,
    yielded: Value,
    /// Of the loop that is rewritten: what it starts from is looked at in front of it.
    outermost: bool,
}

/// A loop that is worth it.
struct Plan {
    keeping: BTreeMap<Value, Keeping>,
    carried: HashMap<Value, Carried>,
    /// Results of loops inside, as the values that are carried.
    results: HashMap<Value, Value>,
}

/// The rewritten loop while it is made.
struct Watch {
    plan: Plan,
    /// Per number of lanes: masks of lanes in which all was a number so far, and which of them is next.
    chains: BTreeMap<u16, (Vec<Value>, usize)>,
    /// An operand of a type that waits for another one.
    waiting: BTreeMap<(Elem, u16), Value>,
    watched: HashSet<Value>,
}

impl Pass {
    fn block(&mut self, block: &mut Block) {
        let mut insts = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match inst {
                Inst::Loop(mut l) => match self.plan(&l) {
                    Some(plan) => self.speculate(*l, plan, &mut insts),
                    None => {
                        self.block(&mut l.body);
                        insts.push(Inst::Loop(l));
                    }
                },
                Inst::If { ref mut then, ref mut otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                    insts.push(inst);
                }
                _ => insts.push(inst),
            }
        }
        block.insts = insts;
    }

    // ---------------------------------------------------------------------------------------- what it is about --

    fn op(&self, value: Value) -> Option<&Op> {
        self.ops.get(value.0 as usize)?.as_ref()
    }

    fn plan(&self, l: &Loop) -> Option<Plan> {
        let turns = match (self.int_constant(l.start), self.int_constant(l.end)) {
            (Some(start), Some(end)) => Some(end.saturating_sub(start) / l.step),
            _ => None,
        };
        if turns.is_some_and(|n| n <= FEW_TURNS) {
            return None;
        }
        let mut writes = false;
        l.body.for_each_inst(&mut |inst| {
            // Tile registers keep what was summed, and must not sum it again.
            writes |= inst.writes_memory() || matches!(inst, Inst::Tile(_));
        });
        if writes {
            return None;
        }
        let mut plan = Plan { keeping: BTreeMap::new(), carried: HashMap::new(), results: HashMap::new() };
        self.survey(l, true, &mut plan);
        (!plan.keeping.is_empty()).then_some(plan)
    }

    fn int_constant(&self, value: Value) -> Option<i64> {
        match self.op(value) {
            Some(Op::Const(bits)) => Some(bits.cast_signed()),
            _ => None,
        }
    }

    /// Branches are left as they are: what they would observe is not there for the other way.
    fn survey(&self, l: &Loop, outermost: bool, plan: &mut Plan) {
        for (n, &(value, init)) in l.carried.iter().enumerate() {
            plan.carried.insert(value, Carried { init, yielded: l.body.yields[n], outermost });
            plan.results.insert(l.results[n], value);
        }
        for inst in &l.body.insts {
            match inst {
                Inst::Op { result, op } => {
                    if let Some(keeping) = self.keeping(op) {
                        plan.keeping.insert(*result, keeping);
                    }
                }
                Inst::Loop(inner) => self.survey(inner, false, plan),
                _ => {}
            }
        }
    }

    fn keeping(&self, op: &Op) -> Option<Keeping> {
        let &Op::Select(mask, kept, picked) = op else { return None };
        let &Op::Compare(Cond::Ne, x, y) = self.op(mask)? else { return None };
        let &Op::Binary(BinaryOp::Min | BinaryOp::Max, a, b) = self.op(picked)? else { return None };
        let ty = self.types[picked.0 as usize];
        let fits = ty.elem.is_float() && ty.lanes > 1 && x == y && x == kept && a == kept;
        fits.then_some(Keeping { operands: [a, b], picked })
    }

    // ---------------------------------------------------------------------------------------------- the rewrite --

    fn speculate(&mut self, l: Loop, plan: Plan, out: &mut Vec<Inst>) {
        let exact = Copier::new(&mut self.types).counted_loop(&l);
        let mut lanes: BTreeMap<u16, usize> = BTreeMap::new();
        for keeping in plan.keeping.values() {
            *lanes.entry(self.types[keeping.picked.0 as usize].lanes).or_default() += 1;
        }
        let mut chains = BTreeMap::new();
        for (lanes, observed) in lanes {
            let mask = Type::vector(Elem::Mask, lanes);
            let all = self.make(mask, Op::Const(all_lanes(lanes)), out);
            chains.insert(lanes, (vec![all; (observed / 2).clamp(1, self.chains)], 0));
        }
        let mut watch = Watch { plan, chains, waiting: BTreeMap::new(), watched: HashSet::new() };
        // What accumulators start from.
        let relied_on = self.relied_on(&watch.plan);
        for &(value, init) in &l.carried {
            if relied_on.contains(&value) && !self.is_number_constant(init) {
                self.observe(&mut watch, init, out);
            }
        }
        self.observe_rest(&mut watch, out);
        let results = l.results.clone();
        let mut fast = self.watched_loop(l, &mut watch, out);
        for result in &mut fast.results[..results.len()] {
            *result = self.fresh(self.types[result.0 as usize]);
        }
        let yields = fast.results[..results.len()].to_vec();
        out.push(Inst::Loop(Box::new(fast)));

        let cond = self.all_numbers(&watch, out);
        let otherwise = Block { yields: exact.results.clone(), insts: vec![Inst::Loop(Box::new(exact))] };
        out.push(Inst::If { cond, then: Block { insts: Vec::new(), yields }, otherwise, results });
    }

    /// The loop with plain minima, and with the observations carried around it.
    fn watched_loop(&mut self, mut l: Loop, watch: &mut Watch, out: &mut Vec<Inst>) -> Loop {
        // What waits was made outside, where it needs to be looked at once.
        self.observe_rest(watch, out);
        for (chains, _) in watch.chains.values_mut() {
            for chain in chains {
                let inside = self.fresh(self.types[chain.0 as usize]);
                l.carried.push((inside, *chain));
                *chain = inside;
            }
        }
        let mut insts = Vec::with_capacity(l.body.insts.len());
        let mut plain: HashMap<Value, Value> = HashMap::new();
        let renamed = |plain: &HashMap<Value, Value>, value: Value| plain.get(&value).copied().unwrap_or(value);
        for mut inst in std::mem::take(&mut l.body.insts) {
            inst.map_all_uses(&mut |value| renamed(&plain, value));
            match inst {
                Inst::Op { result, op } => match watch.plan.keeping.get(&result).copied() {
                    Some(keeping) => {
                        plain.insert(result, renamed(&plain, keeping.picked));
                        for operand in keeping.operands {
                            if !self.is_number(&watch.plan, operand, &mut HashSet::new()) {
                                self.observe(watch, operand, &mut insts);
                            }
                        }
                    }
                    None => insts.push(Inst::Op { result, op }),
                },
                Inst::Loop(inner) if self.keeps(&watch.plan, &inner.body) => {
                    let inner = self.watched_loop(*inner, watch, &mut insts);
                    insts.push(Inst::Loop(Box::new(inner)));
                }
                other => insts.push(other),
            }
        }
        self.observe_rest(watch, &mut insts);
        l.body.insts = insts;
        l.body.yields.iter_mut().for_each(|value| *value = renamed(&plain, *value));
        for (chains, _) in watch.chains.values_mut() {
            for chain in chains {
                l.body.yields.push(*chain);
                *chain = self.fresh(self.types[chain.0 as usize]);
                l.results.push(*chain);
            }
        }
        l
    }

    fn keeps(&self, plan: &Plan, block: &Block) -> bool {
        let mut found = false;
        block.for_each_inst(&mut |inst| inst.for_each_result(|result| found |= plan.keeping.contains_key(&result)));
        found
    }

    /// Looks at a value, together with the next one of its type.
    fn observe(&mut self, watch: &mut Watch, value: Value, insts: &mut Vec<Inst>) {
        if !watch.watched.insert(value) {
            return;
        }
        let ty = self.types[value.0 as usize];
        match watch.waiting.remove(&(ty.elem, ty.lanes)) {
            None => _ = watch.waiting.insert((ty.elem, ty.lanes), value),
            Some(first) => self.observe_pair(watch, first, value, insts),
        }
    }

    fn observe_rest(&mut self, watch: &mut Watch, insts: &mut Vec<Inst>) {
        for value in std::mem::take(&mut watch.waiting).into_values() {
            self.observe_pair(watch, value, value, insts);
        }
    }

    fn observe_pair(&mut self, watch: &mut Watch, a: Value, b: Value, insts: &mut Vec<Inst>) {
        let mask = self.types[a.0 as usize].mask();
        let (chains, next) = watch.chains.get_mut(&mask.lanes).expect("chains of all lane counts there are");
        let numbers = self.make(mask, Op::Compare(Cond::Ordered, a, b), insts);
        chains[*next] = self.make(mask, Op::Binary(BinaryOp::And, chains[*next], numbers), insts);
        *next = (*next + 1) % chains.len();
    }

    /// Whether no observation found NaN, as a one-lane mask.
    fn all_numbers(&mut self, watch: &Watch, out: &mut Vec<Inst>) -> Value {
        let mut cond: Option<Value> = None;
        for (&lanes, (chains, _)) in &watch.chains {
            let mask = Type::vector(Elem::Mask, lanes);
            let mut all = chains[0];
            for &chain in &chains[1..] {
                all = self.make(mask, Op::Binary(BinaryOp::And, all, chain), out);
            }
            let bits = self.make(I64, Op::MaskBits(all), out);
            let wanted = self.make(I64, Op::Const(all_lanes(lanes)), out);
            let scalar = Type::scalar(Elem::Mask);
            let own = self.make(scalar, Op::Compare(Cond::Eq, bits, wanted), out);
            cond = Some(match cond {
                None => own,
                Some(other) => self.make(scalar, Op::Binary(BinaryOp::And, other, own), out),
            });
        }
        cond.expect("there is something to observe")
    }

    // -------------------------------------------------------------------------------------------------- numbers --

    /// Whether a value cannot be NaN while no observation finds one.
    fn is_number(&self, plan: &Plan, value: Value, assumed: &mut HashSet<Value>) -> bool {
        if plan.keeping.contains_key(&value) || self.is_number_constant(value) || assumed.contains(&value) {
            return true;
        }
        if let Some(&inside) = plan.results.get(&value) {
            return self.is_number(plan, inside, assumed);
        }
        let Some(carried) = plan.carried.get(&value) else { return false };
        assumed.insert(value);
        (carried.outermost || self.is_number(plan, carried.init, assumed))
            && self.is_number(plan, carried.yielded, assumed)
    }

    /// What goes around loops and is taken for a number because of what it starts from: of the types of minima.
    fn relied_on(&self, plan: &Plan) -> HashSet<Value> {
        let mut relied_on = HashSet::new();
        for operand in plan.keeping.values().flat_map(|keeping| keeping.operands) {
            let mut assumed = HashSet::new();
            if self.is_number(plan, operand, &mut assumed) {
                relied_on.extend(assumed);
            }
        }
        relied_on
    }

    fn is_number_constant(&self, value: Value) -> bool {
        match self.op(value) {
            Some(&Op::Const(bits)) => !eval::to_f64(self.types[value.0 as usize].elem, bits).is_nan(),
            _ => false,
        }
    }

    fn make(&mut self, ty: Type, op: Op, insts: &mut Vec<Inst>) -> Value {
        emit(&mut self.types, insts, ty, op)
    }

    fn fresh(&mut self, ty: Type) -> Value {
        fresh(&mut self.types, ty)
    }
}

/// The bits of a mask with all lanes set.
const fn all_lanes(lanes: u16) -> u64 {
    u64::MAX >> (64 - lanes)
}
