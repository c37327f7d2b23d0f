//! Several programs and one cache, with locks and on a file system that has none: no download is made twice in vain or spoiled, and
//! what a killed one left is gone on with.

mod place;
mod support;

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use place::{Place, SIZE, place, weights};
use rawloop_hub::{Event, Pull, Store};
use support::{Act, Request, sha256};

#[test]
fn two_pulls_at_once_fetch_each_file_once() {
    let place = place();
    place.hub.script(|request| request.content.then_some(Act::Throttle(10_000)));
    let never = AtomicBool::new(false);
    let waited = std::thread::scope(|scope| {
        let one = || {
            let mut waited = false;
            let mut report = |event| waited |= matches!(event, Event::Waiting { .. });
            place.options().run("data", &never, &mut report).unwrap();
            waited
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|waited| *waited).count()
    });
    assert!(waited >= 1);
    assert_eq!(place.hub.downloads("model.safetensors").len(), 1);
    place.pulled();
}

#[test]
fn without_locks_each_has_a_file_of_its_own_and_goes_on_from_what_was_there() {
    let mut place = place();
    no_locks(&mut place);
    // What breaks off is there for the next attempt.
    place.settings.retry.attempts = 1;
    place.hub.script(weights(1, Act::Cut(100_000)));
    place.refused(&["model.safetensors broke off"]);
    assert_eq!(std::fs::metadata(place.partial()).unwrap().len(), 100_000);
    assert_eq!(place.blobs().iter().filter(|name| name.ends_with(".incomplete")).count(), 1);
    place.hub.requests();

    // Two at once, with packs of their own and one cache: neither spoils the other's bytes, however they interleave.
    let begun = Barrier::new(2);
    let never = AtomicBool::new(false);
    place.hub.script(|request| request.content.then_some(Act::Throttle(5_000)));
    std::thread::scope(|scope| {
        for name in ["packs-a", "packs-b"] {
            let (place, begun, never) = (&place, &begun, &never);
            scope.spawn(move || {
                let store = Store::new(place.folder.path().join(name));
                let mut first = true;
                Pull { store: &store, ..place.options() }
                    .run("data", never, &mut |event| {
                        let weights =
                            matches!(&event, Event::Fetching { file, .. } if file.ends_with("safetensors"));
                        if weights && std::mem::take(&mut first) {
                            begun.wait();
                        }
                    })
                    .unwrap();
            });
        }
    });
    let mut starts: Vec<usize> = place.hub.downloads("model.safetensors").iter().map(Request::from).collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 100_000]);
    place.pulled();
}

fn no_locks(place: &mut Place) {
    place.settings.take_lock = |_| Err(TryLockError::Error(ErrorKind::Unsupported.into()));
}

/// Writes a download of the weights that a program made under a name of its own, last so many minutes ago.
fn left(place: &Place, name: &str, bytes: usize, minutes: u64) -> PathBuf {
    let blobs = place.repository().join("blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    let path = blobs.join(format!("{}.{name}.incomplete", sha256(&place.weights)));
    std::fs::write(&path, &place.weights[..bytes]).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
    path
}

/// Time since the newest of the unfinished downloads with so many bytes was written to.
fn age(place: &Place, bytes: usize) -> Duration {
    let files = std::fs::read_dir(place.repository().join("blobs")).unwrap().flatten();
    let files = files.filter(|file| file.path().extension().is_some_and(|end| end == "incomplete"));
    let times = files.map(|file| file.metadata().unwrap()).filter(|meta| meta.len() == bytes as u64);
    times.map(|meta| meta.modified().unwrap().elapsed().unwrap_or_default()).min().unwrap()
}

#[test]
fn without_locks_what_a_killed_program_left_is_gone_on_with_once_nobody_can_be_writing_it() {
    let mut place = place();
    no_locks(&mut place);
    let (largest, other) = (left(&place, "killed", 123_456, 61), left(&place, "earlier", 1000, 600));
    let young = left(&place, "running", 200_000, 50);
    let mut taken_over = None;
    let never = AtomicBool::new(false);
    place
        .options()
        .run("data", &never, &mut |event| {
            if matches!(&event, Event::Fetching { file, .. } if file.ends_with("safetensors")) {
                taken_over = Some(age(&place, 123_456));
            }
        })
        .unwrap();
    assert_eq!(place.hub.downloads("model.safetensors")[0].from(), 123_456);
    // Now it is somebody's: the next program may not take it for left behind.
    assert!(taken_over.unwrap() < Duration::from_secs(3600));
    assert!(!largest.exists() && !other.exists() && young.exists());
    std::fs::remove_file(&young).unwrap();
    place.pulled();

    // What lies under the common name counts by its size like the others.
    for (common, from) in [(50_000, 70_000), (90_000, 90_000)] {
        let mut place = self::place();
        no_locks(&mut place);
        left(&place, "killed", 70_000, 61);
        std::fs::write(place.partial(), &place.weights[..common]).unwrap();
        place.options().run("data", &never, &mut |_| ()).unwrap();
        assert_eq!(place.hub.downloads("model.safetensors")[0].from(), from);
    }

    // Wrong bytes in it cost a download and no more.
    let mut place = self::place();
    no_locks(&mut place);
    let path = left(&place, "killed", SIZE, 0);
    std::fs::write(&path, vec![0; SIZE]).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let (_, events) = place.pulled();
    assert_eq!(place::restarts(&events), 1, "{events:?}");
}

#[test]
fn what_was_left_of_a_file_goes_once_the_file_is_here() {
    for locks in [true, false] {
        let mut place = place();
        if !locks {
            no_locks(&mut place);
        }
        for fetched in [1, 0] {
            // A day, because the file system's clock may be another machine's.
            let (old, young) = (left(&place, "killed", 70_000, 25 * 60), left(&place, "running", 1000, 50));
            place.pull().0.unwrap();
            assert!(!old.exists() && young.exists(), "locks: {locks}, fetched: {fetched}");
            assert_eq!(place.hub.downloads("model.safetensors").len(), fetched);
            std::fs::remove_file(&young).unwrap();
            place.pulled();
            // The next one finds the bytes and has only to show them.
            std::fs::remove_dir_all(place.repository().join("snapshots")).unwrap();
        }
    }
}
