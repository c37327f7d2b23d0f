//! The two ends of a token: embedding and per-layer inputs before the layers; final norm, head, and pick or draw behind them.

use std::ops::Range;

use crate::draw;
use crate::driver::Launch;
use crate::form::{End, Role};
use crate::options::DriverError;
use crate::params::{EmbedProject, FinalHead, Head, Project, Scale, argument};

use super::{Builder, EIGHT, List};

/// Bytes of a warp's ring in the head, which streams longest.
const HEAD_RING: usize = 16 * 512;

impl Builder<'_> {
    /// The head over `count` columns from `first` on, at most [`Builder::head_width`]: logits or best rows.
    pub fn head(
        &mut self,
        first: usize,
        count: usize,
        best: u64,
        logits: u64,
        early: bool,
    ) -> Result<Launch, DriverError> {
        let m = self.weights.head;
        let hidden = self.weights.geometry.hidden;
        let (blocks, each) = self.head_cut();
        let (name, tokens) = if count == 1 { ("head", 1) } else { ("head_wide", 2) };
        let x = m.split_k as usize * 128 + 32;
        let shared = self.device.warps * HEAD_RING + each * 16 * 3 * tokens * 4 + 3 * tokens * x;
        let (name, shared) = self.head_of_several(count, HEAD_RING).unwrap_or((name, shared));
        let head = Head {
            m,
            hidden: self.room.last.address() + (4 * first * hidden) as u64,
            logits,
            best,
            width: hidden as i32,
            count: count as i32,
            row_blocks: each as i32,
            fill: 0,
        };
        let grid = (blocks as u32, 1, 1);
        self.launch(name, grid, self.threads(), shared, vec![argument(head)], early, Role::Head)
    }

    /// Blocks of the head's grid, and row blocks of each.
    fn head_cut(&self) -> (usize, usize) {
        let row_blocks = (self.weights.head.rows as usize).div_ceil(16);
        let each = row_blocks.div_ceil(self.device.about.multiprocessors).clamp(1, 128);
        (row_blocks.div_ceil(each), each)
    }
}

impl List<'_, '_> {
    /// Rules 10 and 11: the stream's start and the per-layer inputs of some layers.
    pub(super) fn inputs(&mut self, run: Range<usize>) -> Result<(), DriverError> {
        let begins = self.begins_at_once(run.start)?;
        let Builder { weights, room, device, .. } = &*self.builder;
        let (weights, room) = (*weights, *room);
        let geometry = &weights.geometry;
        let (hidden, width, columns) = (geometry.hidden, geometry.ple_width, self.form.columns);
        let multiprocessors = device.about.multiprocessors;
        let stream = room.hidden[0].address();
        if !begins {
            let arguments = vec![argument(weights.embed), argument(room.columns.address()), argument(stream)];
            self.embed(run.start, arguments)?;
        }
        let stride = geometry.layers.len() * width;
        // What lies before the first of these layers: rows of the projection, values of a column.
        let (layers, skipped) = (run.len(), run.start * width);
        let row_bytes = weights.projection_chunks * 32 * 16;
        let inputs = room.per_layer_inputs.address() + (4 * skipped) as u64;
        let table_bytes = weights.ple.columns as usize * weights.ple.bits as usize / 8;
        // Eight columns at a time: the sums of a row stay in registers.
        for first in (0..columns).step_by(EIGHT) {
            let count = EIGHT.min(columns - first);
            let at = |address: u64, bytes: usize| address + (first * bytes) as u64;
            let project = Project {
                weights: weights.model_projection + (skipped * row_bytes) as u64,
                hidden: at(stream, 4 * hidden),
                out: at(inputs, 4 * stride),
                columns: at(room.columns.address(), size_of::<crate::params::Column>()),
                table_rows: at(room.table_rows.address(), table_bytes),
                table_scales: at(room.table_scales.address(), 4 * geometry.layers.len()),
                table: weights.ple,
                factor: (1.0 / (hidden as f64).sqrt()) as f32,
                rows: (layers * width) as i32,
                width: hidden as i32,
                chunks: weights.projection_chunks as i32,
                out_stride: stride as i32,
                count: count as i32,
            };
            let (name, kept) = if self.narrow() { ("project", 1) } else { ("project_wide", EIGHT) };
            let (name, kept) = self.project_of_several().unwrap_or((name, kept));
            let blocks = (layers * width).div_ceil(64).clamp(1, multiprocessors) + 1;
            if begins {
                let sums = room.sums[self.output_sums(run.start)].address();
                let params = EmbedProject {
                    project,
                    embed: weights.embed,
                    stream,
                    zero: sums,
                    zero_count: hidden as i32,
                    fill: 0,
                };
                let shared = weights.projection_chunks * 256 * 4;
                self.push_one("embed_project", (blocks, 1, 1), 512, shared, params, Role::Project)?;
                continue;
            }
            self.push_one(name, (blocks, 1, 1), 512, kept * hidden * 4, project, Role::Project)?;
        }
        let arguments = vec![
            argument(weights.ple),
            argument(room.table_rows.address() + (skipped * weights.ple.bits as usize / 8) as u64),
            argument(room.table_scales.address() + (4 * run.start) as u64),
            argument(weights.ple_norm),
            argument(inputs),
            argument(stride as i32),
            argument(width as i32),
            argument(std::f64::consts::FRAC_1_SQRT_2 as f32),
        ];
        self.push("combine", (layers.max(1), columns, 1), 32, 0, arguments, Role::Combine)
    }

    /// The final norm of every column.
    fn last(&mut self) -> Result<(), DriverError> {
        let enter = self.enter(self.builder.weights.final_norm, Scale::default());
        let room = self.builder.room;
        let arguments = vec![argument(enter), argument(0u64), argument(0i32), argument(room.last.address())];
        self.push(
            "enter_rows",
            (self.form.columns, 1, 1),
            self.builder.threads(),
            self.enter_bytes(1),
            arguments,
            Role::Final,
        )
    }

    /// What follows behind the layers.
    pub(super) fn end(&mut self) -> Result<(), DriverError> {
        let chain = self.builder.room.chain.address();
        let at_once = self.ends_at_once()?;
        match self.form.end {
            End::Open => self.last(),
            End::Pick if at_once => self.final_head(0, chain),
            End::Pick => self.pick(),
            End::Draw => self.draw(at_once),
        }
    }

    /// Whether final norm and head are one kernel: a thread has four values of the stream at most, and a block has room for the entry's vectors beside the head's ring.
    fn ends_at_once(&mut self) -> Result<bool, DriverError> {
        let short = self.builder.weights.geometry.hidden <= 4 * self.builder.threads() as usize;
        let shared = self.final_head_shared();
        let Builder { device, functions, .. } = &mut *self.builder;
        Ok(short && shared <= functions.get(device, "final_head")?.dynamic)
    }

    fn final_head_shared(&self) -> usize {
        let (_, each) = self.builder.head_cut();
        let rest = each * 16 * 3 * 4 + 3 * (self.builder.weights.head.split_k as usize * 128 + 32);
        self.builder.device.warps * HEAD_RING + rest.max(self.enter_bytes(1))
    }

    /// Final norm and head of one column; behind logits nothing, for a chain the pick, too.
    fn final_head(&mut self, logits: u64, chain: u64) -> Result<(), DriverError> {
        let (blocks, each) = self.builder.head_cut();
        let enter = self.enter(self.builder.weights.final_norm, Scale::default());
        let room = self.builder.room;
        let (m, hidden) = (self.builder.weights.head, self.builder.weights.geometry.hidden);
        let head =
            Head { m, logits, width: hidden as i32, count: 1, row_blocks: each as i32, ..Head::default() };
        let (last, column) = (room.last.address(), room.columns.address());
        let params = FinalHead { head, enter, last, chain, column };
        let (threads, shared) = (self.builder.threads(), self.final_head_shared());
        self.push_one("final_head", (blocks, 1, 1), threads, shared, params, Role::Head)
    }

    /// The head, and what makes its best row the next token.
    fn pick(&mut self) -> Result<(), DriverError> {
        self.last()?;
        let room = self.builder.room;
        // The chain's best row is its second word.
        let head = self.builder.head(0, 1, room.chain.address() + 8, 0, true)?;
        self.launches.push(head);
        let arguments = vec![argument(room.chain.address()), argument(room.columns.address())];
        self.push("pick", (1, 1, 1), 1, 0, arguments, Role::Pick)
    }

    /// The head's logits, and what draws the next token from them.
    fn draw(&mut self, at_once: bool) -> Result<(), DriverError> {
        let room = self.builder.room;
        let vocab = self.builder.weights.geometry.vocab;
        if at_once {
            self.final_head(room.logits.address(), 0)?;
        } else {
            self.last()?;
            let head = self.builder.head(0, 1, 0, room.logits.address(), true)?;
            self.launches.push(head);
        }
        let slices = draw::slices(vocab);
        let (draw, lists) = (argument(room.draw.address()), argument(room.lists.address()));
        let arguments =
            vec![draw.clone(), argument(room.logits.address()), argument(vocab as i32), lists.clone()];
        self.push("draw_slices", (slices, 1, 1), draw::THREADS[0], 0, arguments, Role::Draw)?;
        let arguments = vec![
            draw,
            lists,
            argument(slices as i32),
            argument(room.chain.address()),
            argument(room.columns.address()),
        ];
        self.push("draw_pick", (1, 1, 1), draw::THREADS[1], 0, arguments, Role::Draw)
    }
}
