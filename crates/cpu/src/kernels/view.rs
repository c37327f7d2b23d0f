//! Borrowed views that kernels read and write: tiled weights, activations of several tokens, rectangles of a matrix.
//!
//! A thread owns a range of tiles, which is a range of columns of a `[tokens x rows]` result: a rectangle, not a slice. So
//! results go through [`BlockMut`] (pointer, size, stride), and [`Shared`] hands out disjoint ones to several threads.
//! Everything here checks its bounds when it is made; kernels rely on that.

use std::marker::PhantomData;
use std::ops::Range;

use rawloop_spec::{Bits, tile};

/// More inputs than this could overflow an i32 sum of unsigned 8-bit codes times int8 (255 * 128 * 65536 < 2^31).
pub const MAX_COLUMNS: usize = 65_536;

/// Why bytes are not a tiled matrix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TilesError {
    /// The number of inputs does not fit the layout.
    #[error(
        "a tiled matrix has a multiple of 32 inputs, 32 to 65536, not {columns}; convert the checkpoint again"
    )]
    Columns {
        /// Inputs asked for.
        columns: usize,
    },
    /// The bytes are too few or too many for the shape.
    #[error("{rows} x {columns} codes of {bits} bits take {expected} bytes in tiles, but there are {found}")]
    Bytes {
        /// Rows of the matrix.
        rows: usize,
        /// Inputs of the matrix.
        columns: usize,
        /// Width of a code.
        bits: usize,
        /// What the shape takes.
        expected: usize,
        /// What was given.
        found: usize,
    },
}

/// A weight matrix `[rows x columns]` in the tile layout of [`rawloop_spec::tile`].
#[derive(Clone, Copy, Debug)]
pub struct Tiles<'a> {
    bits: Bits,
    rows: usize,
    columns: usize,
    data: &'a [u8],
}

impl<'a> Tiles<'a> {
    /// Wraps `data`, which must be exactly the tiles of the shape. Alignment to 64 bytes is faster and not required.
    pub fn new(bits: Bits, rows: usize, columns: usize, data: &'a [u8]) -> Result<Self, TilesError> {
        if columns == 0 || columns > MAX_COLUMNS || !columns.is_multiple_of(tile::COLUMN_MULTIPLE) {
            return Err(TilesError::Columns { columns });
        }
        let expected = tile::count(bits, rows).saturating_mul(tile::tile_bytes(bits, columns));
        if data.len() != expected {
            return Err(TilesError::Bytes { rows, columns, bits: bits.width(), expected, found: data.len() });
        }
        Ok(Tiles { bits, rows, columns, data })
    }

    /// Width of a code.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// Rows of the matrix, without those that fill up the last tile.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of each row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of tiles.
    pub fn count(&self) -> usize {
        tile::count(self.bits, self.rows)
    }

    /// Rows of one tile: 16, 32 or 64.
    pub fn tile_rows(&self) -> usize {
        tile::rows(self.bits)
    }

    /// The bytes of a range of tiles.
    ///
    /// # Panics
    /// If the range ends beyond [`Tiles::count`].
    pub fn slice(&self, tiles: Range<usize>) -> &'a [u8] {
        let bytes = tile::tile_bytes(self.bits, self.columns);
        &self.data[tiles.start * bytes..tiles.end * bytes]
    }
}

/// Quantised inputs of some tokens: `[tokens x columns]` codes with a stride, and the sum of each token's codes.
#[derive(Clone, Copy, Debug)]
pub struct Activations<'a> {
    codes: &'a [i8],
    stride: usize,
    columns: usize,
    sums: &'a [i32],
}

impl<'a> Activations<'a> {
    /// Token `i` has the codes `codes[i * stride ..][.. columns]` and the sum `sums[i]`.
    ///
    /// # Panics
    /// If `codes` is too short for `sums.len()` tokens.
    pub fn new(codes: &'a [i8], stride: usize, columns: usize, sums: &'a [i32]) -> Self {
        assert!(columns <= stride, "a stride of {stride} is shorter than {columns} columns");
        assert!(
            sums.is_empty() || codes.len() >= (sums.len() - 1) * stride + columns,
            "{} codes are too few for {} tokens of stride {stride}",
            codes.len(),
            sums.len()
        );
        Activations { codes, stride, columns, sums }
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.sums.len()
    }

    /// Codes of a token.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Codes of token `i`.
    pub fn token(&self, i: usize) -> &'a [i8] {
        &self.codes[i * self.stride..][..self.columns]
    }

    /// Sum of the codes of token `i`.
    pub fn sum(&self, i: usize) -> i32 {
        self.sums[i]
    }
}

// The kernels of an instruction set walk by pointer; a target may have none.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")),
    allow(dead_code)
)]
impl<'a> Activations<'a> {
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    pub(crate) fn sums(&self) -> &'a [i32] {
        self.sums
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn as_ptr(&self) -> *const i8 {
        self.codes.as_ptr()
    }
}

/// A rectangle `[rows x columns]` of a row-major matrix, to read.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a, T> {
    start: *const T,
    rows: usize,
    columns: usize,
    stride: usize,
    borrow: PhantomData<&'a [T]>,
}

// SAFETY: a block is a shared borrow of its elements, like `&[T]`.
unsafe impl<T: Sync> Send for Block<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Block<'_, T> {}

impl<'a, T> Block<'a, T> {
    /// Rows of `columns` elements, each `stride` elements after the one before.
    ///
    /// # Panics
    /// If `data` is too short.
    pub fn new(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        check(data.len(), rows, columns, stride);
        Block { start: data.as_ptr(), rows, columns, stride, borrow: PhantomData }
    }

    /// One row.
    pub fn row_of(data: &'a [T]) -> Self {
        Block::new(data, 1, data.len(), data.len())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &'a [T] {
        assert!(i < self.rows, "row {i} of a block of {}", self.rows);
        // SAFETY: the constructor checked that every row lies inside the borrowed slice.
        unsafe { std::slice::from_raw_parts(self.start.add(i * self.stride), self.columns) }
    }
}

/// A rectangle `[rows x columns]` of a row-major matrix, to write.
#[derive(Debug)]
pub struct BlockMut<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    stride: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a block is an exclusive borrow of its elements, like `&mut [T]`.
unsafe impl<T: Send> Send for BlockMut<'_, T> {}

impl<'a, T> BlockMut<'a, T> {
    /// Rows of `columns` elements, each `stride` elements after the one before.
    ///
    /// # Panics
    /// If `data` is too short.
    pub fn new(data: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        check(data.len(), rows, columns, stride);
        BlockMut { start: data.as_mut_ptr(), rows, columns, stride, borrow: PhantomData }
    }

    /// One row.
    pub fn row_of(data: &'a mut [T]) -> Self {
        let columns = data.len();
        BlockMut::new(data, 1, columns, columns)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Row `i`.
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row {i} of a block of {}", self.rows);
        // SAFETY: the constructor checked that every row lies inside the borrowed slice; `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.columns) }
    }

    /// The same elements, to read.
    pub fn as_block(&self) -> Block<'_, T> {
        Block {
            start: self.start,
            rows: self.rows,
            columns: self.columns,
            stride: self.stride,
            borrow: PhantomData,
        }
    }

    /// A rectangle of this one.
    ///
    /// # Panics
    /// If the range ends beyond this block.
    pub fn columns_mut(&mut self, columns: Range<usize>) -> BlockMut<'_, T> {
        assert!(
            columns.start <= columns.end && columns.end <= self.columns,
            "columns {columns:?} of {}",
            self.columns
        );
        BlockMut {
            // An empty block may have no element at all to point to.
            start: if self.rows == 0 { self.start } else { self.start.wrapping_add(columns.start) },
            rows: self.rows,
            columns: columns.len(),
            stride: self.stride,
            borrow: PhantomData,
        }
    }
}

// As for `Activations`.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")),
    allow(dead_code)
)]
impl<T> BlockMut<'_, T> {
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }
}

/// A matrix that the threads of a team write together, each its own rectangle or range.
#[derive(Debug)]
pub struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: `Shared` gives access only through `unsafe` methods whose callers promise disjoint parts.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: it is an exclusive borrow, like `&mut [T]`.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Borrows `data` until the `Shared` is dropped.
    pub fn new(data: &'a mut [T]) -> Self {
        Shared { start: data.as_mut_ptr(), len: data.len(), borrow: PhantomData }
    }

    /// Elements `range`.
    ///
    /// # Panics
    /// If the range ends beyond the data.
    ///
    /// # Safety
    /// While the result lives, no other slice or block of this `Shared` holds one of its elements.
    #[allow(clippy::mut_from_ref)] // The caller promises what the borrow checker cannot see.
    pub unsafe fn range(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "elements {range:?} of {}", self.len);
        // SAFETY: inside the data by the assertion, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// The rectangle whose first element is `start`, of `rows` rows of `columns` elements, `stride` apart.
    ///
    /// # Panics
    /// If the rectangle ends beyond the data.
    ///
    /// # Safety
    /// While the result lives, no other slice or block of this `Shared` holds one of its elements.
    pub unsafe fn block(&self, start: usize, rows: usize, columns: usize, stride: usize) -> BlockMut<'_, T> {
        assert!(start <= self.len, "element {start} of {}", self.len);
        check(self.len - start, rows, columns, stride);
        // SAFETY: `start` is inside the data or one past its end.
        BlockMut { start: unsafe { self.start.add(start) }, rows, columns, stride, borrow: PhantomData }
    }
}

fn check(len: usize, rows: usize, columns: usize, stride: usize) {
    assert!(columns <= stride || rows <= 1, "a stride of {stride} is shorter than {columns} columns");
    let end = if rows == 0 {
        0
    } else {
        (rows - 1).checked_mul(stride).and_then(|n| n.checked_add(columns)).unwrap_or(usize::MAX)
    };
    assert!(end <= len, "{len} elements are too few for {rows} rows of {columns}, {stride} apart");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_holds_its_rows_and_nothing_else() {
        let mut data: Vec<u32> = (0..20).collect();
        let mut block = BlockMut::new(&mut data, 3, 4, 7);
        assert_eq!(block.row(2), [14, 15, 16, 17]);
        let mut part = block.columns_mut(1..3);
        assert_eq!((part.rows(), part.columns()), (3, 2));
        part.row(1)[1] = 99;
        assert_eq!(block.as_block().row(1), [7, 8, 99, 10]);
        assert_eq!(data[9], 99);
        assert_eq!(Block::new(&data, 0, 4, 7).rows(), 0);
        assert_eq!(Block::row_of(&data).row(0), data);
    }

    #[test]
    fn threads_share_a_matrix_by_rectangles_and_ranges() {
        let mut data = vec![0u32; 12];
        let shared = Shared::new(&mut data);
        std::thread::scope(|scope| {
            for part in 0..2 {
                let shared = &shared;
                scope.spawn(move || {
                    // SAFETY: the rectangles of the two threads are disjoint.
                    let mut block = unsafe { shared.block(part * 2, 3, 2, 4) };
                    (0..3).for_each(|row| block.row(row).fill(1 + part as u32));
                });
            }
        });
        // SAFETY: the threads have ended.
        assert_eq!(unsafe { shared.range(4..8) }, [1, 1, 2, 2]);
        assert_eq!(data, [1, 1, 2, 2].repeat(3));
    }

    #[test]
    #[should_panic(expected = "too few for 3 rows of 4")]
    fn a_rectangle_beyond_its_data_is_refused() {
        Block::new(&[0u8; 17], 3, 4, 7);
    }

    #[test]
    #[should_panic(expected = "shorter than 4 columns")]
    fn overlapping_rows_are_refused() {
        BlockMut::new(&mut [0u8; 64], 3, 4, 3);
    }

    #[test]
    #[should_panic(expected = "too few for 2 rows of 4")]
    fn a_shared_rectangle_beyond_its_data_is_refused() {
        let mut data = [0u8; 12];
        let shared = Shared::new(&mut data);
        // SAFETY: nothing else holds the data.
        unsafe { shared.block(5, 2, 4, 4) };
    }

    #[test]
    #[should_panic(expected = "too few for 2 tokens")]
    fn activations_beyond_their_codes_are_refused() {
        Activations::new(&[0; 63], 32, 32, &[0, 0]);
    }
}
