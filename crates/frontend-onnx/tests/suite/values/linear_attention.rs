//! What carries a state of fixed size.

use super::{Case, floats, floats_from, halves};

#[test]
fn linear_attention_of_every_rule() {
    // Batch 2, 3 positions, 2 heads of keys, sizes 4 and 5.
    for (rule, gated, corrected) in
        [("linear", false, false), ("gated", true, false), ("delta", false, true), ("gated_delta", true, true)]
    {
        for (q_heads, past, decay, beta) in [(2, true, 8, 2), (4, false, 2, 1)] {
            let mut case = Case::new("LinearAttention", 27)
                .data(floats(&[2, 3, q_heads * 4]))
                .data(floats_from(&[2, 3, 8], -0.6, 0.6))
                .data(floats(&[2, 3, 10]))
                .int("q_num_heads", q_heads as i64)
                .int("kv_num_heads", 2)
                .text("update_rule", rule)
                .outputs(2);
            case = if past { case.data(floats(&[2, 2, 4, 5])) } else { case.absent() };
            case = if gated { case.data(floats_from(&[2, 3, decay], -1.0, 0.0)) } else { case.absent() };
            case = if corrected { case.data(floats_from(&[2, 3, beta], 0.0, 1.0)) } else { case };
            case.dynamic(&[0]).agrees();
        }
    }
}

#[test]
fn linear_attention_of_one_position_and_of_halves() {
    let case = |steps: usize| {
        Case::new("LinearAttention", 27)
            .data(halves(&[1, steps, 4]))
            .data(halves(&[1, steps, 4]))
            .data(halves(&[1, steps, 6]))
            .int("q_num_heads", 2)
            .int("kv_num_heads", 2)
            .float("scale", 0.5)
            .text("update_rule", "linear")
            .outputs(2)
            .tolerance(4e-3)
    };
    case(1).agrees();
    case(3).agrees();
}

#[test]
fn convolutions_over_what_came_before() {
    for (kernel, length) in [(4, 6), (3, 1), (1, 5), (4, 2)] {
        for (bias, past, activation) in [(false, false, "none"), (true, true, "silu"), (false, true, "swish")] {
            let mut case = Case::new("CausalConvWithState", 27)
                .data(floats(&[2, 3, length]))
                .constant(floats(&[3, 1, kernel]))
                .text("activation", activation)
                .outputs(2);
            case = if bias { case.constant(floats(&[3])) } else { case.absent() };
            if past {
                case = case.data(floats(&[2, 3, kernel - 1]));
            }
            case.dynamic(&[0]).agrees();
        }
    }
}
