//! Loops and branches: blocks and the edges between them.
//!
//! Everything is made backwards, so what follows a loop exists before its body, and the body before what precedes it.
//! A loop tests at its bottom. An edge from a block of several successors to one of several predecessors has a block
//! of its own, where the register allocator puts moves; most need none and disappear when code is written.

use super::Selector;
use crate::CodegenError;
use crate::vir::{Block, Loop, Value};
use crate::wide::codes;
use crate::wide::inst::{BlockId, Flag, INT, Kind, MachInst, VECTOR};
use iced_x86::Code;
use regalloc2::VReg;

impl<'a> Selector<'a> {
    pub(super) fn counted_loop(&mut self, l: &'a Loop, inside: u32) -> Result<(), CodegenError> {
        let outer = self.here;
        let innermost = self.straight[inside as usize];
        // What nobody reads behind the loop is not handed out of it.
        let wanted: Vec<usize> = (0..l.results.len()).filter(|&n| self.needed[l.results[n].0 as usize]).collect();
        let mut results: Vec<VReg> = wanted.iter().map(|&n| self.vreg(l.results[n])).collect();
        if self.copies && innermost {
            for (result, &n) in results.iter_mut().zip(&wanted).filter(|(result, _)| result.class() == VECTOR) {
                let (width, from) = (Self::width_of(self.ty(l.results[n])), self.fresh(VECTOR));
                let code = codes::MOVE.code(self.encoding, width);
                self.push(MachInst::new(code).def(*result, width.view()).reg(from, width.view()));
                *result = from;
            }
            self.flush();
        }
        let exit = self.finish_block(results);
        let args = |s: &mut Self, values: &[Value]| -> Vec<VReg> { values.iter().map(|&v| s.reg(v)).collect() };
        let inits: Vec<Value> = l.carried.iter().map(|&(_, init)| init).collect();
        let wanted_of = |values: &[Value]| -> Vec<Value> { wanted.iter().map(|&n| values[n]).collect() };

        // What follows is made from the last block to the first. The way out of the loop, the way around the loop when
        // it does not run at all, and the way back each have a block of their own for the moves they may need.
        self.here.block = inside;
        let carried_out = wanted_of(&l.body.yields);
        let leave = self.edge(exit, |s| Ok(args(s, &carried_out)))?;
        let not_run = wanted_of(&inits);
        let skip = if l.nonempty { None } else { Some(self.edge(exit, |s| Ok(args(s, &not_run)))?) };

        // The header's number is not known before the body is made: the way back is patched below.
        let next_iv = self.fresh(INT);
        let yields = l.body.yields.clone();
        let back = self.edge(BlockId(u32::MAX), |s| {
            let mut values = vec![next_iv];
            values.extend(args(s, &yields));
            Ok(values)
        })?;
        self.blocks[back.0 as usize].innermost = innermost;

        self.terminate(Kind::Branch(Flag::Less, back, leave), vec![Vec::new(), Vec::new()]);
        let iv = self.vreg(l.iv);
        self.add_step(iv, next_iv, l.step);
        self.compare_to(next_iv, l.end);
        self.flush();
        let first_inside = self.blocks.len();
        self.block(&l.body, inside)?;
        let mut params = vec![iv];
        params.extend(l.carried.iter().map(|&(value, _)| self.vreg(value)).collect::<Vec<_>>());
        self.current.innermost_header = innermost;
        let header = self.finish_block(params);
        if let Some(Kind::Jump(to)) = self.blocks[back.0 as usize].insts.first_mut().map(|inst| &mut inst.kind) {
            *to = header;
        }
        if innermost {
            (first_inside..self.blocks.len()).for_each(|n| self.blocks[n].innermost = true);
        }

        // In front of the loop.
        self.here = outer;
        let enter = |s: &mut Self| {
            let mut values = vec![s.reg(l.start)];
            values.extend(args(s, &inits));
            Ok(values)
        };
        match skip {
            None => self.jump_to(header, enter)?,
            Some(skip) => {
                let into = self.edge(header, enter)?;
                self.terminate(Kind::Branch(Flag::Less, into, skip), vec![Vec::new(), Vec::new()]);
                let start = self.reg(l.start);
                self.compare_to(start, l.end);
                self.flush();
            }
        }
        self.retire(&|f| {
            f(l.start);
            f(l.end);
            l.carried.iter().for_each(|&(_, init)| f(init));
            l.body.yields.iter().for_each(|&value| f(value));
        })
    }

    pub(super) fn branch(
        &mut self,
        cond: Value,
        ways: [&'a Block; 2],
        results: &[Value],
        numbers: [u32; 2],
    ) -> Result<(), CodegenError> {
        let here = self.here;
        let params: Vec<VReg> = results.iter().map(|&value| self.vreg(value)).collect();
        let join = self.finish_block(params);
        let mut targets = [join; 2];
        // Made from the last to the first: the second way lies behind the first.
        for n in [1, 0] {
            let way = ways[n];
            self.here.block = numbers[n];
            self.jump_to(join, |s| Ok(way.yields.iter().map(|&value| s.reg(value)).collect()))?;
            self.block(way, numbers[n])?;
            targets[n] = self.finish_block(Vec::new());
        }
        self.here = here;
        let flag = self.condition(cond)?;
        let group = std::mem::take(&mut self.group);
        self.terminate(Kind::Branch(flag, targets[0], targets[1]), vec![Vec::new(), Vec::new()]);
        self.group = group;
        self.flush();
        self.retire(&|f| {
            f(cond);
            ways.iter().for_each(|way| way.yields.iter().for_each(|&value| f(value)));
        })
    }

    /// Starts the current block, which is made backwards, with its terminator.
    fn terminate(&mut self, kind: Kind, args: Vec<Vec<VReg>>) {
        self.current.args = args;
        self.current.insts.push(MachInst::of_kind(kind, Code::INVALID));
    }

    /// Ends the current block with a jump. Constants among the arguments are made in front of it.
    fn jump_to(
        &mut self,
        to: BlockId,
        args: impl FnOnce(&mut Self) -> Result<Vec<VReg>, CodegenError>,
    ) -> Result<(), CodegenError> {
        debug_assert!(self.group.is_empty(), "a group is flushed before the next begins");
        let args = args(self)?;
        let group = std::mem::take(&mut self.group);
        self.terminate(Kind::Jump(to), vec![args]);
        self.group = group;
        self.flush();
        Ok(())
    }

    /// A whole block that only jumps on.
    fn edge(
        &mut self,
        to: BlockId,
        args: impl FnOnce(&mut Self) -> Result<Vec<VReg>, CodegenError>,
    ) -> Result<BlockId, CodegenError> {
        self.jump_to(to, args)?;
        Ok(self.finish_block(Vec::new()))
    }
}
