//! Big cores first, on systems that are folders of files; and what this system says.

use std::fs;
use std::path::Path;

use rawloop_cpu::topology::Topology;
use tempfile::TempDir;

/// A system whose process may use `allowed`, with one file of each CPU, and other files.
fn system(allowed: &str, file: &str, values: &[u64], others: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "proc/thread-self/status",
        &format!("Name:\trawloop\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\n"),
    );
    for (cpu, value) in values.iter().enumerate() {
        write(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"), &format!("{value}\n"));
    }
    for (path, text) in others {
        write(path, text);
    }
    root
}

const PHONE: [u64; 8] = [270, 270, 270, 270, 760, 760, 760, 1024];

#[test]
fn big_and_middle_cores_of_a_phone_work_and_little_ones_do_not() {
    let root = system("0-7", "cpu_capacity", &PHONE, &[]);
    let topology = Topology::read(root.path(), 8);
    assert_eq!(topology.threads(), 4);
    assert_eq!(topology.cpus(), [7, 4, 5, 6, 0, 1, 2, 3]);
}

#[test]
fn a_cpuset_of_little_cores_has_them_all() {
    let root = system("0-2\n", "cpu_capacity", &PHONE, &[]);
    let topology = Topology::read(root.path(), 3);
    assert_eq!((topology.threads(), topology.cpus()), (3, &[0, 1, 2][..]));
}

#[test]
fn a_quota_below_the_number_of_cores_counts() {
    let root = system("0-7", "cpu_capacity", &[1024; 8], &[]);
    assert_eq!(Topology::read(root.path(), 3).threads(), 3);
    assert_eq!(Topology::read(root.path(), 0).threads(), 1);
}

#[test]
fn without_capacities_frequencies_tell() {
    let root = system("0,2-5", "cpufreq/cpuinfo_max_freq", &[1_800, 0, 4_000, 4_200, 4_000, 1_800], &[]);
    let topology = Topology::read(root.path(), 5);
    assert_eq!((topology.threads(), topology.cpus()), (3, &[3, 2, 4, 0, 5][..]));
}

#[test]
fn cores_that_the_kernel_lists_as_little_are_little() {
    let others = [("sys/devices/cpu_atom/cpus", "4-7\n"), ("sys/devices/cpu_core/cpus", "0-3\n")];
    let frequencies = [5_100, 5_100, 5_300, 5_300, 3_900, 3_900, 3_900, 3_900];
    let root = system("0-7", "cpufreq/cpuinfo_max_freq", &frequencies, &others);
    let topology = Topology::read(root.path(), 8);
    assert_eq!((topology.threads(), topology.cpus()), (4, &[2, 3, 0, 1, 4, 5, 6, 7][..]));
    // Where nothing else is allowed they are all there is.
    let root = system("4-5", "cpufreq/cpuinfo_max_freq", &frequencies, &others);
    assert_eq!(Topology::read(root.path(), 2).threads(), 2);
}

#[test]
fn one_core_that_does_not_say_makes_all_alike() {
    let root = system("0-3", "cpu_capacity", &[100, 1024, 1024], &[]);
    let topology = Topology::read(root.path(), 4);
    assert_eq!((topology.threads(), topology.cpus()), (4, &[0, 1, 2, 3][..]));
}

#[test]
fn a_system_that_says_nothing_or_nonsense_leaves_the_quota() {
    let empty = tempfile::tempdir().unwrap();
    let topology = Topology::read(empty.path(), 6);
    assert_eq!((topology.threads(), topology.cpus()), (6, &[][..]));
    assert_eq!(Topology::read(Path::new("/no/such/folder"), 2).threads(), 2);
    for nonsense in ["a-b", "0-99999999999999999999", "3-", "0-4294967295", ""] {
        let root = system(nonsense, "cpu_capacity", &[1024; 4], &[]);
        assert_eq!(Topology::read(root.path(), 5).threads(), 5, "{nonsense:?}");
    }
}

#[test]
fn this_system_has_at_least_one_thread_for_us() {
    let topology = Topology::detect();
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    assert!((1..=most).contains(&topology.threads()), "{topology:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_is_pinned_is_counted_as_one_core() {
    // A thread of its own: what it is pinned to ends with it.
    let pinned = std::thread::spawn(|| {
        let cpu = Topology::detect().cpus()[0];
        assert!(rawloop_cpu::topology::pin(cpu));
        (cpu, Topology::detect())
    });
    let (cpu, topology) = pinned.join().unwrap();
    assert_eq!((topology.threads(), topology.cpus()), (1, &[cpu][..]));
    assert!(!rawloop_cpu::topology::pin(usize::MAX));
}
