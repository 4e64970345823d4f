//! What costs the product of two sizes as a kernel, and far less where elements can be moved around.

use crate::build::Result;
use crate::call::Call;
use crate::error::Problem;
use infc_ir::index::Dim;

/// Steps that a kernel takes in some ten milliseconds. The host needs longer for a list of 16,384 than for a step, but is
/// the faster one beyond.
const MAX_STEPS: i64 = 1 << 28;

/// Fails if a kernel takes more steps than it should whatever the sizes turn out to be, which are factors of their
/// number, and the host can do without.
pub(super) fn require_bearable<'d>(
    call: &Call<'_>,
    what: &'static str,
    sizes: impl Iterator<Item = &'d Dim>,
) -> Result<()> {
    if !call.build.may_use_host {
        return Ok(());
    }
    let ranges = call.build.ranges();
    let least = |dim: &Dim| ranges.interval(dim).min.unwrap_or(0).max(0);
    let work = sizes.fold(1i64, |work, dim| work.saturating_mul(least(dim)));
    if work > MAX_STEPS {
        return Err(Problem::TooMuchWork { what, work, limit: MAX_STEPS });
    }
    Ok(())
}
