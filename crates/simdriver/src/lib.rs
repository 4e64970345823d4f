//! NVIDIA's driver, as far as the runtime calls it, with the simulator as its GPU: a library to be loaded in the place of
//! `libcuda.so.1`. So the calls of the runtime's driver are executed where there is no GPU.
//!
//! It is as unkind as a driver may be. What is asked of a stream happens when somebody waits for it and not before, so that
//! memory of the host that is used again, or gone, too early is noticed by what comes out. Calls without a context, handles
//! that nobody gave, launches of shared memory that was not asked for, and changes of nodes whose graph is gone are refused with
//! the driver's own numbers.
//!
//! - `exports` are the functions, by the names that `cuda.h` gives them.
//! - `driver` is what they do, on handles and addresses.
//!
//! Variables of the environment make the machine that it stands for: `SIMDRIVER_VERSION` (12080), `SIMDRIVER_DEVICES` (1),
//! `SIMDRIVER_EARLY` (graphs fail of which nothing begins early), `SIMDRIVER_SINGLE` (so many kernels may be started one by one),
//! `SIMDRIVER_MEMORY` (bytes), `SIMDRIVER_REFUSE` (whatever is loaded is refused), `SIMDRIVER_ALONE` (PTX of several kernels is
//! refused), `SIMDRIVER_FAILS_AT` (the launch of this number fails, and all that comes later), `SIMDRIVER_NO_SPLIT` (modules are
//! translated by one thread in spite of the version).

mod driver;
mod exports;
