//! Steps of recurrences that threads share.

use super::support::{MACHINES, run_scheduled};
use infc_ir::entity::VarId;
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::nest::Stmt;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, choose};
use infc_testkit::{assert_close, random_inputs};

/// Where a step of a recurrence is enough work, its units are chunks that wait for the steps before; what is computed for a
/// unit is computed in its chunk, of the gates that lie behind each other too.
#[test]
fn recurrences_share_steps() {
    let kernel = infc_testkit::kernels().into_iter().find(|(name, _)| name.contains("lstm_gates"));
    let (_, kernel) = kernel.expect("a kernel file");
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        let text = schedule.to_string();
        assert!(text.starts_with("part \"sum\".g by 128") || text.starts_with("part sum.g by 128"), "{name}: {text}");
        assert!(text.contains("compute \"sum\" at o.u_") || text.contains("compute sum at o.u_"), "{name}: {text}");
        assert!(text.contains("parallel o: t, u_"), "{name}: {text}");
        let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{name}: {e}"));
        let steps = nest.parallel.and_then(|parallel| parallel.step_chunks);
        assert_eq!(steps, Some(8.into()), "{name}");
    }
}

/// A recurrence of so many units and gates, whose weights have the gates of 16 units side by side.
fn gated(units: usize, gates: usize) -> Kernel {
    let columns = units * gates;
    let sums: Vec<String> = (0..gates).map(|gate| format!("sum[t, u + {}]", gate * units)).collect();
    let text = format!(
        "kernel @gated(x: f32[4, {units}], const w: f32[{}, {units}, {gates}, 16]) -> (y: f32[4, {units}]) {{
           stage h[seq t: 4, k: {units}] = select(inbounds(1 <= t < 4), o[t - 1, k] if 1 <= t < 4 else 0, 0)
           stage sum[seq t, n: {columns}, reduce k: {units}] =
             fold sum h[t, k] * w[div(mod(n, {units}), 16), k, div(n, {units}), mod(mod(n, {units}), 16)]
           stage o[seq t, u: {units}]: f32 = tanh({}) + x[t, u]
           output y[t, u] = o[t, u]
         }}",
        units / 16,
        sums.join(" + "),
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// The gates of a unit are summed together where they lie together: a tile of some of them would leave lines to others that are
/// fetched with its own.
#[test]
fn gates_that_lie_together_are_summed_together() {
    let kernel = gated(256, 4);
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        assert!(schedule.to_string().contains("unroll sum.n_g;"), "{name}: {schedule}");
    }
}

/// A step with little work has fewer chunks, so that each has sums enough for a tile.
#[test]
fn small_steps_have_few_chunks() {
    let chunks = |gates: usize| {
        let kernel = gated(256, gates);
        let nest = apply(&kernel, &choose(&kernel, &MACHINES[2].1, ErrorClass::Reassociating)).expect("it applies");
        nest.parallel.and_then(|parallel| parallel.step_chunks)
    };
    assert_eq!((chunks(1), chunks(4)), (Some(4.into()), Some(8.into())));
}

/// Odd steps go through their chunks backwards.
#[test]
fn steps_go_forth_and_back() {
    let kernel = gated(256, 4);
    let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Reassociating);
    let nest = apply(&kernel, &schedule).expect("it applies");
    let parallel = nest.parallel.as_ref().expect("chunks");
    let [Stmt::Let { var: step, value: of_chunk }, Stmt::Let { value: place, .. }, ..] = &nest.body[..] else {
        panic!("{nest}")
    };
    let found: Vec<i64> = (0..32)
        .map(|chunk| {
            let known = |at: &[(VarId, i64)], e: &IndexExpr| {
                let value = |atom: &Atom| match atom {
                    Atom::Var(var) => at.iter().find(|(v, _)| v == var).map(|&(_, n)| IndexExpr::constant(n)),
                    _ => None,
                };
                e.substitute(&value).as_const().expect("all are known")
            };
            let t = known(&[(parallel.var, chunk)], of_chunk);
            known(&[(parallel.var, chunk), (*step, t)], place)
        })
        .collect();
    let forth: Vec<i64> = (0..8).collect();
    let back: Vec<i64> = (0..8).rev().collect();
    assert_eq!(found, [&forth[..], &back, &forth, &back].concat(), "{nest}");
}

/// What a step keeps in bytes or halves lies in memory in groups, so that products take several at a time.
#[test]
fn steps_multiply_in_groups() {
    let kernel = infc_testkit::kernels().into_iter().find(|(name, _)| name.contains("byte_steps"));
    let (_, kernel) = kernel.expect("a kernel file");
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating).to_string();
        assert!(schedule.contains("to dot4"), "{name}: {schedule}");
    }
}

/// What is read at other steps has to be in outputs, and a step cannot be shared where sums need all of it.
#[test]
fn recurrences_that_cannot_share_steps() {
    let chain = |outputs: &str, read: &[&str]| -> Kernel {
        let read: Vec<String> = read.iter().map(|s| format!("({s}[t - 1, k] if 1 <= t < 4 else 0)")).collect();
        let read = read.join(" + ");
        let text = format!(
            "kernel @chain(x: f32[4, 256], const w: f32[256, 256]) -> (y: f32[4, 256]) {{
               stage h[seq t: 4, k: 256] = select(inbounds(1 <= t < 4), {read}, 0)
               stage sum[seq t, n: 256, reduce k: 256] = fold sum h[t, k] * w[k, n]
               stage all[seq t, n]: f32 = tanh(sum[t, n])
               stage next[seq t, n, reduce k: 256] = fold sum all[t, k] * w[k, n]
               stage o[seq t, n]: f32 = {outputs} + x[t, n]
               output y[t, n] = o[t, n]
             }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    };
    for (name, machine) in &MACHINES {
        // The second sum needs the first one of all units.
        let schedule = choose(&chain("next[t, n]", &["o"]), machine, ErrorClass::Reassociating);
        assert!(!schedule.to_string().contains("parallel"), "{name}: {schedule}");
        // `all` is read a step later, and is no output.
        let kernel = chain("all[t, n]", &["all", "o"]);
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        assert!(!schedule.to_string().contains("parallel"), "{name}: {schedule}");
        let mut forced = schedule;
        forced.steps.push(infc_ir::schedule::Step::Parallel { stage: "o".to_owned(), axes: vec!["t".to_owned()] });
        let error = apply(&kernel, &forced).expect_err("not in memory of all threads").to_string();
        assert!(error.contains("`all`") && error.contains("other steps"), "{error}");
    }
}

/// What a step gives besides a state is computed where the state has no elements, too.
#[test]
fn outputs_beside_a_state_without_elements() {
    for (extent, place, symbols) in
        [("C", "0", " where C in 0..=1"), ("C", "n", " where C in 0..=40"), ("0", "n", ""), ("1", "n", "")]
    {
        let at = if place == "n" { "d0" } else { "0" };
        let text = format!(
            "kernel @k8(x0: f32[], x1: f32[{extent}], const w0: f32[2]) -> (y0: f32[2], y1: f32[2, {extent}]){symbols} {{
  stage state0[seq t: 2, d0: {extent}] = select(inbounds(1 <= t < 2), out1[t - 1, {at}] if 1 <= t < 2 else 0, x1[{at}])
  stage sum[seq t, reduce d0: {extent}] = fold sum state0[t, d0]
  stage out0[seq t] = w0[t] + x0[] + sum[t]
  stage out1[seq t, n: {extent}]: f32 = state0[t, {place}] + (w0[t] + x0[])
  output y0[t] = out0[t]
  output y1[t, {place}] = out1[t, n]
}}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let counts: &[i64] = if symbols.contains("40") { &[0, 1, 7, 40] } else { &[0, 1] };
        for (name, machine) in MACHINES {
            for &count in counts {
                let symbols = if symbols.is_empty() { vec![] } else { vec![count] };
                let inputs = random_inputs(&kernel, &symbols, 3);
                let expected = run_kernel(&kernel, &symbols, &inputs).expect("interpreted");
                let found = run_scheduled(&kernel, &machine, ErrorClass::Reassociating, &symbols, &inputs);
                assert_close(&format!("{name}, {extent} = {count}"), &found, &expected, 1e-6, 1e-6);
            }
        }
    }
}
