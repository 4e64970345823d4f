//! How loop nests print. They do not parse.
//!
//! ```text
//! nest @matmul where M in 1..=64 {
//!   buffer a: f32[64] argument 0 read_only
//!   buffer acc: f32[16] register
//!   chunk in 0..4 {
//!     alloc acc
//!     for i in 0..16 vector(16) {
//!       acc[i] = 0
//! ```

use super::index::{Bounds, Index, Names};
use super::kernel::Where;
use super::names::{Name, separated};
use super::scalar::{Block, FoldText, Printer};
use crate::access::Bound;
use crate::entity::{BufferId, EntityId, VarId};
use crate::index::IndexExpr;
use crate::kernel::OperandKind;
use crate::nest::{BufferKind, Expr, LoopKind, LoopNest, Stmt, Target};
use crate::scalar::Source;
use infc_tensor::DType;
use std::fmt;

impl fmt::Display for LoopNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vars = unique(self.vars.iter().map(|v| v.name.clone()));
        let buffers = unique(self.buffers.iter().map(|b| b.name.clone()));
        NestText { nest: self, vars: &vars, buffers: &buffers }.write(f)
    }
}

/// Names as they print; what occurs twice gets its number as well.
fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let again = |n: usize| names[..n].contains(&names[n]);
    (0..names.len()).map(|n| if again(n) { format!("{}.{n}", names[n]) } else { names[n].clone() }).collect()
}

struct NestText<'a> {
    nest: &'a LoopNest,
    vars: &'a [String],
    buffers: &'a [String],
}

impl NestText<'_> {
    fn names(&self) -> Names<'_> {
        Names { vars: self.vars, symbols: &self.nest.symbols }
    }

    fn index<'a>(&'a self, expr: &'a IndexExpr) -> Index<'a> {
        Index(expr, self.names())
    }

    fn var(&self, id: VarId) -> String {
        self.vars.get(id.index()).map_or_else(|| id.to_string(), |name| Name(name).to_string())
    }

    fn buffer(&self, id: BufferId) -> String {
        self.buffers.get(id.index()).map_or_else(|| id.to_string(), |name| Name(name).to_string())
    }

    fn target(&self, target: &Target) -> String {
        format!("{}[{}]", self.buffer(target.buffer), self.index(&target.index))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "nest @{}{} {{", Name(&self.nest.name), Where(&self.nest.symbols))?;
        for (id, buffer) in self.nest.buffers.iter_enumerated() {
            write!(f, "  buffer {}: {}[{}]", self.buffer(id), buffer.dtype, self.index(&buffer.len_elems))?;
            match buffer.kind {
                BufferKind::Operand { argument, role, .. } => {
                    let role = match role {
                        OperandKind::Input => " read_only",
                        OperandKind::Constant => " constant",
                        OperandKind::Output => "",
                    };
                    writeln!(f, " argument {argument}{role}")?;
                }
                BufferKind::Local(scope) => match buffer.swizzle_bytes {
                    Some(row) => {
                        write!(f, " {scope} swizzle {row}")?;
                        match buffer.panel_rows {
                            Some(rows) => writeln!(f, " panels {rows}")?,
                            None => writeln!(f)?,
                        }
                    }
                    None => writeln!(f, " {scope}")?,
                },
            }
        }
        match &self.nest.parallel {
            Some(parallel) => {
                let (var, chunks) = (self.var(parallel.var), self.index(&parallel.chunks));
                write!(f, "  parallel {var} in 0..{chunks}")?;
                if let Some(step) = &parallel.step_chunks {
                    write!(f, " in steps of {}", self.index(step))?;
                }
                f.write_str(" {\n")?;
                self.block(f, &self.nest.body, 2)?;
                f.write_str("  }\n")?;
            }
            None => self.block(f, &self.nest.body, 1)?,
        }
        f.write_str("}\n")
    }

    fn block(&self, f: &mut fmt::Formatter<'_>, stmts: &[Stmt], depth: usize) -> fmt::Result {
        stmts.iter().try_for_each(|stmt| self.stmt(f, stmt, depth))
    }

    fn stmt(&self, f: &mut fmt::Formatter<'_>, stmt: &Stmt, depth: usize) -> fmt::Result {
        let indent = 2 * depth;
        write!(f, "{:indent$}", "")?;
        match stmt {
            Stmt::For { var, extent, kind, body } => {
                write!(f, "for {} in 0..{}", self.var(*var), self.index(extent))?;
                match kind {
                    LoopKind::Serial => {}
                    LoopKind::Unrolled => f.write_str(" unrolled")?,
                    LoopKind::Vector { lanes } => write!(f, " vector({lanes})")?,
                    LoopKind::Tensor(intrinsic) => write!(f, " {intrinsic}")?,
                    LoopKind::Bound(dim) => write!(f, " {dim}")?,
                }
                f.write_str(" {\n")?;
                self.block(f, body, depth + 1)?;
                writeln!(f, "{:indent$}}}", "")
            }
            Stmt::Let { var, value } => writeln!(f, "let {} = {}", self.var(*var), self.index(value)),
            Stmt::LetValue { var, value } => {
                write!(f, "let {} = ", self.var(*var))?;
                self.value(f, &[DType::I64], value, &[])
            }
            Stmt::If { cond, then, otherwise } => {
                writeln!(f, "if {} {{", Bounds(cond, self.names()))?;
                self.block(f, then, depth + 1)?;
                if !otherwise.is_empty() {
                    writeln!(f, "{:indent$}}} else {{", "")?;
                    self.block(f, otherwise, depth + 1)?;
                }
                writeln!(f, "{:indent$}}}", "")
            }
            Stmt::Alloc(buffer) => writeln!(f, "alloc {}", self.buffer(*buffer)),
            Stmt::Store { targets, value, valid } => {
                separated(f, ", ", targets, |f, t| f.write_str(&self.target(t)))?;
                f.write_str(" = ")?;
                self.written(f, targets, value, valid)
            }
            Stmt::Reduce { targets, value, reducer, valid } => {
                separated(f, ", ", targets, |f, t| f.write_str(&self.target(t)))?;
                write!(f, " = {} ", FoldText(reducer, &self.nest.symbols))?;
                self.written(f, targets, value, valid)
            }
            Stmt::Barrier => f.write_str("barrier\n"),
            Stmt::Prefetch { target } => writeln!(f, "prefetch {}", self.target(target)),
            Stmt::AsyncCopy { target, source, len_elems, valid } => {
                write!(f, "copy {len_elems} from {} to {}", self.target(source), self.target(target))?;
                if !valid.is_empty() {
                    write!(f, " where {}", Bounds(valid, self.names()))?;
                }
                f.write_str("\n")
            }
            Stmt::AsyncCommit => f.write_str("commit\n"),
            Stmt::AsyncWait { pending } => writeln!(f, "wait {pending}"),
            Stmt::ProductsWait { pending } => writeln!(f, "wait products {pending}"),
        }
    }

    /// What is written to these places.
    fn written(&self, f: &mut fmt::Formatter<'_>, targets: &[Target], value: &Expr, valid: &[Bound]) -> fmt::Result {
        let dtype = |t: &Target| self.nest.buffers.get(t.buffer).map(|b| b.dtype);
        let expected: Vec<DType> = targets.iter().filter_map(dtype).collect();
        self.value(f, &expected, value, valid)
    }

    fn value(&self, f: &mut fmt::Formatter<'_>, expected: &[DType], value: &Expr, valid: &[Bound]) -> fmt::Result {
        let printer = Printer { names: self.names(), source: &|source| self.source(source), params: &[] };
        let block = Block { printer, body: &value.body, roots: &value.roots, expected, separator: "; " };
        write!(f, "{block}")?;
        if !valid.is_empty() {
            write!(f, " where {}", Bounds(valid, self.names()))?;
        }
        f.write_str("\n")
    }

    fn source(&self, source: Source) -> String {
        match source {
            Source::Buffer(id) => self.buffer(id),
            other => format!("{other:?}"),
        }
    }
}
