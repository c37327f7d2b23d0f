//! A linear stage as a launch: its entry (a norm and what joins the residual stream), the cut of its matrix into blocks of the grid, its
//! shared memory, which `kernels/stages.cu` divides in the same order.

use crate::form::{End, Part, Role};
use crate::options::DriverError;
use crate::params::{Enter, Linear, Matrix, Scale, Stamps, argument};
use crate::runner::STAMPED;
use crate::weights::{STATIC_SHARED, enter_shared};

use super::{EIGHT, List, MERGE_CHUNK, WIDEST_SHARED, WIDTH};

/// Units of 512 bytes in the ring of a warp at most.
const DEPTH: usize = 12;
/// Weights of a block of the grid that come at once at most.
const WHOLE: usize = 80 << 10;

/// A linear whose sums have yet to join the residual stream.
#[derive(Clone, Copy)]
pub(super) struct Joining {
    sums: u64,
    matrix: Matrix,
    norm: u64,
    scalar: f32,
}

/// What a stage kernel hands on (`kernels/stages.cu`).
#[derive(Clone, Copy)]
pub(crate) enum OutputKind {
    Sums = 0,
    Codes = 1,
    Ffn = 2,
    Product = 3,
}

/// How a linear is cut into blocks of the grid.
pub(super) struct Cut {
    /// Blocks of the grid, and how many parts of K.
    pub blocks: usize,
    pub parts: usize,
    /// Row blocks of one; of gate and up, pairs.
    pub row_blocks: usize,
    /// Matrices of a block of the grid.
    pub spans: usize,
}

impl List<'_, '_> {
    /// The entry of a stage that quantises with `input` behind `norm`; the joining linear is used up.
    pub(super) fn enter(&mut self, norm: u64, input: Scale) -> Enter {
        let room = self.builder.room;
        let hidden_in = room.hidden[self.stream].address();
        let mut enter = Enter {
            hidden_in,
            norm,
            input,
            count: Scale::new(self.builder.weights.geometry.hidden as f32),
            hidden: self.builder.weights.geometry.hidden as i32,
            ..Enter::default()
        };
        if let Some(joining) = self.joining.take() {
            self.stream ^= 1;
            enter.sums = joining.sums;
            enter.multipliers = joining.matrix.multipliers;
            enter.join_norm = joining.norm;
            enter.join = joining.matrix.output;
            enter.scalar = joining.scalar;
            enter.hidden_out = room.hidden[self.stream].address();
            enter.tap_joined = self.builder.taps.joined;
        }
        enter
    }

    /// Whether columns enter and merge in the kernels of the linears, as in the narrow form.
    pub(super) fn fused(&self) -> bool {
        self.narrow() || self.form.columns <= EIGHT && self.builder.device.shared >= WIDEST_SHARED
    }

    /// Shared memory of the entries of some columns.
    pub(super) fn enter_bytes(&self, columns: usize) -> usize {
        enter_shared(self.builder.weights.geometry.hidden, columns)
    }

    /// One linear stage. `base` has everything but the entry, the cut and the columns.
    pub(super) fn stage(
        &mut self,
        output: OutputKind,
        mut base: Linear,
        entry: Option<(u64, Scale)>,
        role: Role,
        cut: Cut,
    ) -> Result<(), DriverError> {
        let (narrow, columns) = (self.narrow(), self.form.columns);
        let stride = self.builder.room.code_stride;
        let (name, kept) = match columns {
            1 => ("stage_narrow", 1),
            2..=EIGHT => ("stage_wide", EIGHT),
            _ => ("stage_widest", WIDTH),
        };
        let fused = self.fused();
        let split_k = base.m.iter().map(|m| m.split_k as usize).max().unwrap_or(0);
        // All of a block's weights come at once where they fit.
        let units = cut.row_blocks * cut.spans * split_k;
        let whole = self.builder.trial.whole.unwrap_or(WHOLE);
        let ring = if units * 512 > whole { DEPTH } else { 0 };
        base.ring = ring as i32;
        let mut shared = 512 * if ring == 0 { units } else { self.builder.device.warps * ring };
        if fused && base.merge.heads > 0 {
            base.input_kind = 2;
            shared += columns * base.merge.heads as usize * 3 * MERGE_CHUNK * 4;
        }
        let x = base.m.iter().filter(|m| m.bits > 0).map(|m| (m.split_k * (256 / m.bits)) as usize);
        let x = x.max().unwrap_or(0) + if narrow { 0 } else { 32 };
        let rows = cut.row_blocks * 16 * cut.spans;
        // The GELU table is counted whether the stage has one or not.
        shared += 1024 + rows * 4 + rows * kept * 4 + kept * x;
        if let Some((norm, scale)) = entry {
            let enter = self.enter(norm, scale);
            let room = shared + self.enter_bytes(columns);
            // The widest streams have no room for all columns' entries beside a block's weights.
            if fused && room + STATIC_SHARED <= self.builder.device.shared {
                base.enter = enter;
                base.input_kind = 1;
                shared = room;
            } else {
                self.enter_rows(enter, role)?;
                base.input = self.builder.room.input.address();
                base.input_stride = stride as i32;
            }
        }
        base.columns = columns as i32;
        base.output_kind = output as i32;
        base.row_blocks = cut.row_blocks as i32;
        base.tap_input = self.builder.taps.input;
        base.stamps = self.stamped();
        let several = self.stage_of_several(&base, &cut);
        let (name, shared) = several.unwrap_or((name, shared));
        let threads = self.builder.threads();
        self.push_one(name, (cut.blocks, cut.parts, 1), threads, shared, base, role)?;
        if several.is_some() && base.input_kind == 1 {
            self.enters_in_clusters();
        }
        Ok(())
    }

    /// Where the next launch of a decode run or of a verification writes its clocks, the two having a half of the room each; 0 where it does not.
    pub(super) fn stamped(&self) -> u64 {
        let verifies = (2..=EIGHT).contains(&self.form.columns) && self.form.part == Part::Whole;
        let first = if verifies { STAMPED / 2 } else { 0 };
        let (stamps, index) = (self.builder.stamps, self.launches.len());
        if stamps == 0 || index >= STAMPED / 2 || !(verifies || self.form.end == End::Pick) {
            return 0;
        }
        stamps + (size_of::<Stamps>() * (first + index)) as u64
    }

    pub(super) fn enter_rows(&mut self, enter: Enter, role: Role) -> Result<(), DriverError> {
        let room = self.builder.room;
        let arguments = vec![
            argument(enter),
            argument(room.input.address()),
            argument(room.code_stride as i32),
            argument(0u64),
        ];
        let (threads, shared) = (self.builder.threads(), self.enter_bytes(1));
        self.push("enter_rows", (self.form.columns, 1, 1), threads, shared, arguments, role)
    }

    /// The parts of a linear whose sums go to buffer `index`.
    pub(super) fn sums_out(&self, matrix: Matrix, index: usize) -> Linear {
        let room = self.builder.room;
        Linear {
            m: [matrix, Matrix::default(), Matrix::default()],
            matrices: 1,
            sums: room.sums[index].address(),
            sums_stride: self.builder.weights.geometry.hidden as i32,
            ..Linear::default()
        }
    }

    pub(super) fn joins(&mut self, index: usize, matrix: Matrix, norm: u64, scalar: f32) {
        self.joining = Some(Joining { sums: self.builder.room.sums[index].address(), matrix, norm, scalar });
    }

    /// Rows of a block of the grid of a linear whose K is in parts.
    pub(super) fn cut_sums(&self, matrix: &Matrix) -> Cut {
        let (row_blocks, splits) = ((matrix.rows as usize).div_ceil(16), matrix.splits as usize);
        let each = (row_blocks * splits).div_ceil(self.multiprocessors()).max(1);
        Cut { blocks: row_blocks.div_ceil(each), parts: splits, row_blocks: each, spans: 1 }
    }
}
