//! Axes of which only the run tells how long they are.

use crate::support::{MACHINES, run_by, run_scheduled};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_ir::verify::verify_kernel;
use infc_passes::ErrorClass;
use infc_passes::formulate::normalise;
use infc_passes::schedule::{apply, choose};
use infc_testkit::{assert_same, random_inputs};

/// A range may say that there is never a whole tile.
#[test]
fn symbolic_axes_shorter_than_a_tile() {
    let text = "kernel @sums(x: f32[7, N]) -> (y: f32[N]) where N in 1..=12 {
      stage s[n: N, reduce k: 7] = fold sum x[k, n]
      stage o[n] = s[n] * 2
      output y[n] = o[n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for symbols in [[1], [8], [9], [12]] {
        let inputs = random_inputs(&kernel, &symbols, 3);
        let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
        for (name, machine) in &MACHINES {
            let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &symbols, &inputs);
            assert_same(&format!("{symbols:?} on {name}"), &found, &expected);
        }
    }
}

/// What is computed of long sums is not computed in vectors of rows of unknown number, as the sums of rows that do not exist
/// would be computed for it, from memory that may not exist either.
#[test]
fn sums_of_rows_that_do_not_exist_are_not_computed() {
    for (points, in_vectors) in [(8400, false), (64, true)] {
        let text = format!(
            "kernel @counts(x: i64[N, {points}], w: i64[N]) -> (y: i64[N]) where N in 0..=1000000 {{
              stage s[n: N, reduce r: {points}] = fold sum select(x[n, r] >= w[n], i32(1), i32(0))
              stage o[n] =
                let v0 = w[n] ^ -9223372036854775808;
                let v1 = (v0 & -v0) >> 1 & 9223372036854775807;
                select(s[n] >= 100, v0 + v1, v0 - v1)
              output y[n] = o[n]
            }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Reassociating).to_string();
        assert_eq!(schedule.contains("vectorize o.n"), in_vectors, "{points}: {schedule}");
        for symbols in [[1], [9]] {
            let inputs = random_inputs(&kernel, &symbols, 3);
            let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
            let found = run_scheduled(&kernel, &MACHINES[2].1, ErrorClass::Reassociating, &symbols, &inputs);
            assert_same(&format!("{points} of {symbols:?}"), &found, &expected);
        }
    }
}

/// With one image, tiles of images would be remainders of one row.
#[test]
fn a_batch_of_unknown_size_gives_no_rows() {
    let text = "kernel @dense(x: f32[N, 50, 40], const w: f32[40, 16]) -> (y: f32[N, 50, 16]) where N in 0..=1000000 {
      stage s[n: N, m: 50, c: 16, reduce k: 40] = fold sum x[n, m, k] * w[k, c]
      stage o[n, m, c] = s[n, m, c] * 0.5
      output y[n, m, c] = o[n, m, c]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(!schedule.contains("s.n by") && schedule.contains("split s.m by"), "{name}: {schedule}");
    }
    // A sequence is long, so that few rows of known number beside it are not what a tile is made of.
    let heads = "kernel @heads(x: f32[N, T, 40], const w: f32[12, 40, 32]) -> (y: f32[N, 12, T, 32])
        where N in 0..=1000000, T in 0..=1000000 {
      stage s[n: N, h: 12, t: T, c: 32, reduce k: 40] = fold sum x[n, t, k] * w[h, k, c]
      stage o[n, h, t, c] = s[n, h, t, c] * 0.5
      output y[n, h, t, c] = o[n, h, t, c]
    }";
    let kernel: Kernel = heads.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("split s.t by") && !schedule.contains("split s.n by"), "{name}: {schedule}");
    }
    // The batch is the one that the model names first, wherever it stands: time comes first in recurrent networks.
    let steps = "kernel @steps(x: f32[T, N, 40], const w: f32[40, 64]) -> (y: f32[T, N, 64])
        where N in 0..=1000000, T in 0..=1000000 {
      stage s[t: T, n: N, c: 64, reduce k: 40] = fold sum x[t, n, k] * w[k, c]
      stage o[t, n, c] = s[t, n, c] * 0.5
      output y[t, n, c] = o[t, n, c]
    }";
    let kernel: Kernel = steps.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("split s.t by") && !schedule.contains("split s.n by"), "{name}: {schedule}");
    }
    // Where it is all there is, it is taken.
    let rows = text.replace("N, 50, ", "N, 1, ").replace("m: 50", "m: 1");
    let kernel: Kernel = rows.parse().unwrap_or_else(|e| panic!("{e}"));
    let schedule = choose(&kernel, &MACHINES[1].1, ErrorClass::Exact).to_string();
    assert!(schedule.contains("split s.n by"), "{schedule}");
    // One row has vectors enough beside each other to hide what a multiply-add takes.
    let text = "kernel @dense(x: f32[N, 256], const w: f32[256, 512]) -> (y: f32[N, 512]) where N in 0..=1000000 {
      stage s[n: N, c: 512, reduce k: 256] = fold sum x[n, k] * w[k, c]
      stage o[n, c] = s[n, c] * 0.5
      output y[n, c] = o[n, c]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let (name, machine) = MACHINES.iter().find(|(name, _)| name.starts_with("512")).expect("AVX-512");
    let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
    let vectors = [4, 6, 8].iter().any(|n| schedule.contains(&format!("split s.c by {} -> c_o, c_u", 16 * n)));
    assert!(vectors && schedule.contains("split s.n by"), "{name}: {schedule}");
}

/// A batch of unknown size is mostly one, which is no chunks for several threads.
#[test]
fn threads_share_more_than_a_batch_of_unknown_size() {
    let text = "kernel @image(x: f32[N, 56, 56, 64], const w: f32[64, 64]) -> (y: f32[N, 56, 56, 64])
        where N in 0..=1000000 {
      stage s[n: N, p: 56, q: 56, c: 64, reduce k: 64] = fold sum x[n, p, q, k] * w[k, c]
      stage o[n, p, q, c] = s[n, p, q, c] * 0.5
      output y[n, p, q, c] = o[n, p, q, c]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating).to_string();
        let (_, shared) = schedule.split_once("parallel o: ").unwrap_or_else(|| panic!("{name}: {schedule}"));
        assert!(shared.starts_with("n, p"), "{name}: {schedule}");
    }
}

/// No load of an image with a halo is tested, whatever the image's size: full tiles, rows left over, and masked lanes.
#[test]
fn images_of_any_size_are_read_without_tests() {
    let (_, kernel) = infc_testkit::kernels().into_iter().find(|(n, _)| n.contains("any_size")).expect("a kernel file");
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{name}: {e}")).to_string();
        let tested = nest.lines().filter(|line| line.contains("x[") && line.contains(" if "));
        assert_eq!(tested.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}: {nest}");
    }
}

/// Rows and columns of an image are counted as one, so that narrow images leave no rows of tiles over; what windows read around
/// their points is read without tests then, too.
#[test]
fn rows_and_columns_of_an_image_of_any_size_are_counted_as_one() {
    let halo = |before: i64, after: i64| format!("halo [0:0, 0:0, {before}:{after}, {before}:{after}]");
    for (stride, rows, columns) in [(1, "H", "W"), (2, "div(H + 1, 2)", "div(W + 1, 2)")] {
        let text = format!(
            "kernel @conv(x: f32[N, 40, H, W] layout(order [0, 2, 3, 1], {}), const w: f32[3, 3, 40, 48]) ->
                (y: f32[N, 48, {rows}, {columns}] layout(order [0, 2, 3, 1], {}))
                where N in 0..=1000000, H in 0..=1000000, W in 0..=1000000 {{
              stage s[n: N, h: {rows}, w: {columns}, c: 48, reduce i: 3, reduce j: 3, reduce k: 40] =
                fold sum (x[n, k, {stride}*h + i - 1, {stride}*w + j - 1]
                  if 0 <= {stride}*h + i - 1 < H and 0 <= {stride}*w + j - 1 < W else 0) * w[i, j, k, c]
              stage o[n, h, w, c] = max(s[n, h, w, c], 0)
              output y[n, c, h, w] = o[n, h, w, c]
            }}",
            halo(1, 1),
            halo(2, 2),
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        for (name, machine) in &MACHINES {
            let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
            assert!(schedule.to_string().contains("join s.h, w -> hw"), "{name}: {schedule}");
            let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{name}: {e}")).to_string();
            let tested = nest.lines().filter(|line| line.contains("x[") && line.contains(" if "));
            assert_eq!(tested.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}: {nest}");
        }
        for symbols in [[0, 3, 3], [1, 0, 5], [1, 5, 0], [1, 1, 1], [2, 3, 5], [1, 7, 8], [1, 9, 13]] {
            let inputs = random_inputs(&kernel, &symbols, 3);
            let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
            for (name, machine) in &MACHINES {
                let found = run_scheduled(&kernel, machine, ErrorClass::Reassociating, &symbols, &inputs);
                assert_same(&format!("stride {stride}, {symbols:?} on {name}"), &found, &expected);
            }
        }
    }
}

/// Windows of a stage that is computed for a remainder do not meet, so that a remainder of nothing would need a negative
/// number of points: nothing is computed then.
#[test]
fn nothing_is_computed_for_a_remainder_of_nothing() {
    let kernel: Kernel = "kernel @strided(x: f32[2 * N, 3]) -> (y: f32[N]) where N in 0..=100 {
           stage s[j: 2 * N, reduce k: 3] = fold sum x[j, k]
           stage o[i: N] = s[2*i] + 1
           output y[i] = o[i]
         }"
    .parse()
    .expect("well formed");
    let schedule: Schedule =
        "split o.i by 8 -> i_o, i_i; compute s at o.i_o; store s in scratch; split s.j by 4 -> j_o, j_i"
            .parse()
            .expect("well formed");
    for n in [0, 1, 7, 8, 9, 16, 21] {
        let inputs = infc_testkit::random_inputs(&kernel, &[n], 3);
        let expected = run_kernel(&kernel, &[n], &inputs).expect("small enough");
        let found = run_by(&kernel, &schedule, &[n], &inputs);
        infc_testkit::assert_same(&format!("{n} points"), &found, &expected);
    }
}

/// A batch and a sequence that lie behind each other are one axis of rows, whichever is which; what is read along one of them
/// alone keeps them apart.
#[test]
fn a_batch_and_its_sequences_are_rows_together() {
    let text = "kernel @steps(x: f32[T, N, 40], const w: f32[40, 24], z: f32[T, N, 24]) -> (y: f32[T, N, 24])
        where T in 0..=1000000, N in 0..=1000000 {
      stage s[t: T, n: N, c: 24, reduce k: 40] = fold sum x[t, n, k] * w[k, c]
      stage o[t, n, c] = max(s[t, n, c], 0) + z[t, n, c]
      output y[t, n, c] = o[t, n, c]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let joined = normalise(kernel.clone());
    assert!(joined.stages.iter().all(|stage| stage.value_axes().count() == 2), "{joined}");
    for (name, machine) in &MACHINES {
        let schedule = choose(&joined, machine, ErrorClass::Exact);
        assert!(schedule.to_string().contains("split s.tn by"), "{name}: {schedule}");
        let nest = apply(&joined, &schedule).unwrap_or_else(|e| panic!("{name}: {e}")).to_string();
        assert!(!nest.contains("div(tn") && !nest.contains("mod(tn"), "{name}: {nest}");
        for symbols in [[0, 5], [5, 0], [1, 1], [1, 17], [17, 1], [7, 3]] {
            let inputs = random_inputs(&kernel, &symbols, 3);
            let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
            let found = run_by(&joined, &schedule, &symbols, &inputs);
            assert_same(&format!("{symbols:?} on {name}"), &found, &expected);
        }
    }
    // A bias per sequence, and rows with something between them.
    for apart in [
        text.replace("z: f32[T, N, 24]", "z: f32[N, 24]").replace("z[t, n, c]", "z[n, c]"),
        text.replace("x: f32[T, N, 40]", "x: f32[T, N, 40] layout(halo [0:0, 1:1, 0:0])"),
    ] {
        let kernel: Kernel = apart.parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(normalise(kernel.clone()), kernel);
    }
    // What is known is joined first, and all in the end.
    let known: Kernel = "kernel @moved(x: f32[2, N, 8]) -> (y: f32[2, N, 8]) where N in 0..=1000000 {
      stage o[b: 2, n: N, c: 8] = x[b, n, c] * 2
      output y[b, n, c] = o[b, n, c]
    }"
    .parse()
    .expect("well formed");
    assert!(normalise(known).to_string().contains("bnc: 16*N"));
}

/// Both axes of what is read are one axis of the reader, on a diagonal: they stay two.
#[test]
fn a_diagonal_of_a_stage_is_not_joined() {
    let text = "kernel @largest_of_diagonal(x: f32[N, N]) -> (y: f32[N]) where N in 1..=64 {
      stage squares[a: N, b: N] = x[a, b] * x[a, b]
      stage s[m: N, reduce n: N] = fold max squares[n, n]
      stage o[m: N] = s[m] + x[m, 0]
      output y[m] = o[m]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let joined = normalise(kernel.clone());
    for n in [1, 2, 7] {
        let inputs = random_inputs(&kernel, &[n], 3);
        let expected = run_kernel(&kernel, &[n], &inputs).expect("it runs");
        let found = run_kernel(&joined, &[n], &inputs).expect("it runs");
        assert_same(&format!("{n} rows"), &found, &expected);
    }
}

/// A condition that zeros around one axis make unnecessary may be what keeps another axis, without zeros, within the memory.
#[test]
fn a_diagonal_of_an_operand_with_a_halo() {
    let one = "kernel @diagonal(x: f32[N, 3, N] layout(halo [0:0, 2:2, 1:1])) -> (y: f32[N + 1]) where N in 1..=4 {
      stage o[a: N + 1] = x[a, a, a] if 0 <= a < N and 0 <= a < 3 and 0 <= a < N else 0
      output y[a] = o[a]
    }";
    // Either condition would do, but not neither.
    let either = "kernel @diagonal(x: f32[5, 3, 4] layout(halo [0:0, 0:3, 0:2])) -> (y: f32[6]) where N in 1..=4 {
      stage o[a: 6] = x[a, a, a] if 0 <= a < 3 and 0 <= a < 4 else 0
      output y[a] = o[a]
    }";
    for (text, (name, machine)) in [one, either].into_iter().flat_map(|text| MACHINES.iter().map(move |m| (text, m))) {
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let schedule = choose(&kernel, machine, ErrorClass::Exact);
        for n in 1..=4 {
            let inputs = random_inputs(&kernel, &[n], 3);
            let expected = run_kernel(&kernel, &[n], &inputs).expect("it runs");
            let found = run_by(&kernel, &schedule, &[n], &inputs);
            assert_same(&format!("{n} on {name}"), &found, &expected);
        }
    }
}

/// An extent that is 0 whenever its symbol makes sense: nothing may divide by it.
#[test]
fn extents_that_are_never_positive() {
    for [b, t, c] in [["N - 1", "6", "4"], ["4", "N - 1", "6"], ["4", "6", "N - 1"], ["4", "N - 1", "N"]] {
        let pools = format!(
            "kernel @pool(x: f32[{b}, {t}, {c}, 3]) -> (y: f32[{b}, {t}, {c}]) where N in 0..=1 {{
              stage s[b: {b}, t: {t}, c: {c}, reduce k: 3] = fold max x[b, t, c, k]
              stage o[b, t, c] = s[b, t, c] * 2
              output y[b, t, c] = o[b, t, c]
            }}"
        );
        let summed = format!(
            "kernel @sums(x: f32[7, {b}, {t}, {c}]) -> (y: f32[7]) where N in 0..=1 {{
              stage s[r: 7, reduce b: {b}, reduce t: {t}, reduce c: {c}] = fold sum x[r, b, t, c]
              stage o[r] = s[r] + 1
              output y[r] = o[r]
            }}"
        );
        for text in [pools, summed] {
            let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
            let formulated = normalise(kernel.clone());
            verify_kernel(&formulated).unwrap_or_else(|e| panic!("{e}\n{formulated}"));
            let inputs = random_inputs(&kernel, &[1], 3);
            let expected = run_kernel(&kernel, &[1], &inputs).expect("it runs");
            for (name, machine) in &MACHINES {
                let found = run_scheduled(&formulated, machine, ErrorClass::Reassociating, &[1], &inputs);
                assert_same(&format!("{} on {name}", kernel.name), &found, &expected);
            }
        }
    }
}
