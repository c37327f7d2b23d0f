//! Disjoint parts of the buffers that a team writes together.
//!
//! A job's results are rectangles of row-major matrices: a range of output rows of a linear for all tokens, a range of tokens
//! of a norm, some heads of one token. [`Grid`] cuts a matrix into such cells; cell `i` belongs to chunk `i` of the job and
//! to nobody else. [`Crew::run`](crate::crew::Crew::run) hands every chunk out once, with its cell, so stages write their
//! results without a word of `unsafe`: all of it that the executor needs stands here and in `crew.rs`.

use std::ops::Range;

use crate::kernels::{BlockMut, Shared};

/// Buffers cut into as many parts as a job has chunks.
///
/// # Safety
/// Parts of two different indices share no element.
pub(crate) unsafe trait Parts: Sync {
    /// What one chunk may write.
    type Part<'p>
    where
        Self: 'p;

    /// Number of parts.
    fn count(&self) -> usize;

    /// The part of one chunk.
    ///
    /// # Safety
    /// While the result lives, no other part of the same index does. `index < count()`.
    unsafe fn part(&self, index: usize) -> Self::Part<'_>;
}

/// A matrix `[rows x columns]`, cut into cells of up to `row_step x column_step`, row of cells after row of cells.
pub(crate) struct Grid<'a, T> {
    data: Shared<'a, T>,
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a, T> Grid<'a, T> {
    /// Cuts `data`, which must be exactly the matrix.
    pub fn new(data: &'a mut [T], rows: usize, columns: usize, row_step: usize, column_step: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "elements of the matrix");
        assert!(row_step > 0 && column_step > 0, "cells of {row_step} x {column_step}");
        Grid { data: Shared::new(data), rows, columns, row_step, column_step }
    }

    /// Cells of `step` whole rows.
    pub fn by_rows(data: &'a mut [T], rows: usize, step: usize) -> Self {
        let columns = data.len().checked_div(rows).unwrap_or(0);
        Grid::new(data, rows, columns, step, columns.max(1))
    }

    /// Cells of `step` columns of all rows.
    pub fn by_columns(data: &'a mut [T], rows: usize, step: usize) -> Self {
        let columns = data.len().checked_div(rows).unwrap_or(0);
        Grid::new(data, rows, columns, rows.max(1), step)
    }
}

// SAFETY: cells of a grid have different rows or different columns.
unsafe impl<T: Send> Parts for Grid<'_, T> {
    type Part<'p>
        = BlockMut<'p, T>
    where
        Self: 'p;

    fn count(&self) -> usize {
        self.rows.div_ceil(self.row_step) * self.columns.div_ceil(self.column_step)
    }

    unsafe fn part(&self, index: usize) -> BlockMut<'_, T> {
        let across = self.columns.div_ceil(self.column_step).max(1);
        let rows = steps(index / across, self.row_step, self.rows);
        let columns = steps(index % across, self.column_step, self.columns);
        let start = rows.start * self.columns + columns.start;
        // SAFETY: a rectangle of its own for every index; the caller asks for each index once.
        unsafe { self.data.block(start, rows.len(), columns.len(), self.columns) }
    }
}

fn steps(index: usize, step: usize, end: usize) -> Range<usize> {
    index * step..((index + 1) * step).min(end)
}

/// Nothing to write but the thread's own scratch: a number of chunks.
// SAFETY: there is no element.
unsafe impl Parts for usize {
    type Part<'p> = ();

    fn count(&self) -> usize {
        *self
    }

    unsafe fn part(&self, _: usize) {}
}

/// A buffer that is only sometimes wanted.
// SAFETY: as the inner parts.
unsafe impl<P: Parts> Parts for Option<P> {
    type Part<'p>
        = Option<P::Part<'p>>
    where
        Self: 'p;

    fn count(&self) -> usize {
        self.as_ref().map_or(usize::MAX, Parts::count)
    }

    unsafe fn part(&self, index: usize) -> Self::Part<'_> {
        // SAFETY: the caller's promise.
        self.as_ref().map(|parts| unsafe { parts.part(index) })
    }
}

/// Two buffers, cut alike.
// SAFETY: as the inner parts.
unsafe impl<A: Parts, B: Parts> Parts for (A, B) {
    type Part<'p>
        = (A::Part<'p>, B::Part<'p>)
    where
        Self: 'p;

    fn count(&self) -> usize {
        self.0.count().min(self.1.count())
    }

    unsafe fn part(&self, index: usize) -> Self::Part<'_> {
        // SAFETY: the caller's promise.
        unsafe { (self.0.part(index), self.1.part(index)) }
    }
}

/// Three buffers, cut alike.
// SAFETY: as the inner parts.
unsafe impl<A: Parts, B: Parts, C: Parts> Parts for (A, B, C) {
    type Part<'p>
        = (A::Part<'p>, B::Part<'p>, C::Part<'p>)
    where
        Self: 'p;

    fn count(&self) -> usize {
        self.0.count().min(self.1.count()).min(self.2.count())
    }

    unsafe fn part(&self, index: usize) -> Self::Part<'_> {
        // SAFETY: the caller's promise.
        unsafe { (self.0.part(index), self.1.part(index), self.2.part(index)) }
    }
}

/// Several matrices one behind the other, for stages that run several linears as one job.
pub(crate) struct Chain<P, const N: usize>(pub [P; N]);

// SAFETY: parts of different matrices are apart, parts of one matrix by its own promise.
unsafe impl<P: Parts, const N: usize> Parts for Chain<P, N> {
    /// The matrix, the index in it, the part.
    type Part<'p>
        = (usize, usize, P::Part<'p>)
    where
        Self: 'p;

    fn count(&self) -> usize {
        self.0.iter().map(Parts::count).sum()
    }

    unsafe fn part(&self, mut index: usize) -> Self::Part<'_> {
        let mut which = 0;
        while which + 1 < N && index >= self.0[which].count() {
            index -= self.0[which].count();
            which += 1;
        }
        // SAFETY: the caller's promise, for this matrix.
        (which, index, unsafe { self.0[which].part(index) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_of_a_grid_cover_it_once() {
        for (rows, columns, row_step, column_step) in
            [(1, 1, 1, 1), (5, 7, 2, 3), (3, 8, 3, 4), (4, 6, 9, 9), (0, 5, 1, 2)]
        {
            let mut data = vec![0u32; rows * columns];
            let grid = Grid::new(&mut data, rows, columns, row_step, column_step);
            for index in 0..grid.count() {
                // SAFETY: one index at a time.
                let mut cell = unsafe { grid.part(index) };
                for row in 0..cell.rows() {
                    cell.row(row).iter_mut().for_each(|value| *value += 1);
                }
            }
            assert!(data.iter().all(|&value| value == 1), "a cell is missing or two overlap: {data:?}");
        }
    }

    #[test]
    fn a_chain_names_the_matrix_and_the_place_in_it() {
        let (mut a, mut b) = ([0u8; 4], [0u8; 6]);
        let chain = Chain([Grid::by_columns(&mut a, 1, 3), Grid::by_columns(&mut b, 2, 2)]);
        assert_eq!(chain.count(), 4);
        // SAFETY: one index at a time.
        let places: Vec<_> =
            (0..4).map(|i| unsafe { chain.part(i) }).map(|(m, i, p)| (m, i, p.rows(), p.columns())).collect();
        assert_eq!(places, [(0, 0, 1, 3), (0, 1, 1, 1), (1, 0, 2, 2), (1, 1, 2, 1)]);
    }
}
