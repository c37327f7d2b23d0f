//! `rawloop doctor`: what this machine offers.

use rawloop_cpu::kernels::Kernels;
use serde_json::json;

use crate::args::DoctorArgs;
use crate::exit::Failure;
use crate::machine::{Machine, memory_to_read, read_bandwidth};

use super::{print, print_json};

/// Bytes that a token of Gemma 4 E2B reads, as `rawloop inspect` counts them.
const E2B_TOKEN: f64 = 796e6;

/// Looks, measures, prints.
pub fn run(args: DoctorArgs) -> Result<(), Failure> {
    let machine = Machine::look();
    let chosen = Kernels::detect().name();
    let tables: Vec<&str> = Kernels::available().iter().map(|table| table.name()).collect();
    let bandwidth = (!args.no_measure).then(|| {
        let memory = memory_to_read(machine.available);
        (read_bandwidth(&memory, 1), read_bandwidth(&memory, machine.threads))
    });
    let cuda = rawloop_cuda::report();
    if args.json {
        return print_json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine.json(),
            "kernels": { "chosen": chosen, "available": tables },
            "cuda": match &cuda {
                Ok(device) => json!({
                    "name": device.name,
                    "capability": format!("{}.{}", device.capability.0, device.capability.1),
                    "multiprocessors": device.multiprocessors,
                    "memory": device.memory,
                    "driver": device.driver,
                }),
                Err(why) => json!({ "none": why }),
            },
            "read_bytes_per_second": bandwidth.map(|(one, all)| json!({
                "one_thread": one.round(), "all_threads": all.round(), "threads": machine.threads,
            })),
        }));
    }
    let has = |wanted: bool| -> String {
        let names: Vec<&str> = machine.features.iter().filter(|f| f.1 == wanted).map(|f| f.0).collect();
        if names.is_empty() { "none".into() } else { names.join(" ") }
    };
    print(&format!(
        "rawloop {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    ))?;
    print(&format!("  processor    {}, {} threads for this process", machine.cpu, machine.threads))?;
    print(&format!("  has          {}", has(true)))?;
    print(&format!("  lacks        {}", has(false)))?;
    print(&format!("  kernels      {chosen} (of {})", tables.join(", ")))?;
    print(&format!(
        "  memory       {} GB, {} GB available",
        gigabytes(machine.memory),
        gigabytes(machine.available)
    ))?;
    let group = machine.group;
    let processors = group.processors.map_or("no limit".into(), |limit| format!("{limit:.1} processors"));
    let memory = group.memory.map_or("no limit".into(), |limit| format!("{} GB", gigabytes(limit)));
    print(&format!("  group        processors: {processors}; memory: {memory}"))?;
    match &cuda {
        Ok(device) => print(&format!(
            "  cuda         {}, compute capability {}.{}, {} multiprocessors, {} GB, driver for CUDA {}.{}",
            device.name,
            device.capability.0,
            device.capability.1,
            device.multiprocessors,
            gigabytes(device.memory as u64),
            device.driver / 1000,
            device.driver % 1000 / 10
        ))?,
        Err(why) => print(&format!("  cuda         none: {why}"))?,
    }
    if let Some((one, all)) = bandwidth {
        print(&format!(
            "  reads        {:.1} GB/s with one thread, {:.1} GB/s with {}",
            one / 1e9,
            all / 1e9,
            machine.threads
        ))?;
        print(&format!(
            "               so the {:.0} MB that a token of Gemma 4 E2B reads take at least {:.1} ms: {:.0} tokens/s",
            E2B_TOKEN / 1e6,
            E2B_TOKEN / all * 1e3,
            all / E2B_TOKEN
        ))?;
    }
    Ok(())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}
