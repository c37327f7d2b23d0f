//! Which CPUs this process may use, the big ones first.
//!
//! A team is as slow as its slowest member where work is handed out in stretches, and little cores take three to five times
//! as long for the same chunk. So without `--threads` a team has one thread for each big core that the process may use,
//! and no more than its quota pays for.
//!
//! What is read where, on Linux and Android:
//!
//! - The quota of cgroups (v1 and v2, every level up to the root, rounded down) and the number of allowed CPUs are what
//!   `std::thread::available_parallelism` reads; it is not done twice here. It does not know which CPUs are big.
//! - Which CPUs are allowed, by affinity or by a cpuset: `Cpus_allowed_list` of this thread's status.
//! - How big they are: `cpu_capacity` where the kernel gives it for all of them, else the highest frequency. On hybrid Intel
//!   CPUs of older kernels frequencies lie close together; the kernel lists the little ones as `cpu_atom`.
//!
//! A core below half the capacity of the biggest is little. Middle cores of phones are above that, and count. Elsewhere (macOS
//! tells big and little apart only through `sysctl`, Windows through a call of its own; neither is asked) all CPUs count as alike.

use std::fs;
use std::path::Path;

/// The CPUs that a process may use; see the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Biggest first; empty where the system does not say.
    cpus: Vec<usize>,
    /// How many of them are big.
    big: usize,
    /// CPUs' worth of time that the process may use.
    quota: usize,
}

impl Topology {
    /// What the system says about this process.
    pub fn detect() -> Topology {
        let quota = std::thread::available_parallelism().map_or(1, usize::from);
        Topology::read(Path::new("/"), quota)
    }

    /// Reads the files of the system mounted at `root`; `quota` is what `available_parallelism` gives.
    pub fn read(root: &Path, quota: usize) -> Topology {
        let allowed = fs::read_to_string(root.join("proc/thread-self/status"))
            .ok()
            .and_then(|status| {
                let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
                cpu_list(list)
            })
            .unwrap_or_default();
        let atoms = fs::read_to_string(root.join("sys/devices/cpu_atom/cpus"))
            .ok()
            .and_then(|list| cpu_list(&list))
            .unwrap_or_default();
        let capacities = capacities(root, &allowed, "cpu_capacity")
            .or_else(|| capacities(root, &allowed, "cpufreq/cpuinfo_max_freq"))
            .unwrap_or_else(|| vec![1; allowed.len()]);
        let largest = capacities.iter().copied().max().unwrap_or(0);
        let only_atoms = allowed.iter().all(|cpu| atoms.contains(cpu));
        let mut sorted: Vec<_> = allowed
            .into_iter()
            .zip(capacities)
            .map(|(cpu, capacity)| {
                let little = capacity < largest.div_ceil(2) || (atoms.contains(&cpu) && !only_atoms);
                (little, std::cmp::Reverse(capacity), cpu)
            })
            .collect();
        sorted.sort_unstable();
        let big = sorted.iter().filter(|(little, ..)| !little).count();
        Topology { cpus: sorted.into_iter().map(|(.., cpu)| cpu).collect(), big, quota }
    }

    /// Threads of a team where nothing else is asked for.
    pub fn threads(&self) -> usize {
        let big = if self.cpus.is_empty() { self.quota } else { self.big };
        big.min(self.quota).max(1)
    }

    /// The CPUs that the process may use, biggest first; empty where the system does not say.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }
}

/// The number in one file of each CPU, if all of them have it.
fn capacities(root: &Path, cpus: &[usize], file: &str) -> Option<Vec<u64>> {
    let of = |cpu: &usize| {
        let path = root.join(format!("sys/devices/system/cpu/cpu{cpu}/{file}"));
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    cpus.iter().map(of).collect()
}

/// CPUs of a list like `0-3,8,10-11`. None if it is not such a list, or names a CPU that no system has.
fn cpu_list(list: &str) -> Option<Vec<usize>> {
    const MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Keeps the calling thread on one CPU. False where the system refuses, or cannot.
pub fn pin(cpu: usize) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::thread::{CpuSet, sched_setaffinity};
        if cpu >= CpuSet::MAX_CPU {
            return false;
        }
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).is_ok()
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = cpu;
        false
    }
}
