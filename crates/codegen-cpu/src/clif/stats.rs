//! Counts over the code, from the listing that Cranelift gives.
//!
//! The listing has a line per instruction, indented, and a line `block3:` in front of each block, which branches call
//! `label3`. A branch to a block that lies no later closes a loop of all blocks in between; a loop that contains no
//! other is innermost.

use crate::object::Stats;

/// Counts the instructions of a listing.
pub(super) fn of(listing: &str) -> Stats {
    let blocks = blocks(listing);
    let loops = innermost_loops(&blocks);
    let mut stats = Stats::default();
    for (n, block) in blocks.iter().enumerate() {
        let hot = loops.iter().any(|&(first, last)| (first..=last).contains(&n));
        for inst in &block.insts {
            stats.insts += 1;
            stats.vector_insts += u32::from(is_vector(inst));
            // What the prologue saves is not counted.
            let spill = block.number.is_some() && is_spill(inst);
            stats.spills += u32::from(spill);
            stats.inner_loop_spills += u32::from(hot && spill);
            stats.inner_loop_moves += u32::from(hot && is_move(inst));
        }
    }
    stats
}

/// Instructions between two labels.
struct ListedBlock<'a> {
    /// `None` for the prologue.
    number: Option<u32>,
    insts: Vec<&'a str>,
}

fn blocks(listing: &str) -> Vec<ListedBlock<'_>> {
    let mut blocks = vec![ListedBlock { number: None, insts: Vec::new() }];
    for line in listing.lines() {
        let number = line.strip_prefix("block").and_then(|rest| rest.strip_suffix(':')).and_then(|n| n.parse().ok());
        if number.is_some() {
            blocks.push(ListedBlock { number, insts: Vec::new() });
            continue;
        }
        let inst = line.trim();
        // A note to the register allocator makes no code.
        if !inst.is_empty() && !inst.starts_with("uninit") {
            blocks.last_mut().expect("it begins with one").insts.push(inst);
        }
    }
    blocks
}

/// First and last block of each.
fn innermost_loops(blocks: &[ListedBlock<'_>]) -> Vec<(usize, usize)> {
    let mut loops = Vec::new();
    for (last, block) in blocks.iter().enumerate() {
        for number in block.insts.iter().flat_map(|inst| labels(inst)) {
            if let Some(first) = blocks.iter().position(|block| block.number == Some(number))
                && first <= last
            {
                loops.push((first, last));
            }
        }
    }
    let contains =
        |outer: &(usize, usize), inner: &(usize, usize)| outer != inner && outer.0 <= inner.0 && inner.1 <= outer.1;
    loops.iter().filter(|outer| !loops.iter().any(|inner| contains(outer, inner))).copied().collect()
}

/// The blocks that a branch may go to.
fn labels(inst: &str) -> impl Iterator<Item = u32> {
    inst.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.strip_prefix("label")?.parse().ok())
}

fn operands(inst: &str) -> impl Iterator<Item = &str> {
    inst.split_once(' ').map_or("", |(_, operands)| operands).split(',').map(str::trim)
}

fn is_vector(inst: &str) -> bool {
    // AArch64 names vector registers by width or shape: s1, d1, q1, v1.4s.
    let by_width = |operand: &str| {
        let name = operand.split('.').next().unwrap_or_default();
        let mut letters = name.chars();
        matches!(letters.next(), Some('s' | 'd' | 'q' | 'v')) && name.len() > 1 && letters.all(|c| c.is_ascii_digit())
    };
    inst.contains("%xmm") || operands(inst).any(by_width)
}

fn is_spill(inst: &str) -> bool {
    inst.contains("(%rsp)") || inst.contains("[sp")
}

fn is_move(inst: &str) -> bool {
    let name = inst.split(' ').next().unwrap_or_default();
    let copies = name == "mov" || name.starts_with("mov") && inst.contains('%');
    let register = |operand: &str| {
        let name = operand.trim_start_matches('%');
        operand.starts_with('%') || name.starts_with(['x', 'w', 'v', 's', 'd', 'q']) && !name.contains('#')
    };
    copies && !inst.contains(['(', '[', '$']) && operands(inst).count() == 2 && operands(inst).all(register)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_listings_are_counted() {
        let listing = "  pushq %rbp
  movq %rsp, %rbp
  movq %rbx, 0x10(%rsp)
block0:
  uninit  %xmm1
  xorps %xmm1, %xmm1
  movdqu %xmm1, 0x20(%rsp)
block1:
  movq %rdi, %rsi
block2:
  movss (%rcx, %rsi, 4), %xmm3
  movdqa %xmm3, %xmm8
  movdqu 0x20(%rsp), %xmm2
  cmpq $0x100, %rsi
  jl      label2; j label3
block3:
  jl      label1; j label4
block4:
  retq
";
        let expected = Stats { insts: 13, vector_insts: 5, spills: 2, inner_loop_spills: 1, inner_loop_moves: 1 };
        assert_eq!(of(listing), expected);
    }

    #[test]
    fn aarch64_listings_are_counted() {
        let listing = "block0:
  ldr x1, [x0]
  movi v24.16b, #0
  str q8, [sp, #16]
block1:
  ldr s5, [x1, x5, LSL #2]
  fmla v24.4s, v24.4s, v0.4s, v5.s[0]
  mov v19.16b, v24.16b
  add x5, x5, #1
  subs xzr, x5, #256
  b.lt label1 ; b label2
block2:
  ret
";
        let expected = Stats { insts: 10, vector_insts: 5, spills: 1, inner_loop_spills: 0, inner_loop_moves: 1 };
        assert_eq!(of(listing), expected);
    }
}
