//! Time by stage kind: every kernel of a token launched alone, many times, between two events.
//!
//! Alone means that nothing overlaps, so the sum is more than a token takes; the parts say where a token's time can be.

use std::collections::BTreeMap;
use std::ptr;

use cudarc::driver::sys;
use rawloop_backend::{Backend, BackendError};

use crate::backend::{CudaBackend, failed};
use crate::driver::{Device, Launch, check};
use crate::form::{End, Form, NEIGHBOURS, Part, Reach, Role};
use crate::options::DriverError;
use crate::params::{Column, Stamps};
use crate::room::TapRoom;
use crate::runner::STAMPED;

/// Launches of one kernel between two events.
const REPEATS: usize = 20;

fn name(role: Role) -> &'static str {
    match role {
        Role::Embed => "embed",
        Role::Project | Role::Combine => "per_layer_inputs",
        Role::Qkv(_) => "norm_qkv",
        Role::Attend(_) => "attention",
        Role::Output(_) => "output",
        Role::GateUp(_) => "norm_gate_up",
        Role::Down(_) => "down",
        Role::Ffn(_) => "ffn",
        Role::PleGate(_) => "ple_gate",
        Role::PleProjection(_) => "ple_projection",
        Role::Ple(_) => "ple",
        Role::Final => "final_norm",
        Role::Head => "head",
        Role::Pick => "pick",
        Role::Draw => "draw",
        Role::Other => "other",
    }
}

/// When a stage of a token in the middle of a run was where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageClocks {
    /// Stage kind.
    pub stage: &'static str,
    /// Of the first block: it started, all before it had finished, its input was there, its sums were, it ended. Nanoseconds of the card's clock.
    pub nanoseconds: [u64; 5],
    /// The same in cycles of its multiprocessor.
    pub cycles: [u64; 5],
}

impl CudaBackend {
    /// Clocks of the stages of the last token of the last run, in the order of the program. Nothing without [`crate::Trial::stamps`] and kernels that
    /// were built with them.
    ///
    /// # Errors
    /// The card refuses.
    pub fn stage_clocks(&mut self, position: usize) -> Result<Vec<StageClocks>, BackendError> {
        let form = Form {
            columns: 1,
            part: Part::Whole,
            end: End::Pick,
            reach: Reach::of(position),
            neighbours: false,
        };
        self.clocks_of(form, 0)
    }

    /// The same of the last verification of `columns` tokens, 2 to 8, that ended before `position`.
    ///
    /// # Errors
    /// The card refuses.
    pub fn verification_clocks(
        &mut self,
        position: usize,
        columns: usize,
    ) -> Result<Vec<StageClocks>, BackendError> {
        let (reach, neighbours) = (Reach::of(position), (2..=NEIGHBOURS).contains(&columns));
        let form = Form { columns, part: Part::Whole, end: End::Open, reach, neighbours };
        self.clocks_of(form, STAMPED / 2)
    }

    /// Names of the kernels of a pass of 1 to 8 columns, of all layers, that ends at `position`: those of a run's token, or of a verification. Tests ask
    /// whether a way ran, since what cannot run one way runs another.
    ///
    /// # Errors
    /// The card refuses.
    #[doc(hidden)]
    pub fn kernels(&mut self, position: usize, columns: usize) -> Result<Vec<&'static str>, BackendError> {
        self.runner.device.bind().map_err(failed)?;
        let end = if columns == 1 { End::Pick } else { End::Open };
        let (reach, neighbours) = (Reach::of(position), (2..=NEIGHBOURS).contains(&columns));
        let form = Form { columns, part: Part::Whole, end, reach, neighbours };
        let launches = self.runner.launches(form, TapRoom::default()).map_err(failed)?;
        Ok(launches.iter().map(|launch| launch.name).collect())
    }

    /// The same of a prompt's pass of `count` tokens; none where the model has no such passes.
    ///
    /// # Errors
    /// The card refuses.
    #[doc(hidden)]
    pub fn prompt_kernels(&mut self, count: usize) -> Result<Vec<&'static str>, BackendError> {
        self.runner.device.bind().map_err(failed)?;
        let columns = (0..count).map(|position| Column { kv: 0, token: 2, position: position as i32 });
        let (launches, _) = self.runner.bulk_launches(columns, false).map_err(failed)?;
        Ok(launches.iter().map(|launch| launch.name).collect())
    }

    /// Of a form whose clocks lie from number `first` on.
    fn clocks_of(&mut self, form: Form, first: usize) -> Result<Vec<StageClocks>, BackendError> {
        let launches = self.runner.launches(form, TapRoom::default()).map_err(failed)?;
        let Some(stamps) = &self.runner.stamps else { return Ok(Vec::new()) };
        let mut found = vec![Stamps::default(); launches.len().min(STAMPED / 2)];
        stamps.read(first * size_of::<Stamps>(), &mut found).map_err(failed)?;
        let clocks = launches.iter().zip(found).filter(|(_, Stamps(stamps))| stamps[0][0] != 0);
        Ok(clocks
            .map(|(launch, Stamps(stamps))| StageClocks {
                stage: name(launch.role),
                nanoseconds: stamps.map(|stamp| stamp[0]),
                cycles: stamps.map(|stamp| stamp[1]),
            })
            .collect())
    }

    /// Microseconds of a token at `position` by stage kind, each kernel launched alone.
    ///
    /// # Errors
    /// The card refuses, or there is no memory for a sequence.
    pub fn stage_times(&mut self, position: usize) -> Result<Vec<(&'static str, f64)>, BackendError> {
        let sequence = self.create()?;
        let index = self.sequences.index(sequence)?;
        let times = self.stage_times_at(index, position).map_err(failed);
        self.free(sequence);
        times
    }

    fn stage_times_at(
        &mut self,
        index: usize,
        position: usize,
    ) -> Result<Vec<(&'static str, f64)>, DriverError> {
        let device = self.runner.device.clone();
        let position = position.min(self.runner.layout.context - 1);
        let kv = self.sequences.list[index].cache.address();
        self.runner.rope.reach(position + 1)?;
        self.runner.reset_chain(&[])?;
        self.runner.send(std::iter::once(Column { kv, token: 2, position: position as i32 }))?;
        let form = Form {
            columns: 1,
            part: Part::Whole,
            end: End::Pick,
            reach: Reach::of(position),
            neighbours: false,
        };
        let launches = self.runner.launches(form, TapRoom::default())?;
        times_alone(&device, launches.iter().filter(|launch| launch.role != Role::Pick))
    }

    /// Microseconds of a prompt's pass of `count` tokens by stage kind, each kernel launched alone; nothing where the model has no such passes.
    ///
    /// # Errors
    /// The card refuses, or there is no memory for a sequence.
    pub fn prompt_times(&mut self, count: usize) -> Result<Vec<(&'static str, f64)>, BackendError> {
        let sequence = self.create()?;
        let index = self.sequences.index(sequence)?;
        let times = self.prompt_times_at(index, count).map_err(failed);
        self.free(sequence);
        times
    }

    fn prompt_times_at(
        &mut self,
        index: usize,
        count: usize,
    ) -> Result<Vec<(&'static str, f64)>, DriverError> {
        let device = self.runner.device.clone();
        let Some(room) = &self.runner.bulk else { return Ok(Vec::new()) };
        let count = count.min(room.width);
        let kv = self.sequences.list[index].cache.address();
        self.runner.rope.reach(count)?;
        let columns = (0..count).map(|position| Column { kv, token: 2, position: position as i32 });
        let (launches, _) = self.runner.bulk_launches(columns, false)?;
        times_alone(&device, launches.iter())
    }
}

/// Microseconds by stage kind of launches, each alone.
fn times_alone<'a>(
    device: &Device,
    mut launches: impl Iterator<Item = &'a Launch>,
) -> Result<Vec<(&'static str, f64)>, DriverError> {
    let (mut before, mut after) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: outputs are locals; both events are destroyed below.
    unsafe {
        check(sys::cuEventCreate(&mut before, 0), "making an event")?;
        check(sys::cuEventCreate(&mut after, 0), "making an event")?;
    }
    let mut times = BTreeMap::new();
    let result = launches.try_for_each(|launch| {
        let mut milliseconds = 0.0;
        device.launch(launch)?;
        // SAFETY: live events and stream.
        unsafe {
            check(sys::cuEventRecord(before, device.stream), "recording an event")?;
            for _ in 0..REPEATS {
                device.launch(launch)?;
            }
            check(sys::cuEventRecord(after, device.stream), "recording an event")?;
            device.synchronize()?;
            check(sys::cuEventElapsedTime_v2(&mut milliseconds, before, after), "reading a time")?;
        }
        *times.entry(name(launch.role)).or_insert(0.0) += f64::from(milliseconds) * 1e3 / REPEATS as f64;
        Ok(())
    });
    // SAFETY: made above, used no more.
    unsafe {
        let _ = sys::cuEventDestroy_v2(before);
        let _ = sys::cuEventDestroy_v2(after);
    }
    result.map(|()| times.into_iter().collect())
}
