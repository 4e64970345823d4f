//! Going through all points of some axes.

use super::{InterpError, MAX_POINTS};

/// Refuses negative extents and more points than anyone would wait for.
pub(super) fn check_points(name: &str, extents: &[i64]) -> Result<(), InterpError> {
    if extents.iter().any(|&e| e < 0) {
        return Err(InterpError::NegativeExtent { name: name.to_owned(), shape: extents.to_vec() });
    }
    if extents.contains(&0) {
        return Ok(());
    }
    let points = extents.iter().try_fold(1u64, |n, &e| n.checked_mul(e as u64));
    match points {
        Some(n) if n <= MAX_POINTS => Ok(()),
        _ => Err(InterpError::TooLarge { name: name.to_owned(), shape: extents.to_vec() }),
    }
}

/// Calls `f` with the variables `axes` (outermost first) going through their extents.
pub(super) fn for_each_point(
    axes: &[usize],
    extents: &[i64],
    vars: &mut [i64],
    f: &mut dyn FnMut(&mut [i64]) -> Result<(), InterpError>,
) -> Result<(), InterpError> {
    if axes.iter().any(|&axis| extents[axis] == 0) {
        return Ok(());
    }
    for &axis in axes {
        vars[axis] = 0;
    }
    'points: loop {
        f(vars)?;
        for &axis in axes.iter().rev() {
            vars[axis] += 1;
            if vars[axis] < extents[axis] {
                continue 'points;
            }
            vars[axis] = 0;
        }
        return Ok(());
    }
}
