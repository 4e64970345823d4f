//! How long a run takes if nothing gets in its way.

use crate::failure::Failure;
use infc_runtime::{Model, RunOptions, SessionOptions, TensorView};
use infc_tensor::Tensor;
use std::time::{Duration, Instant};

/// A model is run again and again for so long, and so often at least.
const DURATION: Duration = Duration::from_millis(60);
const MIN_RUNS: usize = 4;

/// Seconds of the quickest of many runs: whatever else the machine does only makes a run slower. Of a model that a GPU runs, what
/// the GPU takes by its own clock.
pub(crate) fn run_seconds(model: &Model, inputs: &[Tensor]) -> Result<f64, Failure> {
    let mut session = model.session(&SessionOptions { device_time: true, ..SessionOptions::default() })?;
    let views: Vec<TensorView<'_>> = inputs.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
    let mut quickest = Duration::MAX;
    let begun = Instant::now();
    let mut runs = 0;
    while runs < MIN_RUNS || begun.elapsed() < DURATION {
        let begun = Instant::now();
        session.run_in_session(&views, &RunOptions::default())?;
        quickest = quickest.min(session.device_time().unwrap_or_else(|| begun.elapsed()));
        runs += 1;
    }
    Ok(quickest.as_secs_f64())
}
