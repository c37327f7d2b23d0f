//! The sequences of a backend, by ascending id: each a KV cache and the hidden states that a draft can start from.

use rawloop_backend::{BackendError, SequenceId};

use crate::hidden::Hidden;
use crate::kv::KvCache;

/// One sequence.
pub(crate) struct Sequence {
    pub id: SequenceId,
    pub cache: KvCache,
    pub hidden: Hidden,
}

/// All sequences.
#[derive(Default)]
pub(crate) struct Sequences {
    pub list: Vec<Sequence>,
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
}
