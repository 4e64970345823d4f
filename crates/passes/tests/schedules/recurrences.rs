//! Steps of recurrences that threads share.

use super::support::MACHINES;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, choose};

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
