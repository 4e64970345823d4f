//! What this process knows of itself: when it started, how much memory it has used, on what machine it runs.

use infc_tune::MachineKind;
use std::time::{Duration, Instant};

/// When the process started, as well as can be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    main: Instant,
    /// What the process had spent, running or waiting for a processor, before `main`.
    before_main: Duration,
}

impl Start {
    /// To be called first thing in `main`.
    pub(crate) fn now() -> Self {
        let main = Instant::now();
        Self { main, before_main: scheduled_so_far().unwrap_or_default() }
    }

    /// Since the process was started: loading of the executable included where the system tells (Linux).
    pub(crate) fn elapsed(self) -> Duration {
        self.main.elapsed() + self.before_main
    }
}

/// Time on a processor plus time waiting for one, which the kernel counts in nanoseconds (the start time that
/// `/proc/self/stat` has is in hundredths of a second).
fn scheduled_so_far() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (running, waiting) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(Duration::from_nanos(running.saturating_add(waiting)))
}

/// The largest resident set so far (`VmHWM`) in MiB; `None` where the system does not tell.
pub(crate) fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// The processor's name and how many of them this process may use: `AMD EPYC 9454, 2 processors`.
pub(crate) fn machine() -> String {
    let name = processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let usable = cores();
    format!("{name}, {usable} {}", if usable == 1 { "processor" } else { "processors" })
}

/// How many processors this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor and its caches, as records name where they were measured: `AMD EPYC, L1 32 KiB, L2 1024 KiB, L3 32768 KiB`.
/// Virtual machines give processors of many kinds one name, so caches are part of it.
pub(crate) fn processor() -> String {
    let name = processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let caches = data_caches().into_iter().map(|(level, bytes)| format!(", L{level} {} KiB", bytes >> 10));
    std::iter::once(name).chain(caches).collect()
}

/// Level and size in bytes of each cache of data of the first processor, as Linux tells; empty where nobody does.
pub(crate) fn data_caches() -> Vec<(u32, u64)> {
    let cache = |index: u32| {
        let read = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let (level, kind, size) = (read("level")?, read("type")?, read("size")?);
        let bytes = size.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1 << 10)?;
        Some((kind != "Instruction").then_some((level.parse().ok()?, bytes)))
    };
    (0..).map_while(cache).flatten().collect()
}

/// The design of this machine's processor, which records that ship with infc go by; `None` of others than x86.
pub(crate) fn machine_kind() -> Option<MachineKind> {
    #[cfg(target_arch = "x86_64")]
    {
        let (vendor, signature) = (std::arch::x86_64::__cpuid(0), std::arch::x86_64::__cpuid(1).eax);
        let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat();
        Some(MachineKind::of_signature(String::from_utf8_lossy(&vendor).trim(), signature))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        None
    }
}

fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_starts_before_main() {
        let start = Start::now();
        assert!(start.elapsed() >= start.before_main);
        #[cfg(target_os = "linux")]
        assert!(start.before_main > Duration::ZERO);
    }

    /// As Linux reads the same.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn the_kind_is_that_of_cpuinfo() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let field = |name: &str| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(field, _)| field.trim() == name).unwrap().1.trim()
        };
        let kind = machine_kind().unwrap();
        assert_eq!(kind.vendor, field("vendor_id"));
        assert_eq!(
            (kind.family.to_string(), kind.model.to_string()),
            (field("cpu family").to_owned(), field("model").to_owned())
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_test_process_uses_some_memory() {
        let peak = peak_rss_mb().unwrap();
        assert!(peak > 0.5 && peak < 1e6, "{peak}");
    }
}
