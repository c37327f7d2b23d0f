//! The adapters of this machine, and the choice of one.
//!
//! The list is ordered by kind: discrete, integrated, virtual, unknown, software; its numbers and any part of a name choose. A software
//! adapter is taken only where nothing else is there, or by name.

use wgpu::{Adapter, Backends, DeviceType, Instance, InstanceDescriptor, InstanceFlags};

use crate::options::WgpuError;
use crate::wait::ready;

/// What an adapter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterReport {
    /// Its name.
    pub name: String,
    /// `Vulkan`, `Metal`, `Dx12`.
    pub api: String,
    /// Name and version of the driver.
    pub driver: String,
    /// `discrete`, `integrated`, `virtual`, `software`, `unknown`.
    pub kind: &'static str,
    /// Bytes that one binding may have.
    pub binding: u64,
    /// Bytes that one buffer may have.
    pub buffer: u64,
    /// Smallest and largest subgroup.
    pub subgroup: (u32, u32),
    /// Bytes of memory that a workgroup shares.
    pub workgroup_memory: u32,
    /// Whether shaders have 16-bit floats.
    pub f16: bool,
    /// Whether packed dot products of 8-bit integers are the driver's own; none where the interface does not tell. Without them the shader compiler
    /// writes four products and sums, with the same result.
    pub packed_dot: Option<bool>,
}

fn kind(device: DeviceType) -> (usize, &'static str) {
    match device {
        DeviceType::DiscreteGpu => (0, "discrete"),
        DeviceType::IntegratedGpu => (1, "integrated"),
        DeviceType::VirtualGpu => (2, "virtual"),
        DeviceType::Other => (3, "unknown"),
        DeviceType::Cpu => (4, "software"),
    }
}

/// All adapters in the order of the list.
pub(crate) fn all() -> Vec<Adapter> {
    let instance = Instance::new(InstanceDescriptor {
        backends: Backends::PRIMARY,
        flags: InstanceFlags::empty(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    let mut adapters = ready(instance.enumerate_adapters(Backends::PRIMARY)).unwrap_or_default();
    adapters.sort_by_key(|adapter| kind(adapter.get_info().device_type).0);
    adapters
}

/// What there is on this machine, in the order in which `--adapter` counts.
pub fn adapters() -> Vec<AdapterReport> {
    all().iter().map(report).collect()
}

pub(crate) fn report(adapter: &Adapter) -> AdapterReport {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    AdapterReport {
        name: info.name,
        api: info.backend.to_string(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        kind: kind(info.device_type).1,
        binding: limits.max_storage_buffer_binding_size,
        buffer: limits.max_buffer_size,
        subgroup: (info.subgroup_min_size, info.subgroup_max_size),
        workgroup_memory: limits.max_compute_workgroup_storage_size,
        f16: adapter.features().contains(wgpu::Features::SHADER_F16),
        packed_dot: packed_dot(adapter),
    }
}

/// Vulkan has packed dot products from 1.3 on, or by extension.
#[cfg(not(any(target_vendor = "apple", target_arch = "wasm32")))]
fn packed_dot(adapter: &Adapter) -> Option<bool> {
    // SAFETY: the handle is only asked for its properties and goes before the adapter does.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let device = vulkan.physical_device_capabilities();
    Some(
        device.properties().api_version >= 1 << 22 | 3 << 12
            || device.supports_extension(c"VK_KHR_shader_integer_dot_product"),
    )
}

/// Metal and browsers do not tell.
#[cfg(any(target_vendor = "apple", target_arch = "wasm32"))]
fn packed_dot(_: &Adapter) -> Option<bool> {
    None
}

/// The adapter of a number or of a part of a name; the first of the list where nothing is said.
///
/// # Errors
/// There is none; the message names those that there are.
pub(crate) fn choose(wanted: Option<&str>) -> Result<Adapter, WgpuError> {
    let mut adapters = all();
    let names: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    let found = match wanted {
        None => 0,
        Some(text) => match text.parse::<usize>() {
            Ok(number) => number,
            Err(_) => {
                let text = text.to_lowercase();
                names.iter().position(|name| name.to_lowercase().contains(&text)).unwrap_or(usize::MAX)
            }
        },
    };
    if found >= adapters.len() {
        let there = if names.is_empty() { "none".into() } else { names.join(", ") };
        let wanted = wanted.map_or_else(|| "was found".into(), |text| format!("'{text}'"));
        return Err(WgpuError::NoAdapter { wanted, there });
    }
    Ok(adapters.swap_remove(found))
}
