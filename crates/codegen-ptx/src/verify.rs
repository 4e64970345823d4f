//! Registers are written before they are read, on every way through a kernel.
//!
//! An assembler takes what nothing has written for any number, without a word; the simulator notices it on the ways that a run takes.
//! This is the analysis of definite assignment, on the text as it is printed: what is written at the beginning of a block is what is
//! written at the end of all blocks that lead there.

use std::collections::HashMap;

/// What a line does.
#[derive(Debug, Default)]
struct Line<'t> {
    reads: Vec<&'t str>,
    writes: Vec<&'t str>,
    /// The predicate that it depends on, which is one of those that it reads.
    guard: Option<&'t str>,
    /// The label that it may go on at.
    to: Option<&'t str>,
    /// Whether it never goes on with the next line.
    leaves: bool,
}

/// Instructions that write no register.
const WITHOUT_RESULT: [&str; 10] =
    ["st.", "cp.async", "griddepcontrol", "bar.", "bra", "ret", "fence", "membar", "wgmma.fence", "wgmma.commit"];

/// The first register that may be read where it has not been written, with its line; `None` if there is none.
pub(crate) fn unwritten(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let parsed: Vec<Line<'_>> = lines.iter().map(|line| Line::of(line)).collect();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for register in parsed.iter().flat_map(|line| line.reads.iter().chain(&line.writes)) {
        let next = numbers.len();
        numbers.entry(register).or_insert(next);
    }
    let starts = starts(&lines, &parsed);
    let labels: HashMap<&str, usize> = starts
        .iter()
        .enumerate()
        .filter_map(|(block, &start)| Some((lines.get(start)?.strip_suffix(':')?, block)))
        .collect();
    let end_of = |block: usize| starts.get(block + 1).copied().unwrap_or(lines.len());
    // What is written at the beginning of each block: everything, until a way there is found on which less is.
    let mut written: Vec<Option<Written>> = vec![None; starts.len()];
    let mut waiting = vec![0];
    if let Some(first) = written.first_mut() {
        *first = Some(Written::none(numbers.len()));
    }
    while let Some(block) = waiting.pop() {
        let Some(mut now) = written.get(block).cloned().flatten() else { continue };
        let last = end_of(block).checked_sub(1).and_then(|last| parsed.get(last));
        for line in &parsed[starts[block]..end_of(block)] {
            now.add(line, &numbers);
        }
        let (to, falls) = last.map_or((None, true), |last| (last.to, !last.leaves));
        let target = to.and_then(|label| labels.get(label).copied());
        for next in target.into_iter().chain(falls.then_some(block + 1)) {
            let is_less = match written.get_mut(next) {
                Some(Some(known)) => known.narrow(&now),
                Some(unseen) => {
                    *unseen = Some(now.clone());
                    true
                }
                None => false,
            };
            if is_less {
                waiting.push(next);
            }
        }
    }
    for (block, written) in written.into_iter().enumerate() {
        // What no way leads to is not executed.
        let Some(mut now) = written else { continue };
        let mut under: HashMap<&str, &str> = HashMap::new();
        for n in starts[block]..end_of(block) {
            let line = &parsed[n];
            let is_written = |register: &&str| {
                let same_guard = line.guard.is_some() && under.get(*register).copied() == line.guard;
                now.has(numbers[*register]) || same_guard
            };
            if let Some(register) = line.reads.iter().find(|register| !is_written(register)) {
                return Some(format!("{register} in `{}`", lines[n]));
            }
            now.add(line, &numbers);
            if let Some(guard) = line.guard {
                under.extend(line.writes.iter().map(|register| (*register, guard)));
            }
            under.retain(|_, guard| !line.writes.contains(guard));
        }
    }
    None
}

/// The first lines of blocks: labels, and what follows jumps.
fn starts(lines: &[&str], parsed: &[Line<'_>]) -> Vec<usize> {
    let is_start =
        |n: &usize| *n == 0 || lines[*n].ends_with(':') || parsed[*n - 1].to.is_some() || parsed[*n - 1].leaves;
    (0..lines.len()).filter(is_start).collect()
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Self {
        let line = line.trim_end_matches(';');
        if line.ends_with(':') || line.starts_with('.') {
            return Self::default();
        }
        let (guard, rest) = match line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            Some((guard, rest)) => (Some(guard.trim_start_matches('!')), rest),
            None => (None, line),
        };
        let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut this = Self { guard, ..Self::default() };
        this.reads.extend(guard);
        if opcode == "bra" {
            this.to = Some(operands.trim());
        }
        this.leaves = guard.is_none() && matches!(opcode, "bra" | "ret");
        if WITHOUT_RESULT.iter().any(|start| opcode.starts_with(start)) {
            this.reads.extend(registers(operands));
            return this;
        }
        // Several results stand in braces.
        let end = if operands.starts_with('{') { operands.find('}') } else { operands.find(',') };
        let (results, others) = operands.split_at(end.unwrap_or(operands.len()));
        this.writes.extend(registers(results));
        this.reads.extend(registers(others));
        this
    }
}

/// The registers that are named in operands; those that the machine keeps, as `%tid.x`, are none.
fn registers(operands: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '.' | '_' | '$');
    operands.split(move |c| !is_part(c)).filter(|word| word.starts_with('%') && !word.contains('.'))
}

/// A set of registers.
#[derive(Clone, Debug)]
struct Written(Vec<u64>);

impl Written {
    fn none(registers: usize) -> Self {
        Self(vec![0; registers.div_ceil(64)])
    }

    fn has(&self, register: usize) -> bool {
        self.0[register / 64] & (1 << (register % 64)) != 0
    }

    /// What a line writes whatever its predicate is.
    fn add(&mut self, line: &Line<'_>, numbers: &HashMap<&str, usize>) {
        for register in line.writes.iter().filter(|_| line.guard.is_none()).map(|register| numbers[*register]) {
            self.0[register / 64] |= 1 << (register % 64);
        }
    }

    /// Leaves only what the other one has, too; whether that is less.
    fn narrow(&mut self, other: &Self) -> bool {
        let mut is_less = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            is_less |= *own & !other != 0;
            *own &= other;
        }
        is_less
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_on_all_ways() {
        let fine = "mov.u32 %r0, %tid.x;\n@%p0 bra $L0;";
        assert_eq!(unwritten(fine).as_deref(), Some("%p0 in `@%p0 bra $L0;`"));
        let counted = "mov.b32 %r0, 0;\n$L0:\nadd.s32 %r0, %r0, 1;\nsetp.lt.s32 %p0, %r0, 4;\n@%p0 bra $L0;\nret;";
        assert_eq!(unwritten(counted), None);
        // One side of a branch alone writes it.
        let branch = |other: &str| {
            format!(
                "setp.lt.s32 %p0, 1, 2;\n@!%p0 bra $L0;\nmov.b32 %r0, 1;\nbra $L1;\n$L0:\n{other}\n$L1:\nst.global.b32 [%rd0], %r0;"
            )
        };
        let with = |other: &str| unwritten(&format!("mov.b64 %rd0, 0;\n{}", branch(other)));
        assert_eq!(with("mov.b32 %r0, 2;"), None);
        assert_eq!(with("mov.b32 %r1, 2;").as_deref(), Some("%r0 in `st.global.b32 [%rd0], %r0;`"));
        assert_eq!(with("ret;"), None);
        // In the second turn it would be there.
        let late =
            "mov.b32 %r0, 0;\n$L0:\nadd.s32 %r0, %r0, %r1;\nmov.b32 %r1, 1;\nsetp.lt.s32 %p0, %r0, 4;\n@%p0 bra $L0;";
        assert_eq!(unwritten(late).as_deref(), Some("%r1 in `add.s32 %r0, %r0, %r1;`"));
    }

    #[test]
    fn results_of_instructions() {
        let start = "mov.b64 %rd0, 0;\nsetp.lt.s32 %p0, 1, 2;\nsetp.lt.s32 %p1, 1, 2;\n";
        let with = |rest: &str| unwritten(&format!("{start}{rest}"));
        assert_eq!(with("ld.global.v2.f32 {%f0, %f1}, [%rd0+8];\nst.global.v2.f32 [%rd0], {%f0, %f1};"), None);
        assert_eq!(with("mov.b32 {%h0, %h1}, %r0;").as_deref(), Some("%r0 in `mov.b32 {%h0, %h1}, %r0;`"));
        // What depends on a predicate is there where the same one holds, as long as it is not another one.
        assert_eq!(with("@%p0 ld.global.f32 %f0, [%rd0];\n@%p0 st.global.f32 [%rd0], %f0;"), None);
        assert!(with("@%p0 ld.global.f32 %f0, [%rd0];\n@%p1 st.global.f32 [%rd0], %f0;").is_some());
        assert!(with("@%p0 ld.global.f32 %f0, [%rd0];\nst.global.f32 [%rd0], %f0;").is_some());
        let between = "@%p0 ld.global.f32 %f0, [%rd0];\nsetp.lt.s32 %p0, 1, 2;\n@%p0 st.global.f32 [%rd0], %f0;";
        assert!(with(between).is_some());
        let product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};";
        assert!(with(product).is_some_and(|said| said.starts_with("%r1")));
    }
}
