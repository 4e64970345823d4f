//! What the memory planner promises.

use infc_artifact::{ARENA_ALIGN, ArenaSlot, MemoryPlan, Program, SizeExpr, Slot};
use proptest::prelude::*;

/// A Program of nothing but arena slots: (size, first step, last step, alias).
fn program(slots: &[(i64, u32, u32, Option<u32>)]) -> Program {
    let slot = |&(size, first_step, last_step, alias): &(i64, u32, u32, Option<u32>)| {
        Slot::Arena(ArenaSlot { size_bytes: SizeExpr::constant(size), first_step, last_step, alias })
    };
    Program { slots: slots.iter().map(slot).collect(), steps: vec![], static_plan: None }
}

#[test]
fn a_chain_needs_two_buffers() {
    // Each step reads the value before it: values i and i + 1 live together.
    let chain: Vec<_> = (0..10).map(|i| (1000, i, i + 1, None)).collect();
    let plan = MemoryPlan::new(&program(&chain), &[]).unwrap();
    assert_eq!(plan.arena_bytes, 2 * 1024);
}

#[test]
fn small_values_go_into_gaps() {
    // Step:     0 1 2 3
    // 0 (4096)  #####        0..4096
    // 1 (1024)    #####      4096..5120
    // 2 (4096)        ###    0..4096
    // 3 (1000)        ###    after both
    let plan = MemoryPlan::new(
        &program(&[(4096, 0, 2, None), (1024, 1, 3, None), (4096, 3, 4, None), (1000, 4, 4, None)]),
        &[],
    );
    let plan = plan.unwrap();
    assert_eq!(plan.offsets, [Some(0), Some(4096), Some(0), Some(4096)]);
    assert_eq!(plan.arena_bytes, 5120);
}

#[test]
fn aliases_share_an_address_over_both_lives() {
    let slots = [(100, 0, 1, None), (300, 1, 2, Some(0)), (100, 2, 3, Some(1)), (100, 0, 3, None)];
    let plan = MemoryPlan::new(&program(&slots), &[]).unwrap();
    assert_eq!(plan.offsets[0], plan.offsets[1]);
    assert_eq!(plan.offsets[1], plan.offsets[2]);
    assert_eq!(plan.arena_bytes, 320 + 128);
}

#[test]
fn sizes_follow_the_symbols() {
    let size_bytes = SizeExpr::symbol(0) * SizeExpr::constant(4);
    let slot = Slot::Arena(ArenaSlot { size_bytes, first_step: 0, last_step: 0, alias: None });
    let program = Program { slots: vec![Slot::Input(0), slot], steps: vec![], static_plan: None };
    for (n, bytes) in [(0, 0), (1, 64), (16, 64), (17, 128)] {
        assert_eq!(MemoryPlan::new(&program, &[n]).unwrap().arena_bytes, bytes);
    }
    assert_eq!(MemoryPlan::new(&program, &[-1]).unwrap_err().code(), "artifact::bad-size");
    assert_eq!(MemoryPlan::new(&program, &[i64::MAX]).unwrap_err().code(), "artifact::bad-size");
    assert_eq!(MemoryPlan::new(&program, &[]).unwrap_err().code(), "artifact::bad-size");
}

#[test]
fn an_arena_beyond_the_address_space_is_refused() {
    let slots = [(i64::MAX, 0, 0, None), (i64::MAX, 0, 0, None), (i64::MAX, 0, 0, None)];
    assert_eq!(MemoryPlan::new(&program(&slots), &[]).unwrap_err().code(), "artifact::too-large");
}

prop_compose! {
    fn slots()(raw in prop::collection::vec((0i64..5000, 0u32..40, 0u32..12, 0u32..8, any::<prop::sample::Index>()), 1..60))
        -> Vec<(i64, u32, u32, Option<u32>)>
    {
        let slots = raw.iter().enumerate().map(|(index, (size, first, len, dice, alias))| {
            let alias = (*dice == 0 && index > 0).then(|| alias.index(index) as u32);
            (*size, *first, first + len, alias)
        });
        slots.collect()
    }
}

proptest! {
    #[test]
    fn live_slots_never_overlap(slots in slots()) {
        let program = program(&slots);
        let plan = MemoryPlan::new(&program, &[]).unwrap();
        prop_assert_eq!(&plan, &MemoryPlan::new(&program, &[]).unwrap());

        let mut root: Vec<usize> = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            root.push(slot.3.map_or(index, |alias| root[alias as usize]));
        }
        let range = |i: usize| {
            let start = plan.offsets[i].unwrap();
            start..start + slots[i].0 as u64
        };
        for a in 0..slots.len() {
            prop_assert!(range(a).end <= plan.arena_bytes);
            prop_assert_eq!(range(a).start % ARENA_ALIGN, 0);
            for b in 0..a {
                if root[a] == root[b] {
                    prop_assert_eq!(range(a).start, range(b).start);
                } else if slots[a].1 <= slots[b].2 && slots[b].1 <= slots[a].2 {
                    let apart = range(a).end <= range(b).start || range(b).end <= range(a).start;
                    prop_assert!(apart || range(a).is_empty() || range(b).is_empty(), "slots {} and {}", a, b);
                }
            }
        }
        let bound = MemoryPlan::lower_bound(&program, &[]).unwrap();
        let sum: u64 = slots.iter().map(|s| (s.0 as u64).next_multiple_of(ARENA_ALIGN)).sum();
        prop_assert!(bound <= plan.arena_bytes && plan.arena_bytes <= sum);
    }
}
