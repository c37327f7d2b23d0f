//! Memory on the card and pinned memory of the host, each freed with its owner.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::sys;

use crate::driver::{Device, check};
use crate::options::DriverError;

/// Bytes on the card.
pub(crate) struct DeviceBytes {
    address: u64,
    length: usize,
    device: Arc<Device>,
}

impl DeviceBytes {
    /// Memory of `length` bytes, all zero.
    pub fn zeroed(device: &Arc<Device>, length: usize) -> Result<DeviceBytes, DriverError> {
        let length = length.max(16);
        let mut address = 0;
        // SAFETY: writes one address; the memory is then set by the driver.
        unsafe {
            check(sys::cuMemAlloc_v2(&mut address, length), &format!("taking {length} bytes on the card"))?;
        }
        let bytes = DeviceBytes { address, length, device: device.clone() };
        // SAFETY: inside the allocation.
        check(unsafe { sys::cuMemsetD8Async(address, 0, length, device.stream) }, "clearing memory")?;
        Ok(bytes)
    }

    /// Where it starts.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Copies `data` to `offset` and waits for it.
    pub fn write<T: Pod>(&self, offset: usize, data: &[T]) -> Result<(), DriverError> {
        let size = size_of_val(data);
        assert!(offset + size <= self.length, "a write of {size} bytes at {offset} of {}", self.length);
        // SAFETY: both ranges are valid for `size` bytes; the wait keeps `data` alive long enough.
        unsafe {
            let to = self.address + offset as u64;
            check(
                sys::cuMemcpyHtoDAsync_v2(to, data.as_ptr().cast(), size, self.device.stream),
                "copying to the card",
            )?;
        }
        self.device.synchronize()
    }

    /// Copies from `offset` into `data` and waits for it, and so for everything started before.
    pub fn read<T: Pod>(&self, offset: usize, data: &mut [T]) -> Result<(), DriverError> {
        let size = size_of_val(data);
        assert!(offset + size <= self.length, "a read of {size} bytes at {offset} of {}", self.length);
        // SAFETY: as in `write`; any bytes are a value of a `Pod`.
        unsafe {
            let from = self.address + offset as u64;
            check(
                sys::cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), from, size, self.device.stream),
                "copying from the card",
            )?;
        }
        self.device.synchronize()
    }

    /// Copies `length` bytes from another place on the card, in the order of the stream.
    pub fn copy_from(
        &self,
        offset: usize,
        from: &DeviceBytes,
        start: usize,
        length: usize,
    ) -> Result<(), DriverError> {
        assert!(offset + length <= self.length && start + length <= from.length, "a copy out of bounds");
        // SAFETY: both ranges lie inside live allocations.
        let result = unsafe {
            sys::cuMemcpyDtoDAsync_v2(
                self.address + offset as u64,
                from.address + start as u64,
                length,
                self.device.stream,
            )
        };
        check(result, "copying on the card")
    }
}

impl Drop for DeviceBytes {
    fn drop(&mut self) {
        // SAFETY: allocated here and freed once. Freeing waits for kernels that may still read it.
        unsafe {
            let _ = self.device.bind();
            let _ = sys::cuMemFree_v2(self.address);
        }
    }
}

/// Pinned values of the host that the card can read and write.
pub(crate) struct Pinned<T: Pod> {
    pointer: *mut T,
    count: usize,
    address: u64,
    kind: PhantomData<T>,
}

// SAFETY: plain memory, owned.
unsafe impl<T: Pod + Send> Send for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// `count` zeroed values.
    pub fn zeroed(count: usize) -> Result<Pinned<T>, DriverError> {
        let count = count.max(1);
        let size = count * size_of::<T>();
        let (mut pointer, mut address) = (ptr::null_mut(), 0);
        // SAFETY: outputs are locals; the memory is written before anybody reads it. 2: mapped into the card's addresses.
        unsafe {
            check(sys::cuMemHostAlloc(&mut pointer, size, 2), &format!("pinning {size} bytes of memory"))?;
            ptr::write_bytes(pointer.cast::<u8>(), 0, size);
            check(sys::cuMemHostGetDevicePointer_v2(&mut address, pointer, 0), "mapping pinned memory")?;
        }
        Ok(Pinned { pointer: pointer.cast(), count, address, kind: PhantomData })
    }

    /// Where the card sees it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The values. Nothing on the card may be writing them.
    pub fn values(&mut self) -> &mut [T] {
        // SAFETY: `count` initialised values; `Pod` allows any bytes.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.count) }
    }

    /// One value that the card may write at any time.
    pub fn peek(&self, index: usize) -> T {
        assert!(index < self.count);
        // SAFETY: inside the allocation; volatile because the card writes it.
        unsafe { ptr::read_volatile(self.pointer.add(index)) }
    }

    /// Starts a copy of the first `count` values to the card.
    pub fn send(&self, device: &Device, to: u64, count: usize) -> Result<(), DriverError> {
        assert!(count <= self.count);
        // SAFETY: the pinned range is valid; the caller waits for the stream before it changes the values.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, self.pointer.cast(), count * size_of::<T>(), device.stream)
        };
        check(result, "copying to the card")
    }
}

impl<T: Pod> Drop for Pinned<T> {
    fn drop(&mut self) {
        // SAFETY: allocated here and freed once; the backend waits for the stream before it drops.
        unsafe {
            let _ = sys::cuMemFreeHost(self.pointer.cast());
        }
    }
}
