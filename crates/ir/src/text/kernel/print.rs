//! How kernels print.

use super::super::index::{Index, Names};
use super::super::names::{Name, separated};
use super::super::scalar::{Block, FoldText, Printer};
use super::layout::LayoutText;
use crate::entity::{EntityId, StageId};
use crate::index::Dim;
use crate::kernel::{Axis, AxisKind, Kernel, Operand, OperandKind, Output, Stage};
use crate::scalar::Source;
use crate::symbol::Symbols;
use infc_tensor::DType;
use std::collections::HashMap;
use std::fmt;

/// ` where N in 1..=64`, or nothing.
pub(in super::super) struct Where<'a>(pub(in super::super) &'a Symbols);

impl fmt::Display for Where<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str(" where ")?;
        separated(f, ", ", self.0.iter(), |f, symbol| {
            write!(f, "{} in {}..", Name(&symbol.name), symbol.min)?;
            symbol.max.map_or(Ok(()), |max| write!(f, "={max}"))
        })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel @{}(", Name(&self.name))?;
        // Outputs that come last print behind the arrow, others are marked.
        let is_output = |o: &&Operand| o.kind == OperandKind::Output;
        let first_output = self.operands.len() - self.operands.iter().rev().take_while(is_output).count();
        let mut operands = self.operands.iter();
        separated(f, ", ", operands.by_ref().take(first_output), |f, o| self.write_operand(f, o, true))?;
        f.write_str(")")?;
        if first_output < self.operands.len() {
            f.write_str(" -> (")?;
            separated(f, ", ", operands, |f, o| self.write_operand(f, o, false))?;
            f.write_str(")")?;
        }
        writeln!(f, "{} {{", Where(&self.symbols))?;
        let mut extents = HashMap::new();
        for (id, stage) in self.stages.iter_enumerated() {
            self.write_stage(f, id, stage, &mut extents)?;
        }
        for output in &self.outputs {
            self.write_output(f, output)?;
        }
        f.write_str("}\n")
    }
}

impl Kernel {
    fn write_operand(&self, f: &mut fmt::Formatter<'_>, operand: &Operand, marked: bool) -> fmt::Result {
        let names = Names { vars: &[], symbols: &self.symbols };
        f.write_str(match operand.kind {
            OperandKind::Constant => "const ",
            OperandKind::Output if marked => "out ",
            _ => "",
        })?;
        write!(f, "{}: {}[", Name(&operand.name), operand.dtype)?;
        separated(f, ", ", &operand.shape, |f, dim| write!(f, "{}", Index(dim, names)))?;
        write!(f, "]{}", LayoutText { layout: &operand.layout, shape: &operand.shape, names })
    }

    fn write_stage<'a>(
        &'a self,
        f: &mut fmt::Formatter<'_>,
        id: StageId,
        stage: &'a Stage,
        extents: &mut HashMap<&'a str, &'a Dim>,
    ) -> fmt::Result {
        let outside = Names { vars: &[], symbols: &self.symbols };
        write!(f, "  stage {}[", Name(&stage.name))?;
        separated(f, ", ", &stage.axes, |f, axis: &Axis| {
            f.write_str(match axis.kind {
                AxisKind::Parallel => "",
                AxisKind::Reduce => "reduce ",
                AxisKind::Sequential => "seq ",
            })?;
            write!(f, "{}", Name(&axis.name))?;
            // Said once, until it changes.
            if extents.insert(&axis.name, &axis.extent) == Some(&axis.extent) {
                return Ok(());
            }
            write!(f, ": {}", Index(&axis.extent, outside))
        })?;
        f.write_str("]")?;
        let own = self.own_types(id, stage);
        match &own[..] {
            [] => {}
            [only] => write!(f, ": {only}")?,
            types => {
                f.write_str(": (")?;
                separated(f, ", ", types, |f, dtype| write!(f, "{dtype}"))?;
                f.write_str(")")?;
            }
        }
        let mut expected = own;
        f.write_str(" =")?;
        if let Some(reducer) = &stage.reducer {
            let fold = FoldText(reducer, &self.symbols);
            write!(f, " {fold}")?;
            expected = fold.expected();
        }
        let vars: Vec<String> = stage.axes.iter().map(|a| a.name.clone()).collect();
        let printer = Printer {
            names: Names { vars: &vars, symbols: &self.symbols },
            source: &|source| self.source_text(source),
            params: &[],
        };
        let block =
            Block { printer, body: &stage.body, roots: &stage.results, expected: &expected, separator: ";\n    " };
        let text = block.to_string();
        // Blocks of several lines start on a line of their own.
        let break_line = if text.contains('\n') { "\n    " } else { " " };
        writeln!(f, "{break_line}{text}")
    }

    /// The types of a stage that it or one before it reads, which the reader must know in advance; else nothing.
    fn own_types(&self, id: StageId, stage: &Stage) -> Vec<DType> {
        let mut read_ahead = false;
        for reader in self.stages.iter().take(id.index() + 1) {
            reader.for_each_load(&mut |_, load| {
                read_ahead |= matches!(load.source, Source::Stage(s, _) if s == id);
            });
        }
        if read_ahead { stage.dtypes() } else { Vec::new() }
    }

    fn source_text(&self, source: Source) -> String {
        match source {
            Source::Operand(id) => match self.operands.get(id) {
                Some(operand) => Name(&operand.name).to_string(),
                None => id.to_string(),
            },
            Source::Stage(id, component) => match self.stages.get(id) {
                Some(stage) if stage.results.len() == 1 && component == 0 => Name(&stage.name).to_string(),
                Some(stage) => format!("{}.{component}", Name(&stage.name)),
                None => format!("{id}.{component}"),
            },
            Source::Buffer(id) => id.to_string(),
        }
    }

    fn write_output(&self, f: &mut fmt::Formatter<'_>, output: &Output) -> fmt::Result {
        let vars: Vec<String> = match self.stages.get(output.stage) {
            Some(stage) => stage.axes.iter().map(|a| a.name.clone()).collect(),
            None => Vec::new(),
        };
        let names = Names { vars: &vars, symbols: &self.symbols };
        let operand = self.source_text(Source::Operand(output.operand));
        write!(f, "  output {operand}[")?;
        separated(f, ", ", &output.index, |f, e| write!(f, "{}", Index(e, names)))?;
        write!(f, "] = {}[", self.source_text(Source::Stage(output.stage, output.component)))?;
        if let Some(stage) = self.stages.get(output.stage) {
            separated(f, ", ", stage.value_axes(), |f, (_, axis)| write!(f, "{}", Name(&axis.name)))?;
        }
        f.write_str("]")?;
        if let Some(onto) = output.onto {
            write!(f, " onto {}", self.source_text(Source::Operand(onto)))?;
        }
        f.write_str("\n")
    }
}
