//! Which arithmetic an adapter has, found by asking it.
//!
//! A small kernel runs the contract's scalar functions over a few thousand inputs chosen near the difficult cases, and the host compares with
//! its own. The answer picks the variant of the kernels ([`Variant`]) and says whether every function is exact ([`Arithmetic::exact`]); where
//! one is not, codes may differ from the reference by one at a rounding boundary, and `doctor` says so.

use bytemuck::bytes_of;
use rawloop_spec::contract;
use wgpu::{BindGroupDescriptor, BindGroupEntry, BufferUsages, ComputePassDescriptor};

use crate::gpu::Gpu;
use crate::options::GpuError;
use crate::params::Params;
use crate::shaders::{Pipelines, Variant};

/// Triples that are asked.
const COUNT: usize = 4096;

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// What the kernels use.
    pub variant: Variant,
    /// The functions that were wrong, with the number of wrong results.
    pub wrong: Vec<(&'static str, usize)>,
}

impl Arithmetic {
    /// Whether every function of the contract gives the contract's bits here.
    pub fn exact(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Triples of floats: magnitudes that cancel, that tie, and that are far apart.
fn triples() -> Vec<[f32; 3]> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    let mut float = move |low: u32, high: u32| {
        let (bits, exponent) = (next(), low + next() % (high - low));
        f32::from_bits((bits & 0x8000_0000) | (exponent << 23) | (bits >> 8 & 0x007f_ffff))
    };
    (0..COUNT)
        .map(|index| {
            let (a, b) = (float(107, 134), float(107, 134));
            let c = match index % 4 {
                0 => -(a * b),
                1 => float(90, 140),
                2 => f32::from_bits((-(a * b)).to_bits() ^ (1 << (index % 23))),
                _ => a * b * f32::from_bits(0x3300_0000 + ((index as u32 % 8) << 22)),
            };
            // Halves of quotients: the boundary of a code.
            let a = if index % 8 == 5 { ((index % 128) as f32 + 0.5) * b.abs() } else { a };
            [a, b, c]
        })
        .collect()
}

fn run(gpu: &Gpu, variant: Variant, triples: &[[f32; 3]]) -> Result<Vec<[u32; 8]>, GpuError> {
    let mut pipelines = Pipelines::new(variant);
    let pipeline = pipelines.get(gpu, "probe", &[]);
    gpu.check()?;
    let params = gpu.buffer(size_of::<Params>(), BufferUsages::UNIFORM | BufferUsages::COPY_DST);
    let told = Params { count: triples.len() as u32, ..Params::default() };
    gpu.write(&params, 0, bytes_of(&told));
    let flat: Vec<f32> = triples.iter().flatten().copied().collect();
    let (inputs, results) = (gpu.copy(&flat), gpu.storage(32 * triples.len()));
    let buffers = [&params, &inputs, &results];
    let entries: Vec<BindGroupEntry> = (0..)
        .zip(buffers)
        .map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() })
        .collect();
    let group = gpu.device.create_bind_group(&BindGroupDescriptor {
        label: None,
        layout: &pipeline.group,
        entries: &entries,
    });
    let mut encoder = gpu.encoder();
    {
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(triples.len().div_ceil(64) as u32, 1, 1);
    }
    gpu.queue.submit([encoder.finish()]);
    gpu.values::<[u32; 8]>(&results, 0, triples.len())
}

/// Asks an adapter.
///
/// # Errors
/// The device fails.
pub(crate) fn ask(gpu: &Gpu) -> Result<Arithmetic, GpuError> {
    let triples = triples();
    let reassociates = gpu.api != wgpu::Backend::Vulkan.to_string();
    let seen = run(gpu, Variant { reassociates, ..Variant::default() }, &triples)?;
    let fused = |[a, b, c]: [f32; 3]| a.mul_add(b, c).to_bits();
    let native_fused = triples.iter().zip(&seen).all(|(&triple, seen)| same(seen[0], fused(triple)));
    let half = |index: usize| contract::f16_to_f32((index * 9 + 1) as u16).to_bits();
    let code = |[a, b, _]: [f32; 3]| contract::quantise(a, b.abs()) as i32 as u32;
    let native_half = (0..COUNT)
        .all(|index| seen[index][7] ^ code(triples[index]) == half(index) || index * 9 + 1 > 0x7bff);
    let variant = Variant { native_fused, native_half, reassociates };
    let seen = if native_fused { run(gpu, variant, &triples)? } else { seen };
    let mut wrong = Vec::new();
    let mut count = |name, right: &dyn Fn(usize) -> bool| {
        let failures = (0..COUNT).filter(|&index| !right(index)).count();
        if failures > 0 {
            wrong.push((name, failures));
        }
    };
    count("fused multiply-add", &|i| same(seen[i][1], fused(triples[i])));
    count("product and sum", &|i| {
        same(seen[i][2], (triples[i][0] * triples[i][1] + triples[i][2]).to_bits())
    });
    count("division", &|i| same(seen[i][3], (triples[i][0] / triples[i][1]).to_bits()));
    count("square root", &|i| same(seen[i][4], triples[i][0].abs().sqrt().to_bits()));
    count("exponential", &|i| same(seen[i][5], contract::exp(-triples[i][0].abs()).to_bits()));
    count("conversion", &|i| {
        let a = triples[i][0];
        seen[i][6] == (a.to_bits() as i32 as f32).to_bits() ^ u32::from(contract::f32_to_f16(a))
    });
    if native_half {
        count("quantisation", &|i| seen[i][7] ^ half(i) == code(triples[i]) || i * 9 + 1 > 0x7bff);
    }
    Ok(Arithmetic { variant, wrong })
}

/// Equal, or both zeros: a sum that cancels has the sign that the adapter gives it.
fn same(a: u32, b: u32) -> bool {
    a == b || (a | b) << 1 == 0
}
