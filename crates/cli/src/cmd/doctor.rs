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
    let adapters = rawloop_wgpu::adapters();
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
            "adapters": adapters.iter().map(|adapter| json!({
                "name": adapter.name,
                "api": adapter.api,
                "driver": adapter.driver,
                "kind": adapter.kind,
                "binding": adapter.binding,
                "buffer": adapter.buffer,
                "subgroup": [adapter.subgroup.0, adapter.subgroup.1],
                "workgroup_memory": adapter.workgroup_memory,
                "f16": adapter.f16,
                "packed_dot": adapter.packed_dot,
            })).collect::<Vec<_>>(),
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
    for (index, adapter) in adapters.iter().enumerate() {
        print(&adapter_line(index, adapter, !args.no_measure))?;
    }
    if adapters.is_empty() {
        print("  adapters     none for --backend wgpu")?;
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

/// An adapter of `--backend wgpu`, and what its arithmetic is where it may be opened for that.
fn adapter_line(index: usize, adapter: &rawloop_wgpu::AdapterReport, open: bool) -> String {
    let has = |what: &str, there: bool| if there { what.to_string() } else { format!("no {what}") };
    let arithmetic = match open.then(|| rawloop_wgpu::arithmetic(Some(&index.to_string()))) {
        None => String::new(),
        Some(Err(why)) => format!("; {why}"),
        Some(Ok(seen)) => {
            let fused = if seen.variant.native_fused { "its own" } else { "by integers" };
            let exact = if seen.exact() { "exact".into() } else { format!("not exact: {:?}", seen.wrong) };
            format!("; arithmetic {exact}, fused multiply-add {fused}")
        }
    };
    format!(
        "  adapter {index}    {} ({}, {}, {}), subgroups {} to {}, {}, {}, bindings up to {} MB{arithmetic}",
        adapter.name,
        adapter.api,
        adapter.kind,
        adapter.driver,
        adapter.subgroup.0,
        adapter.subgroup.1,
        has("16-bit floats", adapter.f16),
        adapter.packed_dot.map_or("packed dot unknown".into(), |there| has("packed dot", there)),
        adapter.binding / 1_000_000,
    )
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}
