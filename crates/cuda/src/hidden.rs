//! Final norms of a sequence's last positions that ran the full list: what a draft starts from.
//!
//! A verification runs several positions and keeps some of them. What is drafted next starts from the last one kept, which is
//! rarely the last one run; so each row stays on the card until it is overwritten, and a cut shortens the range and copies nothing.

use std::ops::Range;
use std::sync::Arc;

use rawloop_backend::DRAFT_REWIND;

use crate::driver::Device;
use crate::memory::DeviceBytes;
use crate::options::DriverError;

/// Rows that are kept: the last position's, and those that a rejected draft leads back to.
const KEPT: usize = DRAFT_REWIND + 1;

/// The rows and the positions they are of.
pub(crate) struct Hidden {
    /// Row of position `p` at `p % KEPT`.
    rows: DeviceBytes,
    /// Bytes of a row.
    width: usize,
    held: Range<usize>,
}

impl Hidden {
    /// Bytes of rows of `width` bytes.
    pub const fn bytes(width: usize) -> usize {
        KEPT * width
    }

    /// Nothing yet, with room for rows of `width` bytes.
    pub fn new(device: &Arc<Device>, width: usize) -> Result<Hidden, DriverError> {
        Ok(Hidden { rows: DeviceBytes::zeroed(device, KEPT * width)?, width, held: 0..0 })
    }

    /// A copy of everything held.
    pub fn fork(&self, device: &Arc<Device>) -> Result<Hidden, DriverError> {
        let copy = Hidden::new(device, self.width)?;
        copy.rows.copy_from(0, &self.rows, 0, KEPT * self.width)?;
        Ok(Hidden { held: self.held.clone(), ..copy })
    }

    /// Keeps the rows of `count` neighbouring positions from `position` on, which lie one after the other from row `first` of `from` on.
    pub fn keep(
        &mut self,
        from: &DeviceBytes,
        first: usize,
        position: usize,
        count: usize,
    ) -> Result<(), DriverError> {
        let end = position + count;
        let start = if self.held.end == position { self.held.start } else { position };
        self.held = start.max(end.saturating_sub(KEPT))..end;
        let mut at = position.max(self.held.start);
        while at < end {
            let run = (KEPT - at % KEPT).min(end - at);
            let row = (first + at - position) * self.width;
            self.rows.copy_from(at % KEPT * self.width, from, row, run * self.width)?;
            at += run;
        }
        Ok(())
    }

    /// Forgets everything from `position` on.
    pub fn cut(&mut self, position: usize) {
        self.held.end = self.held.end.min(position);
        self.held.start = self.held.start.min(self.held.end);
    }

    /// The memory and the offset of the row of the position before `end`, where it is held.
    pub fn before(&self, end: usize) -> Option<(&DeviceBytes, usize)> {
        let position = end.checked_sub(1).filter(|position| self.held.contains(position))?;
        Some((&self.rows, position % KEPT * self.width))
    }
}
