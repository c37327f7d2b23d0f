//! What this machine is and how fast it reads: for `doctor`.

use std::hint::black_box;
use std::time::Instant;

use rawloop_cpu::kernels::Kernels;
use serde_json::{Value, json};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// Bytes a thread reads at once; the same as in decoding.
const PART: usize = 128 * 1024;
/// Passes over the memory; the best counts, because other programs can only slow one down.
const PASSES: usize = 6;

/// Processor and memory.
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Threads that this process may use; affinity and quota count.
    pub threads: usize,
    /// Instruction sets that matter here, and whether they are there.
    pub features: Vec<(&'static str, bool)>,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that can be had without swapping.
    pub available: u64,
    /// What the control group allows, where there is one.
    pub group: Group,
}

/// Limits of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// Processors.
    pub processors: Option<f64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

impl Machine {
    /// Looks around.
    pub fn look() -> Machine {
        let kinds = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        // Where a system does not tell, 0 bytes say so.
        let system = System::new_with_specifics(kinds).ok();
        let brand = system.as_ref().and_then(|system| Some(system.cpus().first()?.brand().trim().to_owned()));
        let brand = brand.filter(|name| !name.is_empty());
        Machine {
            cpu: brand.unwrap_or_else(|| "unknown processor".into()),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
            memory: system.as_ref().map_or(0, System::total_memory),
            available: system.as_ref().map_or(0, System::available_memory),
            group: Group::of_this_process(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let features: Vec<&str> = self.features.iter().filter(|f| f.1).map(|f| f.0).collect();
        json!({
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "cpu": self.cpu,
            "threads": self.threads,
            "features": features,
            "memory_bytes": self.memory,
            "available_bytes": self.available,
            "group_processors": self.group.processors,
            "group_memory_bytes": self.group.memory,
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<(&'static str, bool)> {
    use std::arch::is_x86_feature_detected as has;
    vec![
        ("avx2", has!("avx2")),
        ("fma", has!("fma")),
        ("f16c", has!("f16c")),
        ("avxvnni", has!("avxvnni")),
        ("avx512f", has!("avx512f")),
        ("avx512bw", has!("avx512bw")),
        ("avx512vl", has!("avx512vl")),
        ("avx512vnni", has!("avx512vnni")),
    ]
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<(&'static str, bool)> {
    use std::arch::is_aarch64_feature_detected as has;
    vec![
        ("neon", has!("neon")),
        ("dotprod", has!("dotprod")),
        ("i8mm", has!("i8mm")),
        ("fp16", has!("fp16")),
        ("sve", has!("sve")),
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<(&'static str, bool)> {
    Vec::new()
}

impl Group {
    /// The tightest limits on the way from this process's group to the root. Nothing where there are no such groups.
    fn of_this_process() -> Group {
        let Ok(groups) = std::fs::read_to_string("/proc/self/cgroup") else { return Group::default() };
        let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
            return Group::default();
        };
        let mut folder = std::path::PathBuf::from("/sys/fs/cgroup");
        let mut limits = Group::default();
        limits.tighten(&folder);
        for part in path.split('/').filter(|part| !part.is_empty() && *part != "..") {
            folder.push(part);
            limits.tighten(&folder);
        }
        limits
    }

    fn tighten(&mut self, folder: &std::path::Path) {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        if let Some(memory) = memory_limit(&read("memory.max")) {
            self.memory = Some(self.memory.map_or(memory, |tightest| tightest.min(memory)));
        }
        if let Some(processors) = processor_limit(&read("cpu.max")) {
            self.processors = Some(self.processors.map_or(processors, |tightest| tightest.min(processors)));
        }
    }
}

fn memory_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `QUOTA PERIOD`, in microseconds; `max` is no limit.
fn processor_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// Bytes per second that `threads` threads read together from memory that no cache holds.
pub fn read_bandwidth(memory: &[u8], threads: usize) -> f64 {
    let kernels = Kernels::detect();
    let share = memory.len() / threads;
    let mut best = 0f64;
    for _ in 0..PASSES {
        let started = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let own = &memory[thread * share..(thread + 1) * share];
                scope.spawn(move || {
                    for part in own.chunks(PART) {
                        black_box(kernels.read(part));
                    }
                });
            }
        });
        best = best.max((share * threads) as f64 / started.elapsed().as_secs_f64());
    }
    best
}

/// Memory to read from: larger than any cache, smaller than what is left.
pub fn memory_to_read(available: u64) -> Vec<u8> {
    let bytes = (available / 8).clamp(64 << 20, 512 << 20) as usize;
    // Not zeros: those would be one page that every address shares.
    let mut memory = vec![1u8; bytes];
    memory[bytes / 2] = 2;
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_control_groups_are_read() {
        assert_eq!(memory_limit("max\n"), None);
        assert_eq!(memory_limit("1073741824\n"), Some(1 << 30));
        assert_eq!(processor_limit("max 100000\n"), None);
        assert_eq!(processor_limit("150000 100000\n"), Some(1.5));
        assert_eq!(processor_limit(""), None);
    }

    #[test]
    fn a_machine_has_threads_and_memory() {
        let machine = Machine::look();
        assert!(machine.threads > 0 && machine.memory > 0 && machine.available <= machine.memory);
        assert!(read_bandwidth(&vec![1; 1 << 20], 2) > 0.0);
    }
}
