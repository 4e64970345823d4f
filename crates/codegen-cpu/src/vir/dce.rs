//! Drops operations whose results nothing uses, carried values that only feed themselves, and empty constructs.

use super::{Block, Function, Inst, Op, Value};

/// Cleans up a function.
pub fn run(function: &mut Function) {
    let mut live = Liveness { uses: vec![false; function.types.len()] };
    // A value carried around a loop is live once anything else needs it, which a later round may find out.
    while live.block(&function.body) {}
    live.sweep(&mut function.body);
}

struct Liveness {
    uses: Vec<bool>,
}

impl Liveness {
    fn is_live(&self, value: Value) -> bool {
        self.uses[value.0 as usize]
    }

    fn mark(&mut self, value: Value) -> bool {
        !std::mem::replace(&mut self.uses[value.0 as usize], true)
    }

    /// Marks backwards through a block; true if something new came to light.
    fn block(&mut self, block: &Block) -> bool {
        let mut changed = false;
        for inst in block.insts.iter().rev() {
            changed |= self.inst(inst);
        }
        changed
    }

    fn inst(&mut self, inst: &Inst) -> bool {
        let mut changed = false;
        match inst {
            Inst::Op { result, op } => {
                if self.is_live(*result) {
                    op.for_each_operand(|value| changed |= self.mark(value));
                }
            }
            Inst::Store { .. } | Inst::Scatter { .. } | Inst::Prefetch { .. } | Inst::Tile(_) => {
                inst.for_each_use(|value| changed |= self.mark(value));
            }
            Inst::Loop(body) => {
                for (n, &(inside, init)) in body.carried.iter().enumerate() {
                    if self.is_live(inside) || self.is_live(body.results[n]) {
                        changed |= self.mark(body.body.yields[n]) | self.mark(init) | self.mark(inside);
                    }
                }
                changed |= self.block(&body.body);
                changed |= self.mark(body.start) | self.mark(body.end);
            }
            Inst::If { cond, then, otherwise, results } => {
                for (n, &result) in results.iter().enumerate() {
                    if self.is_live(result) {
                        changed |= self.mark(then.yields[n]) | self.mark(otherwise.yields[n]);
                    }
                }
                changed |= self.block(then) | self.block(otherwise);
                changed |= self.mark(*cond);
            }
        }
        changed
    }

    fn sweep(&self, block: &mut Block) {
        for inst in &mut block.insts {
            match inst {
                Inst::Loop(body) => {
                    let keep: Vec<bool> = body.carried.iter().map(|&(inside, _)| self.is_live(inside)).collect();
                    retain_at(&mut body.carried, &keep);
                    retain_at(&mut body.results, &keep);
                    retain_at(&mut body.body.yields, &keep);
                    self.sweep(&mut body.body);
                }
                Inst::If { then, otherwise, results, .. } => {
                    let keep: Vec<bool> = results.iter().map(|&result| self.is_live(result)).collect();
                    retain_at(results, &keep);
                    retain_at(&mut then.yields, &keep);
                    retain_at(&mut otherwise.yields, &keep);
                    self.sweep(then);
                    self.sweep(otherwise);
                }
                _ => {}
            }
        }
        block.insts.retain(|inst| match inst {
            Inst::Op { result, .. } => self.is_live(*result),
            Inst::Loop(body) => !(body.results.is_empty() && body.body.insts.is_empty()),
            Inst::If { then, otherwise, results, .. } => {
                !(results.is_empty() && then.insts.is_empty() && otherwise.insts.is_empty())
            }
            Inst::Store { .. } | Inst::Scatter { .. } | Inst::Prefetch { .. } | Inst::Tile(_) => true,
        });
    }
}

fn retain_at<T>(items: &mut Vec<T>, keep: &[bool]) {
    let mut flags = keep.iter();
    items.retain(|_| *flags.next().expect("as many flags as items"));
}

/// The operation that defines each value, where one does.
#[must_use]
pub fn definitions(function: &Function) -> Vec<Option<Op>> {
    let mut ops = vec![None; function.types.len()];
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Op { result, op } = inst {
            ops[result.0 as usize] = Some(op.clone());
        }
    });
    ops
}
