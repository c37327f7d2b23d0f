//! The driver: device, module, stream, launches, graphs. The only file that calls it, besides `memory.rs`.
//!
//! Everything runs on one stream of the device's primary context. A context is bound to the calling thread by every call of the backend,
//! because a backend may move between threads.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};

use crate::form::Role;
use crate::options::{DriverError, Trial};

/// The kernels, compiled by `scripts/build-cuda.sh`.
static KERNELS: &Aligned<[u8]> = &Aligned(*include_bytes!("../kernels/rawloop.fatbin"));

#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

/// Turns the driver's answer into a result.
pub(crate) fn check(result: sys::CUresult, what: &str) -> Result<(), DriverError> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |get: unsafe fn(sys::CUresult, *mut *const c_char) -> sys::CUresult| {
        let mut text: *const c_char = ptr::null();
        // SAFETY: the driver writes a pointer to a static string, or leaves null.
        unsafe {
            let _ = get(result, &mut text);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    };
    let why = format!("{} ({})", text(sys::cuGetErrorName), text(sys::cuGetErrorString));
    Err(DriverError { what: what.into(), why })
}

/// A device as `doctor` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of memory.
    pub memory: usize,
    /// The CUDA version the driver speaks, `13000` for 13.0.
    pub driver: u32,
}

/// What the first device is.
///
/// # Errors
/// Why there is none, in words.
pub fn report() -> Result<DeviceReport, String> {
    device(0).map(|(_, report)| report)
}

fn device(index: usize) -> Result<(sys::CUdevice, DeviceReport), String> {
    // SAFETY: only opens the library.
    if !unsafe { sys::is_culib_present() } {
        return Err("the driver's library (libcuda) is not on this machine".into());
    }
    let fail = |error: DriverError| error.to_string();
    let (mut count, mut handle, mut driver, mut memory) = (0, 0, 0, 0usize);
    let mut name = [0 as c_char; 256];
    // SAFETY: every pointer is to a live local of the type that the driver writes.
    unsafe {
        check(sys::cuInit(0), "starting the driver").map_err(fail)?;
        check(sys::cuDeviceGetCount(&mut count), "counting devices").map_err(fail)?;
        if index >= count as usize {
            return Err(format!("device {index} was asked for, there are {count}"));
        }
        check(sys::cuDeviceGet(&mut handle, index as c_int), "taking the device").map_err(fail)?;
        check(sys::cuDriverGetVersion(&mut driver), "asking for the driver's version").map_err(fail)?;
        check(sys::cuDeviceTotalMem_v2(&mut memory, handle), "asking for the memory").map_err(fail)?;
        check(sys::cuDeviceGetName(name.as_mut_ptr(), 255, handle), "asking for the name").map_err(fail)?;
    }
    // SAFETY: the driver ends the name with a zero, and the last byte was never written.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let get = |attribute| device_attribute(handle, attribute).map_err(fail);
    let capability = (
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
    );
    if capability < (8, 0) {
        return Err(format!(
            "{name} has compute capability {}.{}, 8.0 is needed",
            capability.0, capability.1
        ));
    }
    let multiprocessors = get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
    Ok((handle, DeviceReport { name, capability, multiprocessors, memory, driver: driver as u32 }))
}

fn device_attribute(device: sys::CUdevice, attribute: Attribute) -> Result<c_int, DriverError> {
    let mut value = 0;
    // SAFETY: writes one int.
    check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) }, "asking for an attribute")?;
    Ok(value)
}

/// The device with its module and stream.
pub(crate) struct Device {
    handle: sys::CUdevice,
    context: sys::CUcontext,
    module: sys::CUmodule,
    pub stream: sys::CUstream,
    pub about: DeviceReport,
    /// Bytes of shared memory that a block may have.
    pub shared: usize,
    /// Warps of a stage kernel.
    pub warps: usize,
    /// Blocks come in clusters and kernels start early, on this card and in what it runs.
    clusters: bool,
}

// SAFETY: handles of the driver may be used from any thread that has bound the context, which every call does.
unsafe impl Send for Device {}
// SAFETY: likewise; the driver locks for itself.
unsafe impl Sync for Device {}

impl Device {
    /// Opens a device and loads the kernels: the embedded ones, or `kernels`, a whole binary. It is said to have no more than `trial` says.
    ///
    /// # Errors
    /// There is none, it is too old, or the driver refuses.
    pub fn open(
        index: usize,
        kernels: Option<&[u8]>,
        trial: &Trial,
    ) -> Result<Arc<Device>, crate::CudaError> {
        let (handle, mut about) = device(index).map_err(crate::CudaError::NoDevice)?;
        let shared =
            device_attribute(handle, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize;
        let shared = trial.shared.map_or(shared, |most| most.min(shared));
        about.multiprocessors =
            trial.multiprocessors.unwrap_or(about.multiprocessors).min(about.multiprocessors);
        if trial.no_clusters {
            about.capability = (8, 0);
        }
        let mut device = Device {
            handle,
            context: ptr::null_mut(),
            module: ptr::null_mut(),
            stream: ptr::null_mut(),
            about,
            shared,
            warps: 0,
            clusters: false,
        };
        // SAFETY: the device exists; outputs are fields of the type the driver writes; the image is a whole fat binary.
        unsafe {
            check(sys::cuDevicePrimaryCtxRetain(&mut device.context, handle), "taking the context")?;
            check(sys::cuCtxSetCurrent(device.context), "binding the context")?;
            let image = kernels.unwrap_or(&KERNELS.0).as_ptr().cast::<c_void>();
            check(sys::cuModuleLoadData(&mut device.module, image), "loading the kernels")?;
            // 1: this stream does not wait for the default stream.
            check(sys::cuStreamCreate(&mut device.stream, 1), "making a stream")?;
        }
        // The build's choice, told by the most threads that the kernel was compiled for.
        device.warps =
            device.of_a_stage(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as usize / 32;
        let compiled_for = device.of_a_stage(FunctionAttribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)?;
        device.clusters = device.about.capability >= CLUSTERS && has_clusters(compiled_for);
        Ok(Arc::new(device))
    }

    /// What the driver says of a kernel that every build has.
    fn of_a_stage(&self, what: FunctionAttribute) -> Result<c_int, DriverError> {
        let (mut handle, mut value) = (ptr::null_mut(), 0);
        // SAFETY: the module is loaded, the name ends with a zero, outputs are locals.
        unsafe {
            check(
                sys::cuModuleGetFunction(&mut handle, self.module, c"stage_narrow".as_ptr()),
                "stage_narrow",
            )?;
            check(sys::cuFuncGetAttribute(&mut value, what, handle), "stage_narrow")?;
        }
        Ok(value)
    }

    /// Makes the device the calling thread's.
    pub fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as `self`.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "binding the context")
    }

    /// Waits for everything that was started.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream lives as long as `self`.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "running the kernels")
    }

    /// Whether everything that was started has finished.
    pub fn idle(&self) -> Result<bool, DriverError> {
        // SAFETY: the stream lives as long as `self`.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => check(other, "running the kernels").map(|()| true),
        }
    }

    /// A kernel by its name, allowed all the shared memory there is.
    pub fn function(&self, name: &str) -> Result<Function, DriverError> {
        let mut handle = ptr::null_mut();
        let c_name = CString::new(name).unwrap_or_default();
        let mut fixed = 0;
        // SAFETY: the module is loaded, the name ends with a zero, outputs are locals.
        unsafe {
            check(sys::cuModuleGetFunction(&mut handle, self.module, c_name.as_ptr()), name)?;
            let size = FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            check(sys::cuFuncGetAttribute(&mut fixed, size, handle), name)?;
            let dynamic = self.shared as c_int - fixed;
            let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            check(sys::cuFuncSetAttribute(handle, most, dynamic), name)?;
            // All of the fast memory as shared memory, so that two kernels fit side by side.
            let carve = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            check(sys::cuFuncSetAttribute(handle, carve, 100), name)?;
        }
        Ok(Function { handle, dynamic: self.shared - fixed as usize })
    }

    /// Whether blocks come in clusters and kernels start early.
    pub fn has_clusters(&self) -> bool {
        self.clusters
    }

    /// Starts a kernel.
    pub fn launch(&self, launch: &Launch) -> Result<(), DriverError> {
        debug_assert!(launch.arguments.len() <= MOST_ARGUMENTS);
        let mut pointers: [*mut c_void; MOST_ARGUMENTS] = [ptr::null_mut(); MOST_ARGUMENTS];
        for (pointer, argument) in pointers.iter_mut().zip(&launch.arguments) {
            *pointer = argument.as_ptr().cast_mut().cast();
        }
        self.configured(launch, |config| {
            // SAFETY: the arguments are those of the kernel (`plan` pairs them), and the driver copies them before it returns.
            let result = unsafe {
                sys::cuLaunchKernelEx(config, launch.function.handle, pointers.as_mut_ptr(), ptr::null_mut())
            };
            check(result, launch.name)
        })
    }

    /// How many clusters of a launch the device holds at once; none where it has no clusters.
    pub fn clusters(&self, launch: &Launch) -> Result<usize, DriverError> {
        if !self.has_clusters() {
            return Ok(0);
        }
        let mut count = 0;
        self.configured(launch, |config| {
            // SAFETY: the configuration and the kernel are alive, the output is a local.
            let result =
                unsafe { sys::cuOccupancyMaxActiveClusters(&mut count, launch.function.handle, config) };
            check(result, "counting clusters")
        })?;
        Ok(count as usize)
    }

    /// Hands a launch on as the driver wants it.
    fn configured<T>(&self, launch: &Launch, then: impl FnOnce(&sys::CUlaunchConfig) -> T) -> T {
        use sys::CUlaunchAttributeID as Id;
        // SAFETY: all zeros is a value of this struct of integers and a union of integers.
        let mut attributes: [sys::CUlaunchAttribute; 2] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        if launch.early && self.has_clusters() {
            attributes[count].id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes[count].value.programmaticStreamSerializationAllowed = 1;
            count += 1;
        }
        if launch.cluster > 1 {
            attributes[count].id = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attributes[count].value.clusterDim =
                sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: launch.cluster, y: 1, z: 1 };
            count += 1;
        }
        then(&sys::CUlaunchConfig {
            gridDimX: launch.grid.0,
            gridDimY: launch.grid.1,
            gridDimZ: launch.grid.2,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared as u32,
            hStream: self.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        })
    }

    /// Records launches as a graph.
    pub fn capture(
        self: &Arc<Device>,
        record: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<Graph, DriverError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is ours and idle in the driver's sense; a capture that began is always ended.
        unsafe {
            check(sys::cuStreamBeginCapture_v2(self.stream, mode), "beginning a graph")?;
            let recorded = record();
            let ended = check(sys::cuStreamEndCapture(self.stream, &mut graph), "ending a graph");
            recorded.and(ended)?;
            let made = check(sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0), "making a graph");
            let _ = sys::cuGraphDestroy(graph);
            made?;
            check(sys::cuGraphUpload(exec, self.stream), "uploading a graph")?;
        }
        Ok(Graph { exec, device: self.clone() })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the last user is gone; errors have nobody to be told to.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            if !self.stream.is_null() {
                let _ = sys::cuStreamSynchronize(self.stream);
                let _ = sys::cuStreamDestroy_v2(self.stream);
            }
            if !self.module.is_null() {
                let _ = sys::cuModuleUnload(self.module);
            }
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.handle);
        }
    }
}

/// Compute capability from which on there are clusters and early starts.
const CLUSTERS: (u32, u32) = (9, 0);

/// Whether code compiled for this version (ten times the major one, plus the minor one; 0 where the driver does not know) has them. A card newer than every image of the binary
/// makes its code from that of version 8.0, where the instructions of clusters and early starts are left out.
fn has_clusters(compiled_for: c_int) -> bool {
    !(1..90).contains(&compiled_for)
}

/// Arguments of a kernel at most.
const MOST_ARGUMENTS: usize = 12;

/// A kernel.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    handle: sys::CUfunction,
    /// Bytes of shared memory a launch may ask for.
    pub dynamic: usize,
}

// SAFETY: a handle into a loaded module, used under the context like the device's.
unsafe impl Send for Function {}

/// One launch with everything it takes.
pub(crate) struct Launch {
    /// Name of the kernel.
    pub name: &'static str,
    pub function: Function,
    pub grid: (u32, u32, u32),
    pub threads: u32,
    pub shared: usize,
    /// Blocks of a cluster, neighbours along the grid's first side; 1: none.
    pub cluster: u32,
    /// Each argument's bytes, 8-byte aligned.
    pub arguments: Vec<Box<[u64]>>,
    /// Whether it may start before its predecessor has finished.
    pub early: bool,
    /// What it computes.
    pub role: Role,
}

/// A recorded graph.
pub(crate) struct Graph {
    exec: sys::CUgraphExec,
    device: Arc<Device>,
}

// SAFETY: as for the device.
unsafe impl Send for Graph {}

impl Graph {
    /// Starts it.
    pub fn launch(&self) -> Result<(), DriverError> {
        // SAFETY: the graph was instantiated and its memory is owned by the backend that launches it.
        check(unsafe { sys::cuGraphLaunch(self.exec, self.device.stream) }, "starting a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `capture`, destroyed once.
        unsafe {
            let _ = sys::cuGraphExecDestroy(self.exec);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_clusters;

    /// A card of capability 11 runs code made for 8.0 where no image is its own.
    #[test]
    fn clusters_want_code_that_has_them() {
        assert!([90, 100, 120, 0].into_iter().all(has_clusters));
        assert!(![80, 86, 89].into_iter().any(has_clusters));
    }
}
