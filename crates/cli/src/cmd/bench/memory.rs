//! The most memory this process has held, the mapped pack's touched pages included.

/// Bytes; none where the system does not tell.
pub fn peak_bytes() -> Option<u64> {
    // What `getrusage` says on Linux may be a parent's.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    high_water(&status).or_else(usage)
}

/// `VmHWM:   123456 kB`.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kilobytes)
}

#[cfg(unix)]
fn usage() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let most = u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok()?;
    // Bytes on Apple's systems, kilobytes elsewhere.
    Some(if cfg!(target_vendor = "apple") { most } else { 1024 * most })
}

#[cfg(not(unix))]
fn usage() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_in_kilobytes() {
        assert_eq!(high_water("VmPeak:\t  99 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 5 kB\n"), Some(1_263_616));
        assert_eq!(high_water("VmHWM: much"), None);
        assert_eq!(high_water(""), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_process_holds_some_memory() {
        assert!(peak_bytes().unwrap() > 1 << 20 && usage().unwrap() > 1 << 20);
    }
}
