//! Loops and branches.

use super::{Builder, Frame, Header, Open};
use crate::vir::{Block, Elem, I64, Inst, Loop, Type, Value};

impl Builder {
    /// Opens `for iv in (start..end).step_by(step)`; gives the induction variable and the carried values, which begin
    /// as `inits`. A loop with constant bounds of one turn leaves no loop behind, one of no turn nothing at all.
    pub fn loop_open(
        &mut self,
        start: Value,
        end: Value,
        step: i64,
        nonempty: bool,
        inits: &[Value],
    ) -> (Value, Vec<Value>) {
        assert!(step > 0, "loops count upwards");
        assert!(self.ty(start) == I64 && self.ty(end) == I64, "loop bounds are i64");
        let turns = match (self.as_const(start), self.as_const(end)) {
            (Some(start), Some(end)) => Some(i128::from(end) - i128::from(start)).map(|n| n.max(0)),
            _ => None,
        };
        if matches!(turns, Some(n) if n > 0 && n <= i128::from(step)) {
            self.open.push(Open::OneTurn);
            return (start, inits.to_vec());
        }
        let nonempty = nonempty || turns.is_some_and(|n| n > 0);
        self.frames.push(Frame::new(nonempty));
        let iv = self.value(I64, None, self.frames.len() - 1);
        let carried: Vec<(Value, Value)> =
            inits.iter().map(|&init| (self.value(self.ty(init), None, self.frames.len() - 1), init)).collect();
        let inside = carried.iter().map(|&(value, _)| value).collect();
        let header = Header { iv, start, end, step, nonempty, carried };
        self.open.push(Open::Loop { header, dead: turns == Some(0) });
        (iv, inside)
    }

    /// Closes the innermost loop with the next turn's carried values; gives them as they are behind the loop.
    pub fn loop_close(&mut self, yields: &[Value]) -> Vec<Value> {
        let (header, dead) = match self.open.pop() {
            Some(Open::OneTurn) => return yields.to_vec(),
            Some(Open::Loop { header, dead }) => (header, dead),
            _ => panic!("no loop is open here"),
        };
        assert_eq!(yields.len(), header.carried.len(), "one yield per carried value");
        let body = self.close_frame(yields);
        let inits: Vec<Value> = header.carried.iter().map(|&(_, init)| init).collect();
        if dead {
            return inits;
        }
        let mut results = Vec::with_capacity(yields.len());
        for (&yielded, &init) in yields.iter().zip(&inits) {
            assert_eq!(self.ty(yielded), self.ty(init), "a carried value keeps its type");
            results.push(self.value(self.ty(init), None, self.frames.len() - 1));
        }
        let Header { iv, start, end, step, nonempty, carried } = header;
        let out = results.clone();
        self.emit(Inst::Loop(Box::new(Loop { iv, start, end, step, nonempty, carried, body, results })));
        out
    }

    /// Opens a branch taken when the one-lane mask holds.
    pub fn if_open(&mut self, cond: Value) {
        assert_eq!(self.ty(cond), Type::scalar(Elem::Mask), "a condition is a one-lane mask");
        self.open_branch();
        self.open.push(Open::Then { cond });
    }

    /// As [`Builder::if_open`], where the condition hardly ever holds: what is computed for that case alone stays in the branch.
    pub fn if_open_rarely(&mut self, cond: Value) {
        self.if_open(cond);
        self.frames.last_mut().expect("the branch's own").rare = true;
    }

    /// Ends the first way and opens the other.
    pub fn if_else(&mut self, yields: &[Value]) {
        let Some(Open::Then { cond }) = self.open.pop() else { panic!("no branch is open here") };
        let then = self.close_frame(yields);
        self.open_branch();
        self.open.push(Open::Else { cond, then });
    }

    /// Closes the branch. Without [`Builder::if_else`] the other way is empty and there are no yields.
    pub fn if_close(&mut self, yields: &[Value]) -> Vec<Value> {
        if matches!(self.open.last(), Some(Open::Then { .. })) {
            assert!(yields.is_empty(), "a one-armed branch yields nothing");
            self.if_else(&[]);
        }
        let Some(Open::Else { cond, then }) = self.open.pop() else { panic!("no branch is open here") };
        let otherwise = self.close_frame(yields);
        assert_eq!(then.yields.len(), otherwise.yields.len(), "both ways yield as many values");
        if let Some(bits) = self.const_bits(cond) {
            return self.splice(if bits & 1 == 1 { then } else { otherwise });
        }
        let mut results = Vec::with_capacity(then.yields.len());
        for (&a, &b) in then.yields.iter().zip(&otherwise.yields) {
            assert_eq!(self.ty(a), self.ty(b), "both ways yield the same type");
            results.push(self.value(self.ty(a), None, self.frames.len() - 1));
        }
        let out = results.clone();
        if !(then.insts.is_empty() && otherwise.insts.is_empty() && results.is_empty()) {
            self.emit(Inst::If { cond, then, otherwise, results });
        }
        out
    }

    fn open_branch(&mut self) {
        self.frames.push(Frame::new(false));
    }

    fn close_frame(&mut self, yields: &[Value]) -> Block {
        let frame = self.frames.pop().expect("every open construct has a frame");
        Block { insts: frame.insts, yields: yields.to_vec() }
    }

    /// Puts the one way of a branch that is certain into the current block.
    fn splice(&mut self, block: Block) -> Vec<Value> {
        let depth = u32::try_from(self.frames.len() - 1).expect("nesting is shallow");
        for inst in &block.insts {
            inst.for_each_result(|value| self.depth[value.0 as usize] = depth);
        }
        let frame = self.frames.last_mut().expect("the outermost block is always there");
        frame.scratch.clear();
        frame.insts.extend(block.insts);
        block.yields
    }
}
