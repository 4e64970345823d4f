//! Instructions that sum several products at once: where a schedule may ask for them.

use crate::streams::tiled;
use crate::support::MACHINES;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{DotCost, Machine, apply, apply_within, choose};

fn byte_product() -> Kernel {
    infc_testkit::kernel("byte_product")
}

#[test]
fn sums_of_byte_products_take_dot_products() {
    let schedule = choose(&byte_product(), &MACHINES[2].1, ErrorClass::Exact).to_string();
    assert!(schedule.contains("split s.k by 4 -> k_o, k_q; tensorize s.k_q to dot4"), "{schedule}");
    assert!(schedule.contains("vectorize s.n_l"), "{schedule}");
    let nest = apply(&byte_product(), &schedule.parse().expect("it prints and parses")).expect("it applies");
    assert!(nest.to_string().contains(" dot4"), "{nest}");
}

/// Terms that are sums themselves are made for a tile at each turn of the sum over them, bits of bytes taken out of as many at once
/// as a vector has: both keep their sums in registers.
#[test]
fn sums_of_sums_share_a_tile() {
    let kernel = infc_testkit::kernel("block_product");
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Exact);
        let text = schedule.to_string();
        for step in ["inline number", "compute part at total.b; store part in register", "tensorize part.c_q to dot4"] {
            assert!(text.contains(step), "{name}: {text}");
        }
        assert!(text.contains("store total in register"), "{name}: {text}");
        let nest = apply(&kernel, &schedule).expect("it applies");
        assert!(nest.to_string().contains(" dot4"), "{name}: {nest}");
        // Two accumulators per result.
        let rows = text.split("split total.m by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        assert!(rows.is_none_or(|rows| 2 * rows < machine.vector_registers), "{name}: {text}");
    }
}

/// Bits that differ from lane to lane, or within a group, are not taken out of whole vectors.
#[test]
fn bits_of_a_group_are_the_same() {
    let text = infc_testkit::kernel("block_product").to_string();
    for shift in ["4*mod(c, 2)", "mod(c, 4)"] {
        let text = text.replace("4*p", shift);
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Exact).to_string();
        assert!(!schedule.contains("dot4"), "{shift}: {schedule}");
    }
}

#[test]
fn sums_of_bf16_products_take_pairs_where_sums_may_be_reordered() {
    let kernel = infc_testkit::kernel("bf16_product");
    let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Reassociating);
    let text = schedule.to_string();
    assert!(text.contains("split s.k by 2 -> k_o, k_q; tensorize s.k_q to dot2"), "{text}");
    assert!(text.contains("vectorize s.n_l"), "{text}");
    let nest = apply(&kernel, &schedule).expect("it applies");
    assert!(nest.to_string().contains(" dot2"), "{nest}");
    let strict = apply_within(&kernel, &schedule, ErrorClass::Exact).expect_err("another order");
    assert!(strict.to_string().contains("summed by an instruction"), "{strict}");
    let exact = choose(&kernel, &MACHINES[2].1, ErrorClass::Exact).to_string();
    assert!(!exact.contains("dot2"), "{exact}");
}

/// Few columns that are joined with rows could fill vectors, but rows joined with columns are no dot products: as where there is no
/// instruction for them, and an estimate of either is a guess.
#[test]
fn few_columns_stay_dot_products() {
    let text = "kernel @k(x: u8[300, 64], const w: i8[16, 16, 4]) -> (y: f32[300, 12]) {\n  \
                stage s[m: 300, n: 12, reduce k: 64] = fold sum i32(x[m, k]) * i32(w[div(k, 4), n, mod(k, 4)])\n  \
                stage o[m, n] = f32(s[m, n]) * 0.5\n  output y[m, n] = o[m, n]\n}\n";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let apart = DotCost { cost: 2.5, operand_cost: 1.5, latency_cycles: 4.0 };
    for (name, machine) in &MACHINES {
        for byte_dot in [machine.byte_dot, apart] {
            let machine = Machine { byte_dot, ..*machine };
            let schedule = choose(&kernel, &machine, ErrorClass::Reassociating).to_string();
            assert!(schedule.contains("tensorize s.k_q to dot4"), "{name}: {schedule}");
        }
    }
}

/// Many rows that share a factor do not make it worth converting what the instruction takes as it is.
#[test]
fn pairs_are_not_converted_in_front() {
    let text = infc_testkit::kernel("bf16_product").to_string();
    let kernel: Kernel = text.replace("M in 1..", "M = 64").parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Reassociating).to_string();
    assert!(schedule.contains("tensorize s.k_q to dot2") && !schedule.contains("bring"), "{schedule}");
}

#[test]
fn what_is_no_dot_product_is_refused() {
    let error = |text: &str| {
        let schedule = text.parse().expect("it parses");
        apply(&byte_product(), &schedule).expect_err(text).to_string()
    };
    // Not split off, of another length, not reduced, not innermost.
    for steps in ["tensorize s.k to dot4", "split s.k by 2 -> o, i; tensorize s.i to dot4", "tensorize s.n to dot4"] {
        assert!(error(steps).contains("4 turns of a split-off reduction loop"), "{steps}: {}", error(steps));
    }
    let outer = error("split s.k by 4 -> o, i; reorder s: i, o; tensorize s.i to dot4");
    assert!(outer.contains("innermost") || outer.contains("coarser"), "{outer}");
}

#[test]
fn what_is_no_product_of_matrices_is_refused() {
    for steps in ["tensorize s.k to mma16", "split s.k by 8 -> o, i; tensorize s.i to mma16", "tensorize s.n to mma16"]
    {
        let error = apply(&tiled(), &steps.parse().expect("it parses")).expect_err(steps).to_string();
        assert!(error.contains("mma16 takes the 16 turns of a split-off reduction loop"), "{steps}: {error}");
    }
    // An instruction has an order of its own.
    let steps = "split s.k by 16 -> o, i; reorder s: o, m, n, i; tensorize s.i to mma16".parse().expect("it parses");
    apply(&tiled(), &steps).expect("plain loops compute it");
    let error = apply_within(&tiled(), &steps, ErrorClass::Exact).expect_err("not in order").to_string();
    assert!(error.contains("summed by an instruction"), "{error}");
}
