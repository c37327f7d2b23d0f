//! Weights that the adapter reads where the pack is mapped, on adapters that share the host's memory.
//!
//! Vulkan takes the whole mapping as one piece of memory (`VK_EXT_external_memory_host`), and a tensor is a buffer at its place in it; what
//! begins where the driver wants no buffer, or ends behind the last whole page, is copied as ever. Metal takes each tensor for itself
//! (`newBufferWithBytesNoCopy`), in whole pages of 16 KiB, on which a pack's large tensors begin. Everything else copies: DX12, browsers, cards
//! with memory of their own, where reading over the bus would cost more than the copy.
//!
//! Everything unsafe of it is here. What the blocks rely on: the mapping is never written, by the program or through these buffers, which no
//! kernel binds to write; it outlives them, because an [`Import`] holds the pack; and nothing runs when memory is
//! given back, because a backend waits before it goes.

use std::sync::Arc;

use rawloop_pack::Pack;
use wgpu::{Buffer, Features, Limits};

use crate::gpu::Gpu;

pub(crate) use platform::{Import, open_device};

/// A device and its queue.
pub(crate) type Opened = Result<(wgpu::Device, wgpu::Queue), String>;

/// What a device is opened with.
pub(crate) struct Wanted<'a> {
    pub features: Features,
    pub limits: &'a Limits,
}

/// The mapping of a pack on a device that can read it in place; none where it cannot.
pub(crate) fn open(gpu: &Gpu, pack: &Arc<Pack>) -> Option<Import> {
    if gpu.shared { Import::new(gpu, pack) } else { None }
}

/// The part of a mapping, in bytes from its start; none where a slice lies outside.
#[cfg(not(target_arch = "wasm32"))]
fn place(mapping: &[u8], part: &[u8]) -> Option<usize> {
    let offset = (part.as_ptr() as usize).checked_sub(mapping.as_ptr() as usize)?;
    (offset + part.len() <= mapping.len() && part.len().is_multiple_of(4)).then_some(offset)
}

/// Opens a device without extensions.
fn open_plain(adapter: &wgpu::Adapter, wanted: &Wanted<'_>) -> Opened {
    let descriptor = wgpu::DeviceDescriptor {
        label: None,
        required_features: wanted.features,
        required_limits: wanted.limits.clone(),
        ..wgpu::DeviceDescriptor::default()
    };
    crate::wait::ready(adapter.request_device(&descriptor))
        .ok_or("it does not answer")?
        .map_err(|error| error.to_string())
}

#[cfg(not(any(target_vendor = "apple", target_arch = "wasm32")))]
mod platform {
    use std::ptr::NonNull;

    use ash::vk;
    use wgpu::hal::api::Vulkan;

    use super::{Arc, Buffer, Gpu, Opened, Pack, Wanted, open_plain, place};

    const EXTENSION: &std::ffi::CStr = ash::ext::external_memory_host::NAME;
    const KIND: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

    /// Opens a device, with the extension where the adapter has it and shares the host's memory.
    pub(crate) fn open_device(adapter: &wgpu::Adapter, wanted: &Wanted<'_>, shared: bool) -> Opened {
        // SAFETY: the handle is only asked for what the device offers and goes before the adapter does.
        let offered = shared
            && unsafe { adapter.as_hal::<Vulkan>() }
                .is_some_and(|vulkan| vulkan.physical_device_capabilities().supports_extension(EXTENSION));
        if !offered {
            return open_plain(adapter, wanted);
        }
        let hints = wgpu::MemoryHints::default();
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: wanted.features,
            required_limits: wanted.limits.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        // SAFETY: features and limits are the adapter's own; the callback adds one extension that it offers, and removes nothing. The device
        // goes to the adapter that it was made from.
        unsafe {
            let opened = {
                let Some(vulkan) = adapter.as_hal::<Vulkan>() else { return open_plain(adapter, wanted) };
                vulkan
                    .open_with_callback(
                        wanted.features,
                        wanted.limits,
                        &hints,
                        Some(Box::new(|call| call.extensions.push(EXTENSION))),
                    )
                    .map_err(|error| error.to_string())?
            };
            adapter.create_device_from_hal(opened, &descriptor).map_err(|error| error.to_string())
        }
    }

    /// A mapping as a device's memory.
    pub(crate) struct Import {
        device: wgpu::Device,
        memory: vk::DeviceMemory,
        kind: u32,
        /// Bytes of the mapping that the memory has.
        length: usize,
        /// Whose mapping it is.
        pack: Arc<Pack>,
    }

    impl Import {
        /// Takes the whole pages of a mapping; none where the device cannot.
        pub fn new(gpu: &Gpu, pack: &Arc<Pack>) -> Option<Import> {
            let bytes = pack.bytes();
            // SAFETY: the pages belong to a mapping that outlives the device and is never written; the handles are the device's own and are used
            // here alone; the memory is given back when this value goes.
            unsafe {
                let device = gpu.device.as_hal::<Vulkan>()?;
                if !device.enabled_device_extensions().contains(&EXTENSION) {
                    return None;
                }
                let raw = device.raw_device();
                let instance = device.shared_instance().raw_instance();
                let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
                let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
                instance.get_physical_device_properties2(device.raw_physical_device(), &mut properties);
                let page = usize::try_from(host.min_imported_host_pointer_alignment).ok()?.max(1);
                let length = bytes.len() / page * page;
                let start = NonNull::new(bytes.as_ptr().cast_mut())?;
                if !(start.as_ptr() as usize).is_multiple_of(page) || length == 0 {
                    return None;
                }
                let extension = ash::ext::external_memory_host::Device::new(instance, raw);
                let mut pointer = vk::MemoryHostPointerPropertiesEXT::default();
                let ask = extension.fp().get_memory_host_pointer_properties_ext;
                let answer = ask(raw.handle(), KIND, start.as_ptr().cast(), &mut pointer);
                if answer != vk::Result::SUCCESS || pointer.memory_type_bits == 0 {
                    return None;
                }
                // Nothing is flushed: what the host has written has to be seen by itself.
                let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
                let types = instance.get_physical_device_memory_properties(device.raw_physical_device());
                let kind = (0..types.memory_type_count).find(|&kind| {
                    pointer.memory_type_bits & (1 << kind) != 0
                        && types.memory_types[kind as usize].property_flags.contains(coherent)
                })?;
                let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
                    .handle_type(KIND)
                    .host_pointer(start.as_ptr().cast());
                let wanted = vk::MemoryAllocateInfo::default()
                    .allocation_size(length as u64)
                    .memory_type_index(kind)
                    .push_next(&mut import);
                let memory = raw.allocate_memory(&wanted, None).ok()?;
                Some(Import { device: gpu.device.clone(), memory, kind, length, pack: pack.clone() })
            }
        }

        /// A buffer over a part of the mapping; none where the device wants it elsewhere.
        pub fn buffer(&self, part: &[u8]) -> Option<Buffer> {
            let offset = place(&self.pack.bytes()[..self.length], part)? as u64;
            let size = part.len() as u64;
            if size == 0 {
                return None;
            }
            // SAFETY: the buffer lies inside of the memory and where its own requirements allow; it is destroyed by wgpu, and at once where it
            // cannot be bound. Its bytes are there before it is, so it counts as written.
            unsafe {
                let device = self.device.as_hal::<Vulkan>()?;
                let raw = device.raw_device();
                let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(KIND);
                let wanted = vk::BufferCreateInfo::default()
                    .size(size)
                    .usage(vk::BufferUsageFlags::STORAGE_BUFFER)
                    .push_next(&mut external);
                let buffer = raw.create_buffer(&wanted, None).ok()?;
                let needs = raw.get_buffer_memory_requirements(buffer);
                let fits = offset.is_multiple_of(needs.alignment.max(1))
                    && needs.memory_type_bits & (1 << self.kind) != 0
                    && offset + needs.size <= self.length as u64;
                if !fits || raw.bind_buffer_memory(buffer, self.memory, offset).is_err() {
                    raw.destroy_buffer(buffer, None);
                    return None;
                }
                drop(device);
                let descriptor = wgpu::BufferDescriptor {
                    label: None,
                    size,
                    usage: wgpu::BufferUsages::STORAGE,
                    mapped_at_creation: false,
                };
                let buffer = wgpu::hal::vulkan::Buffer::from_raw(buffer);
                Some(self.device.create_buffer_from_hal::<Vulkan>(buffer, &descriptor))
            }
        }
    }

    impl Drop for Import {
        fn drop(&mut self) {
            // SAFETY: the memory is this value's own; a backend has waited for everything that read it, and does not use its buffers again.
            unsafe {
                if let Some(device) = self.device.as_hal::<Vulkan>() {
                    device.raw_device().free_memory(self.memory, None);
                }
            }
        }
    }
}

#[cfg(target_vendor = "apple")]
mod platform {
    use std::ptr::NonNull;

    use objc2_metal::{MTLDevice, MTLResourceOptions};
    use wgpu::hal::api::Metal;

    use super::{Arc, Buffer, Gpu, Opened, Pack, Wanted, open_plain, place};

    /// A page of every system that has Metal, or a multiple of it.
    const PAGE: usize = 16 << 10;

    /// Opens a device.
    pub(crate) fn open_device(adapter: &wgpu::Adapter, wanted: &Wanted<'_>, _: bool) -> Opened {
        open_plain(adapter, wanted)
    }

    /// A mapping whose pages a device may read.
    pub(crate) struct Import {
        device: wgpu::Device,
        length: usize,
        pack: Arc<Pack>,
    }

    impl Import {
        /// A mapping that begins on a page.
        pub fn new(gpu: &Gpu, pack: &Arc<Pack>) -> Option<Import> {
            let bytes = pack.bytes();
            let whole = (bytes.as_ptr() as usize).is_multiple_of(PAGE);
            let length = bytes.len() / PAGE * PAGE;
            whole.then(|| Import { device: gpu.device.clone(), length, pack: pack.clone() })
        }

        /// A buffer over the pages of a tensor; none where it does not begin on one, or ends behind the last whole one.
        pub fn buffer(&self, part: &[u8]) -> Option<Buffer> {
            let offset = place(&self.pack.bytes()[..self.length], part)?;
            let start = NonNull::new(part.as_ptr().cast_mut())?;
            let length = part.len().next_multiple_of(PAGE);
            if !offset.is_multiple_of(PAGE) || part.is_empty() || offset + length > self.length {
                return None;
            }
            // SAFETY: whole pages of a mapping that outlives the device and is never written; without a deallocator Metal leaves them alone.
            unsafe {
                let raw = {
                    let device = self.device.as_hal::<Metal>()?;
                    device.raw_device().newBufferWithBytesNoCopy_length_options_deallocator(
                        start.cast(),
                        length,
                        MTLResourceOptions::StorageModeShared,
                        None,
                    )?
                };
                let size = part.len() as u64;
                let descriptor = wgpu::BufferDescriptor {
                    label: None,
                    size,
                    usage: wgpu::BufferUsages::STORAGE,
                    mapped_at_creation: false,
                };
                let buffer = wgpu::hal::metal::Device::buffer_from_raw(raw, size);
                Some(self.device.create_buffer_from_hal::<Metal>(buffer, &descriptor))
            }
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod platform {
    use super::{Arc, Buffer, Gpu, Opened, Pack, Wanted, open_plain};

    /// Opens a device.
    pub(crate) fn open_device(adapter: &wgpu::Adapter, wanted: &Wanted<'_>, _: bool) -> Opened {
        open_plain(adapter, wanted)
    }

    /// A browser's device has memory of its own.
    pub(crate) enum Import {}

    impl Import {
        /// None.
        pub fn new(_: &Gpu, _: &Arc<Pack>) -> Option<Import> {
            None
        }

        /// There is no such value.
        pub fn buffer(&self, _: &[u8]) -> Option<Buffer> {
            match *self {}
        }
    }
}
