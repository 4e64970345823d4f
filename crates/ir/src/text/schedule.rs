//! Schedules as text: steps with `;` in between.

use super::error::{ParseError, ParseErrorKind};
use super::lexer::Kind;
use super::parser::{Parsed, Parser};
use crate::schedule::{GpuDim, Intrinsic, Schedule, Scope, Step};
use std::str::FromStr;

impl FromStr for Schedule {
    type Err = ParseError;

    /// Parses steps as they print. Whether the kernel has such stages and loops is not checked here.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut p = Parser::new(text)?;
        let mut steps = Vec::new();
        while *p.peek() != Kind::End {
            steps.push(p.step()?);
            if !p.eat(";") {
                break;
            }
        }
        p.end()?;
        Ok(Self { steps })
    }
}

impl Parser<'_> {
    /// `s.axis by 16 -> outer, inner`.
    fn cut(&mut self) -> Parsed<(String, String, u32, String, String)> {
        let (stage, axis) = self.stage_and_axis()?;
        self.expect_word("by")?;
        let points = self.count(1 << 30)? as u32;
        self.expect("->")?;
        let outer = self.name("a loop")?;
        self.expect(",")?;
        Ok((stage, axis, points, outer, self.name("a loop")?))
    }

    /// `s load 1`.
    fn load(&mut self) -> Parsed<(String, u32)> {
        let stage = self.name("a stage")?;
        self.expect_word("load")?;
        Ok((stage, self.count(1 << 30)? as u32))
    }

    fn step(&mut self) -> Parsed<Step> {
        let mark = self.mark();
        let verb = self.name("a step")?;
        Ok(match &*verb {
            "join" => {
                let (stage, outer) = self.stage_and_axis()?;
                self.expect(",")?;
                let inner = self.name("a loop")?;
                self.expect("->")?;
                Step::Join { stage, outer, inner, joined: self.name("a loop")? }
            }
            "part" => {
                let (stage, axis, points, outer, inner) = self.cut()?;
                Step::Part { stage, axis, points, outer, inner }
            }
            "bring" => {
                let operand = self.name("an operand")?;
                self.expect_word("to")?;
                let stage = self.name("a stage")?;
                self.expect("->")?;
                Step::Bring { stage, operand, into: self.name("a stage")? }
            }
            "interleave" => {
                let (stage, axis) = self.stage_and_axis()?;
                self.expect_word("by")?;
                let points = self.count(1 << 30)? as u32;
                self.expect_word("with")?;
                let columns = self.name("a loop")?;
                self.expect("->")?;
                Step::Interleave { stage, axis, points, columns, joined: self.name("a loop")? }
            }
            "rfactor" => {
                let (stage, axis, parts, into, part) = self.cut()?;
                Step::Rfactor { stage, axis, parts, into, part }
            }
            "pad" => {
                let (stage, axis) = self.stage_and_axis()?;
                self.expect_word("to")?;
                Step::Pad { stage, axis, to: self.count(1 << 30)? as u32 }
            }
            "round" => {
                let (stage, load) = self.load()?;
                Step::Round { stage, load }
            }
            "cache" => {
                let (stage, load) = self.load()?;
                self.expect("->")?;
                Step::Cache { stage, load, into: self.name("a stage")? }
            }
            "single" => {
                let stage = self.name("a stage")?;
                self.expect("->")?;
                Step::Single { stage, axis: self.name("a loop")? }
            }
            "online" => {
                self.expect_word("by")?;
                Step::Online { keys: self.count(1 << 30)? as u32 }
            }
            "split" => {
                let (stage, axis, factor, outer, inner) = self.cut()?;
                Step::Split { stage, axis, factor, outer, inner }
            }
            "reorder" => {
                let (stage, order) = self.stage_and_axes()?;
                Step::Reorder { stage, order }
            }
            "inline" => Step::Inline { stage: self.name("a stage")? },
            "compute" => {
                let stage = self.name("a stage")?;
                self.expect_word("at")?;
                let (consumer, axis) = self.stage_and_axis()?;
                Step::ComputeAt { stage, consumer, axis }
            }
            "store" => {
                let stage = self.name("a stage")?;
                self.expect_word("in")?;
                Step::StoreIn { stage, scope: self.scope()? }
            }
            "vectorize" => {
                let (stage, axis) = self.stage_and_axis()?;
                Step::Vectorize { stage, axis }
            }
            "unroll" => {
                let (stage, axis) = self.stage_and_axis()?;
                Step::Unroll { stage, axis }
            }
            "partial" => {
                let (stage, axis) = self.stage_and_axis()?;
                Step::Partial { stage, axis }
            }
            "skip" => {
                let (stage, axis) = self.stage_and_axis()?;
                Step::Skip { stage, axis }
            }
            "scatter" => {
                let (stage, axis) = self.stage_and_axis()?;
                Step::Scatter { stage, axis }
            }
            "tensorize" => {
                let (stage, axis) = self.stage_and_axis()?;
                self.expect_word("to")?;
                Step::Tensorize { stage, axis, intrinsic: self.intrinsic()? }
            }
            "stream" => {
                let stage = self.name("a stage")?;
                self.expect_word("by")?;
                Step::Stream { stage, ahead: self.count(1 << 30)? as u32 }
            }
            "prefetch" => {
                let stage = self.name("a stage")?;
                self.expect_word("during")?;
                Step::Prefetch { stage, during: self.name("a stage")? }
            }
            "fetch" => {
                let operand = self.name("an operand")?;
                self.expect_word("during")?;
                let (during, axis) = self.stage_and_axis()?;
                self.expect_word("by")?;
                Step::Fetch { operand, during, axis, ahead: self.count(1 << 30)? as u32 }
            }
            "parallel" => {
                let (stage, axes) = self.stage_and_axes()?;
                Step::Parallel { stage, axes }
            }
            "bind" => {
                let (stage, axis) = self.stage_and_axis()?;
                self.expect_word("to")?;
                Step::Bind { stage, axis, dim: self.gpu_dim()? }
            }
            _ => return Err(self.error_at(mark, ParseErrorKind::Unknown { what: "step", name: verb })),
        })
    }

    fn stage_and_axis(&mut self) -> Parsed<(String, String)> {
        let stage = self.name("a stage")?;
        self.expect(".")?;
        Ok((stage, self.name("a loop")?))
    }

    fn stage_and_axes(&mut self) -> Parsed<(String, Vec<String>)> {
        let stage = self.name("a stage")?;
        self.expect(":")?;
        let mut axes = Vec::new();
        if !self.is(";") && *self.peek() != Kind::End {
            axes.push(self.name("a loop")?);
            while self.eat(",") {
                axes.push(self.name("a loop")?);
            }
        }
        Ok((stage, axes))
    }

    fn scope(&mut self) -> Parsed<Scope> {
        let mark = self.mark();
        let name = self.name("a memory scope")?;
        [Scope::Register, Scope::Stack, Scope::Scratch, Scope::Shared]
            .into_iter()
            .find(|s| s.to_string() == name)
            .ok_or_else(|| self.unknown(mark, "memory scope", name))
    }

    fn intrinsic(&mut self) -> Parsed<Intrinsic> {
        let mark = self.mark();
        let name = self.name("an operation of the machine")?;
        Intrinsic::ALL
            .into_iter()
            .find(|i| i.to_string() == name)
            .ok_or_else(|| self.unknown(mark, "operation of the machine", name))
    }

    fn gpu_dim(&mut self) -> Parsed<GpuDim> {
        let mark = self.mark();
        let group = self.name("a launch dimension")?;
        self.expect(".")?;
        let name = format!("{group}.{}", self.name("x, y or z")?);
        [GpuDim::BlockX, GpuDim::BlockY, GpuDim::BlockZ, GpuDim::ThreadX, GpuDim::ThreadY, GpuDim::ThreadZ]
            .into_iter()
            .find(|d| d.to_string() == name)
            .ok_or_else(|| self.unknown(mark, "launch dimension", name))
    }
}
