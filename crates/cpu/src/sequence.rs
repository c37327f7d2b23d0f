//! The sequences of a backend: each a KV cache and the hidden states that a draft can start from.
//!
//! They lie in a list in the order of their ids, so that an id is found by binary search and a pass names a sequence by its
//! index.

use std::ops::Range;

use rawloop_backend::{BackendError, DRAFT_REWIND, SequenceId};

use crate::kv::KvCache;

/// Rows of hidden states that are kept: the last position's, and those that a rejected draft leads back to.
const KEPT: usize = DRAFT_REWIND + 1;

/// Final norms of the last positions that ran the full program, one after the other without a gap.
///
/// A verification runs several positions and keeps some of them. What is drafted next starts from the last one kept, which is
/// rarely the last one run; so each row stays until it is overwritten, and a cut shortens the range and copies nothing.
#[derive(Clone)]
pub(crate) struct Hidden {
    /// Row of position `p` at `p % KEPT`.
    rows: Vec<f32>,
    width: usize,
    held: Range<usize>,
}

impl Hidden {
    /// Nothing yet, with room for rows of `width`.
    pub fn new(width: usize) -> Hidden {
        Hidden { rows: vec![0.0; KEPT * width], width, held: 0..0 }
    }

    /// Bytes of rows of `width`.
    pub const fn bytes(width: usize) -> usize {
        KEPT * width * size_of::<f32>()
    }

    /// Keeps the row of a position.
    pub fn keep(&mut self, position: usize, row: &[f32]) {
        let first = if self.held.end == position { self.held.start } else { position };
        self.held = first.max((position + 1).saturating_sub(KEPT))..position + 1;
        self.rows[position % KEPT * self.width..][..self.width].copy_from_slice(row);
    }

    /// Forgets everything from `position` on.
    pub fn cut(&mut self, position: usize) {
        self.held.end = self.held.end.min(position);
        self.held.start = self.held.start.min(self.held.end);
    }

    /// The row of the position before `end`, where it is held.
    pub fn before(&self, end: usize) -> Option<&[f32]> {
        let position = end.checked_sub(1).filter(|position| self.held.contains(position))?;
        Some(&self.rows[position % KEPT * self.width..][..self.width])
    }
}

/// One sequence.
pub(crate) struct Sequence {
    pub id: SequenceId,
    pub cache: KvCache,
    pub hidden: Hidden,
}

/// All sequences, by ascending id.
#[derive(Default)]
pub(crate) struct Sequences {
    list: Vec<Sequence>,
    next: u32,
}

impl Sequences {
    /// Takes a new sequence in.
    ///
    /// # Errors
    /// All ids are used up.
    pub fn insert(&mut self, cache: KvCache, hidden: Hidden) -> Result<SequenceId, BackendError> {
        let id = SequenceId(self.next);
        let Some(next) = self.next.checked_add(1) else {
            return Err(BackendError::Failed(
                "4294967295 sequences were made; open the backend again".into(),
            ));
        };
        self.next = next;
        self.list.push(Sequence { id, cache, hidden });
        Ok(id)
    }

    /// Drops a sequence, if there is one of that id.
    pub fn remove(&mut self, id: SequenceId) {
        if let Ok(index) = self.index(id) {
            self.list.remove(index);
        }
    }

    /// Index of a sequence.
    ///
    /// # Errors
    /// No sequence of that id.
    pub fn index(&self, id: SequenceId) -> Result<usize, BackendError> {
        self.list
            .binary_search_by_key(&id, |sequence| sequence.id)
            .map_err(|_| BackendError::UnknownSequence(id))
    }

    /// The sequence of an id.
    ///
    /// # Errors
    /// No sequence of that id.
    pub fn get(&self, id: SequenceId) -> Result<&Sequence, BackendError> {
        Ok(&self.list[self.index(id)?])
    }

    /// The sequence of an id, to change.
    ///
    /// # Errors
    /// No sequence of that id.
    pub fn get_mut(&mut self, id: SequenceId) -> Result<&mut Sequence, BackendError> {
        let index = self.index(id)?;
        Ok(&mut self.list[index])
    }

    /// All of them, for a pass.
    pub fn all(&mut self) -> &mut [Sequence] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_after_a_cut_and_forgotten_behind_a_gap() {
        let mut hidden = Hidden::new(2);
        let keep = |hidden: &mut Hidden, position: usize| hidden.keep(position, &[position as f32, -1.0]);
        assert_eq!(hidden.before(0), None);
        (5..40).for_each(|position| keep(&mut hidden, position));
        assert_eq!(hidden.before(40), Some(&[39.0, -1.0][..]));
        assert_eq!(hidden.before(41), None);
        hidden.cut(40 - DRAFT_REWIND);
        assert_eq!(hidden.before(40 - DRAFT_REWIND).map(|row| row[0]), Some((39 - DRAFT_REWIND) as f32));
        assert_eq!(hidden.before(40), None);
        hidden.cut(39 - DRAFT_REWIND);
        assert_eq!(hidden.before(39 - DRAFT_REWIND), None, "overwritten");
        keep(&mut hidden, 50);
        assert_eq!((hidden.before(51).map(|row| row[0]), hidden.before(50)), (Some(50.0), None));
    }
}
