//! The answers of a batch: one line a request, in the requests' order, each written whole.
//!
//! A line that a killed program left half is cut off; what stands before it is kept and not asked again. Order is what makes this
//! simple: the lines that are there answer the first requests.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::Failure;

/// The file of answers.
pub struct Answers {
    file: File,
    path: PathBuf,
    /// Answers that are there.
    done: usize,
    /// Answers that came before an earlier one.
    early: BTreeMap<usize, String>,
}

impl Answers {
    /// Opens or makes the file, and cuts off half a line.
    ///
    /// # Errors
    /// Somebody else writes it, or what it holds answers other requests than `ids`.
    pub fn open(path: &Path, ids: &[String]) -> Result<Answers, Failure> {
        let refuse = |reason: String| Failure::input(format!("{}: {reason}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(|error| refuse(error.to_string()))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(refuse("another process writes it".into()));
        }
        let mut reader = BufReader::new(&file);
        let (mut done, mut whole) = (0, 0);
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = reader.read_until(b'\n', &mut line).map_err(|error| refuse(error.to_string()))?;
            if count == 0 || line.last() != Some(&b'\n') {
                break;
            }
            let value: Value = serde_json::from_slice(&line)
                .map_err(|error| refuse(format!("line {} is no answer of a batch: {error}", done + 1)))?;
            let id = value["custom_id"].as_str().unwrap_or_default();
            if ids.get(done).map(String::as_str) != Some(id) {
                let expected = ids.get(done).map_or("the end".into(), |id| format!("{id:?}"));
                let reason = format!(
                    "line {} answers {id:?} where {expected} is next: it belongs to other requests; give another file",
                    done + 1
                );
                return Err(refuse(reason));
            }
            done += 1;
            whole += count as u64;
        }
        file.set_len(whole).map_err(|error| refuse(error.to_string()))?;
        file.seek(SeekFrom::Start(whole)).map_err(|error| refuse(error.to_string()))?;
        Ok(Answers { file, path: path.into(), done, early: BTreeMap::new() })
    }

    /// Answers that are written.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Takes an answer, and writes what is next.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn put(&mut self, index: usize, line: String) -> Result<(), Failure> {
        self.early.insert(index, line);
        while let Some(mut line) = self.early.remove(&self.done) {
            line.push('\n');
            let written = self.file.write_all(line.as_bytes());
            written.map_err(|error| {
                Failure::new(crate::exit::Code::Other, format!("{}: {error}", self.path.display()))
            })?;
            self.done += 1;
        }
        Ok(())
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn finish(self) -> Result<(), Failure> {
        Ok(self.file.sync_all()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn line(id: &str) -> String {
        format!("{{\"custom_id\":\"{id}\"}}")
    }

    #[test]
    fn answers_are_written_in_order_and_half_a_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let names = ids(&["a", "b", "c", "d"]);
        let mut answers = Answers::open(&path, &names).unwrap();
        answers.put(1, line("b")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        answers.put(0, line("a")).unwrap();
        answers.put(3, line("d")).unwrap();
        assert!(
            Answers::open(&path, &names).is_err_and(|error| error.to_string().contains("another process"))
        );
        drop(answers);
        let two = format!("{}\n{}\n", line("a"), line("b"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), two);
        for half in ["{\"custom_id\":\"c\"", "\0\0\0", "{"] {
            std::fs::write(&path, format!("{two}{half}")).unwrap();
            let answers = Answers::open(&path, &names).unwrap();
            assert_eq!(answers.done(), 2);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), two);
        }
    }

    #[test]
    fn a_file_of_other_requests_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        for (text, word) in [
            (line("x") + "\n", "answers \"x\" where \"a\" is next"),
            (line("a") + "\n" + &line("b") + "\n", "where the end is next"),
            ("text\n".into(), "line 1 is no answer"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let message = Answers::open(&path, &ids(&["a"])).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
