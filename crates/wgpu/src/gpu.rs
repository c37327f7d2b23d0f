//! A device, its queue, and what it complained about.
//!
//! wgpu reports errors by callback, later than the call that caused them. They are kept here, the first one first, and [`Gpu::check`] turns
//! them into a typed error at the end of everything that the caller waits for. A device that was lost stays lost.

use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use wgpu::{
    Adapter, Buffer, BufferDescriptor, BufferUsages, CommandEncoder, Device, DeviceType, Features, Limits,
    MapMode, Queue, SubmissionIndex,
};

use crate::import;
use crate::options::{GpuError, WgpuError};
use crate::wait::Signal;

/// Everything that a kernel reads or writes.
pub(crate) const STORAGE: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_DST).union(BufferUsages::COPY_SRC);

/// A device that was opened.
pub(crate) struct Gpu {
    pub device: Device,
    pub queue: Queue,
    pub limits: Limits,
    pub name: String,
    pub api: String,
    pub timestamps: bool,
    /// Whether mappings of the host are read in place, where that can be.
    pub shared: bool,
    trouble: Arc<Mutex<Option<GpuError>>>,
}

fn first(trouble: &Mutex<Option<GpuError>>, error: GpuError) {
    let mut kept = trouble.lock().unwrap_or_else(PoisonError::into_inner);
    // A loss says more than what follows from it, or what led to it.
    if kept.is_none() || matches!(error, GpuError::Lost(_)) {
        *kept = Some(error);
    }
}

impl Gpu {
    /// Opens a device with all that the adapter has; one that takes mappings `in_place` where it shares the host's memory.
    ///
    /// # Errors
    /// The adapter refuses.
    pub fn open(adapter: &Adapter, in_place: bool) -> Result<Gpu, WgpuError> {
        let info = adapter.get_info();
        let limits = adapter.limits();
        let refused = |why: String| WgpuError::NoDevice { adapter: info.name.clone(), why };
        let timestamps = adapter.features().contains(Features::TIMESTAMP_QUERY);
        let features = if timestamps { Features::TIMESTAMP_QUERY } else { Features::empty() };
        let shared = in_place && matches!(info.device_type, DeviceType::IntegratedGpu | DeviceType::Cpu);
        let wanted = import::Wanted { features, limits: &limits };
        let (device, queue) = import::open_device(adapter, &wanted, shared).map_err(refused)?;
        let trouble = Arc::new(Mutex::new(None));
        let kept = trouble.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            let text = error.to_string();
            first(
                &kept,
                match error {
                    wgpu::Error::OutOfMemory { .. } => GpuError::OutOfMemory(text),
                    wgpu::Error::Validation { .. } => GpuError::Validation(text),
                    wgpu::Error::Internal { .. } => GpuError::Internal(text),
                },
            );
        }));
        let kept = trouble.clone();
        device.set_device_lost_callback(move |reason, text| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                first(&kept, GpuError::Lost(text));
            }
        });
        Ok(Gpu {
            device,
            queue,
            limits,
            name: info.name,
            api: info.backend.to_string(),
            timestamps,
            shared,
            trouble,
        })
    }

    /// What went wrong since the last call; a loss is told again every time.
    ///
    /// # Errors
    /// The first complaint.
    pub fn check(&self) -> Result<(), GpuError> {
        let mut kept = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            None => Ok(()),
            Some(GpuError::Lost(why)) => Err(GpuError::Lost(why.clone())),
            Some(_) => kept.take().map_or(Ok(()), Err),
        }
    }

    /// A buffer of `bytes` zeros, rounded up to words.
    pub fn buffer(&self, bytes: usize, usage: BufferUsages) -> Buffer {
        let size = (bytes as u64).max(16).next_multiple_of(16);
        self.device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    }

    /// A storage buffer of `bytes` zeros.
    pub fn storage(&self, bytes: usize) -> Buffer {
        self.buffer(bytes, STORAGE)
    }

    /// A storage buffer that holds `data`.
    pub fn copy<T: Pod>(&self, data: &[T]) -> Buffer {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let buffer = self.storage(bytes.len());
        self.write(&buffer, 0, bytes);
        buffer
    }

    /// Writes `bytes` at `offset` before anything that is submitted later. Lengths that are no multiple of 4 are filled up with zeros.
    pub fn write(&self, buffer: &Buffer, offset: usize, bytes: &[u8]) {
        /// Copies above this go in pieces, so that the staging memory stays small.
        const PIECE: usize = 16 << 20;
        let whole = bytes.len() / 4 * 4;
        for (index, piece) in bytes[..whole].chunks(PIECE).enumerate() {
            self.queue.write_buffer(buffer, (offset + index * PIECE) as u64, piece);
            if piece.len() == PIECE {
                self.queue.submit([]);
                // An error shows at the next check.
                let _ = self.settle();
            }
        }
        if whole < bytes.len() {
            let mut last = [0; 4];
            last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, (offset + whole) as u64, &last);
        }
    }

    /// An encoder.
    pub fn encoder(&self) -> CommandEncoder {
        self.device.create_command_encoder(&Default::default())
    }

    /// Waits for everything submitted.
    ///
    /// # Errors
    /// What the device complained about.
    pub fn wait(&self) -> Result<(), GpuError> {
        let settled = self.settle();
        self.check()?;
        settled
    }

    fn settle(&self) -> Result<(), GpuError> {
        let signal = Signal::default();
        if cfg!(target_arch = "wasm32") {
            let done = signal.clone();
            self.queue.on_submitted_work_done(move || done.give());
        }
        self.until(&signal, None)
    }

    /// Asks for the mapping of a whole buffer.
    pub fn map(&self, staging: &Buffer) -> Signal {
        let signal = Signal::default();
        let done = signal.clone();
        // Where it failed the device has complained, or the mapped range is refused.
        staging.map_async(MapMode::Read, .., move |_| done.give());
        signal
    }

    /// Waits for a mapping, or for whatever gives the signal; `behind` is the submission that it waits for itself, the last one where nothing
    /// is said.
    ///
    /// # Errors
    /// The device cannot be waited for.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn until(&self, _: &Signal, behind: Option<SubmissionIndex>) -> Result<(), GpuError> {
        let polled = self.device.poll(wgpu::PollType::Wait { submission_index: behind, timeout: None });
        polled.map(|_| ()).map_err(|error| GpuError::Internal(error.to_string()))
    }

    /// Waits for a mapping, or for whatever gives the signal.
    ///
    /// # Errors
    /// The stack cannot be put aside.
    #[cfg(target_arch = "wasm32")]
    pub fn until(&self, signal: &Signal, _: Option<SubmissionIndex>) -> Result<(), GpuError> {
        let cannot = || GpuError::Internal("this browser cannot suspend a program while it waits".into());
        signal.wait().then_some(()).ok_or_else(cannot)
    }

    /// Reads pieces of buffers, each `(buffer, byte offset, bytes)` with both numbers multiples of 4, one after the other. Waits for
    /// everything submitted before.
    ///
    /// # Errors
    /// What the device complained about.
    pub fn read(&self, pieces: &[(&Buffer, usize, usize)]) -> Result<Vec<u8>, GpuError> {
        let total: usize = pieces.iter().map(|piece| piece.2).sum();
        if total == 0 {
            return Ok(Vec::new());
        }
        let staging = self.buffer(total, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        let mut encoder = self.encoder();
        let mut at = 0;
        for &(buffer, offset, bytes) in pieces {
            encoder.copy_buffer_to_buffer(buffer, offset as u64, &staging, at, bytes as u64);
            at += bytes as u64;
        }
        self.queue.submit([encoder.finish()]);
        let mut bytes = vec![0; total];
        self.read_staging(&staging, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the beginning of a buffer that can be mapped, waiting for everything submitted.
    ///
    /// # Errors
    /// What the device complained about.
    pub fn read_staging(&self, staging: &Buffer, bytes: &mut [u8]) -> Result<(), GpuError> {
        let mapped = self.map(staging);
        let waited = self.until(&mapped, None);
        self.check()?;
        waited?;
        self.mapped(staging, bytes)
    }

    /// Copies from a buffer whose mapping was asked for and is done, and unmaps it.
    ///
    /// # Errors
    /// It is not mapped.
    pub fn mapped(&self, staging: &Buffer, bytes: &mut [u8]) -> Result<(), GpuError> {
        let view = staging
            .get_mapped_range(..)
            .map_err(|error| self.check().err().unwrap_or_else(|| GpuError::Internal(error.to_string())))?;
        bytes.copy_from_slice(&view[..bytes.len()]);
        drop(view);
        staging.unmap();
        Ok(())
    }

    /// Reads `count` values from `first` on.
    ///
    /// # Errors
    /// What the device complained about.
    pub fn values<T: Pod>(&self, buffer: &Buffer, first: usize, count: usize) -> Result<Vec<T>, GpuError> {
        let size = size_of::<T>();
        let (start, end) = (first * size / 4 * 4, ((first + count) * size).next_multiple_of(4));
        let bytes = self.read(&[(buffer, start, end - start)])?;
        let skip = first * size - start;
        Ok(bytemuck::pod_collect_to_vec(&bytes[skip..skip + count * size]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_complaint_is_kept_unless_the_device_was_lost() {
        let kept = Mutex::new(None);
        first(&kept, GpuError::OutOfMemory("a".into()));
        first(&kept, GpuError::Validation("b".into()));
        assert_eq!(*kept.lock().unwrap(), Some(GpuError::OutOfMemory("a".into())));
        first(&kept, GpuError::Lost("c".into()));
        first(&kept, GpuError::Internal("d".into()));
        assert_eq!(*kept.lock().unwrap(), Some(GpuError::Lost("c".into())));
    }
}
