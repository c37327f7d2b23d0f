//! Downloads through everything that a hub or a network does to them: what gets its name is right, byte for byte, or nothing does.

mod place;
mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use place::{SIZE, place, place_with, restarts, weights};
use rawloop_hub::{Event, HubError, Pull, TokenUse};
use support::{Act, Hub, Request, git, noise, sha256};

#[test]
fn what_arrives_lies_where_python_looks_for_it() {
    let place = place();
    let (outcome, events) = place.pulled();
    assert_eq!(outcome.fetched as usize, SIZE + place.config.len());
    let link = place.repository().join("snapshots").join("a".repeat(40)).join("model.safetensors");
    #[cfg(unix)]
    assert_eq!(std::fs::read_link(link).unwrap(), PathBuf::from("../../blobs").join(sha256(&place.weights)));
    assert_eq!(std::fs::read_to_string(place.repository().join("refs/main")).unwrap(), "a".repeat(40));
    let lock =
        place.folder.path().join("hf/hub/.locks/models--me--data").join(sha256(&place.weights) + ".lock");
    assert!(lock.is_file());
    assert!(!place.hub.requests().iter().any(|request| request.path.contains("unwanted")));
    let last = events.iter().rev().find_map(|event| match event {
        Event::Progress { done, total } => Some((*done, *total)),
        _ => None,
    });
    let all = (SIZE + place.config.len()) as u64;
    assert_eq!(last, Some((all, all)));

    // A second time only the listing is asked for.
    let (outcome, _) = place.pulled();
    assert_eq!(outcome.fetched, 0);
    assert_eq!(place.hub.requests().len(), 1);
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_stopped() {
    let place = place();
    place.hub.script(weights(3, Act::Cut(70_000)));
    let (outcome, events) = place.pulled();
    assert_eq!(outcome.fetched as usize, SIZE + place.config.len());
    assert_eq!(restarts(&events), 0);
    let starts: Vec<usize> = place.hub.downloads("model.safetensors").iter().map(Request::from).collect();
    assert_eq!(starts, [0, 70_000, 140_000, 210_000]);
}

#[test]
fn one_that_never_gets_further_ends_with_words_and_the_next_pull_goes_on() {
    let mut place = place();
    place.settings.retry.attempts = 2;
    place.hub.script(weights(2, Act::Cut(100_000)));
    place.refused(&["model.safetensors broke off 2 times", "goes on"]);
    assert_eq!(std::fs::metadata(place.partial()).unwrap().len(), 200_000);
    place.hub.heal();
    place.hub.requests();
    let (outcome, _) = place.pulled();
    assert_eq!(outcome.fetched as usize, SIZE - 200_000);
    assert_eq!(place.hub.downloads("model.safetensors")[0].from(), 200_000);
}

#[test]
fn servers_that_cannot_continue_start_again() {
    for act in [Act::IgnoreRange, Act::OtherRange] {
        let place = place();
        std::fs::create_dir_all(place.repository().join("blobs")).unwrap();
        std::fs::write(place.partial(), &place.weights[..123_456]).unwrap();
        place.hub.script(weights(1, act));
        let (_, events) = place.pulled();
        assert_eq!(restarts(&events), 1, "{events:?}");
    }
}

#[test]
fn wrong_bytes_are_found_whoever_wrote_them() {
    // On the way.
    let place = place();
    place.hub.script(weights(1, Act::Flip(77)));
    assert_eq!(restarts(&place.pulled().1), 1);

    // In what a killed program left: of another file, or longer than this one.
    for left in [noise(2, 1000), noise(2, SIZE + 5), noise(2, SIZE)] {
        let place = self::place();
        std::fs::create_dir_all(place.repository().join("blobs")).unwrap();
        std::fs::write(place.partial(), &left).unwrap();
        place.pulled();
    }

    // In the cache, under the right name.
    let place = self::place();
    place.pulled();
    let blob = place.repository().join("blobs").join(sha256(&place.weights));
    let mut bytes = place.weights.clone();
    bytes[5] ^= 1;
    std::fs::write(&blob, &bytes).unwrap();
    place.pulled();
    std::fs::write(&blob, &bytes[..1000]).unwrap();
    place.pulled();
}

#[test]
fn bytes_that_are_always_wrong_are_never_used() {
    let place = place();
    place.hub.script(|request| request.content.then_some(Act::Flip(SIZE - 1)));
    place.refused(&["model.safetensors does not match its checksum", &sha256(&place.weights)]);
    assert!(!place.partial().exists());
    let place = self::place();
    place.hub.script(|request| request.path.ends_with("config.json").then_some(Act::Flip(0)));
    place.refused(&["config.json does not match its checksum", &git(&place.config)]);
    let place = self::place();
    place.hub.script(|request| request.content.then_some(Act::More));
    place.refused(&["more bytes than the file has"]);
}

/// Calls with a limit of so many milliseconds, and with twice as many where a busy machine was slower than that, three times. Also
/// says how often the limit was doubled.
#[track_caller]
fn with_limits<T>(milliseconds: u64, mut works: impl FnMut(Duration, u32) -> Result<T, String>) -> T {
    let mut reasons = Vec::new();
    for doubled in 0..4 {
        match works(Duration::from_millis(milliseconds << doubled), doubled) {
            Ok(value) => return value,
            Err(reason) => reasons.push(reason),
        }
    }
    panic!("{reasons:?}");
}

#[test]
fn a_silent_or_slow_server_is_not_waited_for_or_is() {
    with_limits(300, |stall, _| {
        let mut place = place();
        place.settings.retry.stall = stall;
        place.hub.script(weights(1, Act::Stall(50_000)));
        let (_, events) = place.pulled();
        assert!(events.iter().any(|event| matches!(event, Event::Retry { .. })), "{events:?}");
        let from = place.hub.downloads("model.safetensors")[1].from();
        if from == 50_000 { Ok(()) } else { Err(format!("gave up at {from}")) }
    });

    // Slower in all than the limit for silence, and never silent.
    let events = with_limits(1000, |stall, doubled| {
        let mut place = place();
        place.settings.retry.stall = stall;
        place.hub.script(weights(1, Act::Throttle(2_000 >> doubled)));
        let started = Instant::now();
        let (_, events) = place.pulled();
        assert!(started.elapsed() > stall);
        let gave_up = events.iter().any(|event| matches!(event, Event::Retry { .. }));
        if gave_up { Err(format!("{events:?}")) } else { Ok(events) }
    });
    let progress: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Progress { done, .. } => Some(*done),
            _ => None,
        })
        .collect();
    assert!(progress.is_sorted() && progress.len() > 3, "{progress:?}");
}

#[test]
fn passing_troubles_pass_and_lasting_ones_are_named() {
    for status in [408, 429, 500, 502, 503, 504] {
        let place = place();
        place
            .hub
            .script(move |request| (request.before < 1).then(|| Act::Status(status, vec![], String::new())));
        let (_, events) = place.pulled();
        let retries = events.iter().filter(|event| matches!(event, Event::Retry { .. })).count();
        assert_eq!(retries, 4, "{status}: {events:?}");
    }
    let place = place();
    place.hub.script(|_| Some(Act::Status(500, vec![], String::new())));
    place.refused(&["cannot reach 127.0.0.1", "500"]);
    assert_eq!(place.hub.requests().len(), 4);
    place.hub.script(|_| Some(Act::Status(501, vec![], "{\"error\": \"not here\"}".into())));
    place.refused(&["answers 501: not here"]);
}

#[test]
fn a_busy_hub_is_given_the_time_it_asks_for() {
    let place = place();
    place.hub.script(|request| {
        let first = request.before == 0 && request.path.starts_with("/api");
        first.then(|| Act::Status(429, vec![("Retry-After", "1".into())], String::new()))
    });
    let started = Instant::now();
    place.pulled();
    assert!(started.elapsed() >= Duration::from_secs(1));
    place.hub.script(|_| Some(Act::Status(429, vec![("Retry-After", "7200".into())], String::new())));
    place.refused_anyway(&["asks to wait 7200 seconds"]);
}

#[test]
fn refusals_say_what_to_do() {
    let place = place();
    let refuse = |status: u16, code: &'static str| {
        place
            .hub
            .script(move |_| Some(Act::Status(status, vec![("X-Error-Code", code.into())], String::new())));
    };
    refuse(401, "");
    place.refused(&["me/data needs a token", "/settings/tokens", "HF_TOKEN", "--token-file"]);
    refuse(401, "GatedRepo");
    place.refused(&[
        "me/data is gated",
        &format!("open {}/me/data", place.hub.url),
        "accept its terms",
        "HF_TOKEN",
    ]);
    refuse(403, "");
    place.refused(&["is gated"]);
    refuse(404, "RepoNotFound");
    place.refused(&["has no me/data at revision \"main\"", "private"]);
    refuse(404, "RevisionNotFound");
    place.refused(&["has no me/data at revision"]);
    // Seen by everybody, given to some.
    place.hub.script(|request| {
        let file = request.path.contains("/resolve/");
        file.then(|| Act::Status(403, vec![("X-Error-Code", "GatedRepo".into())], String::new()))
    });
    assert!(matches!(place.refused(&["is gated"]), HubError::Gated { token: TokenUse::None, .. }));
    place.hub.script(|request| {
        request.path.contains("/resolve/").then(|| Act::Status(404, vec![], String::new()))
    });
    place.refused(&["has no config.json"]);
    place.hub.script(|_| Some(Act::Status(200, vec![], "<html>Sign in to the hotel</html>".into())));
    place.refused(&["does not answer in JSON", "is this a Hugging Face hub"]);
    place.hub.heal();
    place.hub.put("me/data", 'a', &[("config.json", b"{}")]);
    place.refused(&["has no model*.safetensors"]);
}

#[test]
fn an_address_that_ran_out_is_asked_for_again() {
    let place = place();
    place.hub.script(weights(1, Act::Status(403, vec![], "<Error>expired</Error>".into())));
    place.pulled();
}

#[test]
fn a_file_that_changes_on_the_hub_is_listed_again_once() {
    // Between listing and download: the next listing has the new one.
    let place = place();
    let other = noise(9, 1000);
    let changed = sha256(&other);
    let mut first = true;
    let tag = changed.clone();
    place.hub.script(move |request| {
        let hit = !request.content && request.path.ends_with(".safetensors") && std::mem::take(&mut first);
        hit.then(|| Act::Tag(tag.clone()))
    });
    let (_, events) = place.pulled();
    assert_eq!(restarts(&events), 1);
    // For ever.
    let place = self::place();
    place.hub.script(move |request| {
        (!request.content && request.path.ends_with(".safetensors")).then(|| Act::Tag(changed.clone()))
    });
    place.refused(&["changed on the hub"]);

    // Between two attempts at the content server: If-Range gets the whole file instead of a wrong rest.
    let place = self::place();
    let mut count = 0;
    place.hub.script(move |request| {
        count += usize::from(request.content);
        match (request.content, count) {
            (true, 1) => Some(Act::Cut(10_000)),
            (true, 2) => Some(Act::Tag("moved".into())),
            _ => None,
        }
    });
    let (_, events) = place.pulled();
    assert_eq!(restarts(&events), 1, "{events:?}");
    let asked = place.hub.downloads("model.safetensors");
    assert_eq!(asked[1].header("if-range"), Some(format!("\"content-{SIZE}\"").as_str()));

    // Between two pulls: another commit, other names, nothing mixed.
    place.hub.put("me/data", 'b', &[("model.safetensors", &other), ("config.json", b"{\"b\": 2}")]);
    let outcome = place.pull().0.unwrap();
    let snapshot = outcome.checkpoint.unwrap();
    assert!(snapshot.ends_with("b".repeat(40)));
    assert!(std::fs::read(snapshot.join("model.safetensors")).unwrap() == other);
    assert_eq!(std::fs::read_to_string(place.repository().join("refs/main")).unwrap(), "b".repeat(40));
}

#[test]
fn without_a_network_the_cache_serves_and_an_empty_one_says_so() {
    let mut place = place();
    place.pulled();
    place.hub.requests();
    place.settings.offline = true;
    let (_, _) = place.pulled();
    assert_eq!(place.hub.requests().len(), 0);
    // Damaged, and nothing to mend it with.
    let blob = place.repository().join("blobs").join(sha256(&place.weights));
    std::fs::write(&blob, b"x").unwrap();
    place.refused_anyway(&["model.safetensors is damaged", "HF_HUB_OFFLINE"]);
    std::fs::remove_dir_all(place.folder.path().join("hf")).unwrap();
    place.refused_anyway(&["was never fetched", "HF_HUB_OFFLINE"]);

    // No switch, but nobody there.
    let mut place = self::place();
    place.pulled();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    place.settings.set_mirror(&format!("http://{nobody}")).unwrap();
    let (_, events) = place.pulled();
    assert!(events.iter().any(|event| matches!(event, Event::FromCache { .. })), "{events:?}");
    std::fs::remove_dir_all(place.folder.path().join("hf")).unwrap();
    place.refused_anyway(&["cannot reach 127.0.0.1", "HTTPS_PROXY"]);
    place.settings.set_mirror("http://no-such-host.invalid").unwrap();
    place.refused_anyway(&["cannot reach no-such-host.invalid"]);
}

#[test]
fn requests_go_through_a_proxy_except_where_they_should_not() {
    let proxy = Hub::start();
    let place = place_with(&[("HTTP_PROXY", &proxy.url)]);
    place.pulled();
    let asked: Vec<String> = proxy.requests().into_iter().map(|request| request.path).collect();
    for url in [&place.hub.url, &place.hub.content_url] {
        let line = format!("CONNECT {} ", url.trim_start_matches("http://"));
        assert!(asked.iter().any(|path| path.starts_with(&line)), "{line}: {asked:?}");
    }
    let excepted = place_with(&[("HTTP_PROXY", &proxy.url), ("NO_PROXY", "localhost,127.0.0.1")]);
    excepted.pulled();
    assert!(proxy.requests().is_empty());
    let message = place_with_error(&[("HTTP_PROXY", "socks5://x:1")]);
    assert!(message.contains("HTTP_PROXY"), "{message}");
}

fn place_with_error(variables: &[(&str, &str)]) -> String {
    place_with(variables).pull().0.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_disk_that_is_too_small_is_named_before_anything_is_fetched() {
    let place = place();
    let pull = Pull { free_space: |_| Ok(1000), ..place.options() };
    let never = AtomicBool::new(false);
    let message = pull.run("data", &never, &mut |_| ()).unwrap_err().to_string();
    for word in ["1.0 kB free", "for the checkpoint", "HF_HOME"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(place.hub.requests().len(), 1);
    assert!(place.blobs().is_empty());
}

#[test]
fn a_pull_that_is_cancelled_at_any_event_goes_on_afterwards() {
    let place = place();
    place.hub.script(|request| (request.content && request.before % 2 == 0).then_some(Act::Throttle(30_000)));
    let mut came = 0;
    for stop in 0.. {
        let cancel = AtomicBool::new(false);
        let mut count = 0;
        let outcome = place.options().run("data", &cancel, &mut |_| {
            count += 1;
            cancel.store(count > stop, Ordering::Relaxed);
        });
        match outcome {
            Err(HubError::Cancelled) => came += 1,
            Err(error) => panic!("{error}"),
            Ok(_) if count <= stop => break,
            Ok(_) => {}
        }
    }
    assert!(came > 3);
    place.pulled();
}

#[test]
fn a_request_that_waits_is_ended_by_a_cancellation() {
    let place = place();
    place.hub.script(weights(1, Act::Stall(10_000)));
    let cancel = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while std::fs::metadata(place.partial()).map_or(0, |meta| meta.len()) < 10_000 {
                std::thread::sleep(Duration::from_millis(5));
            }
            cancel.store(true, Ordering::Relaxed);
        });
        place.options().run("data", &cancel, &mut |_| ())
    });
    assert!(matches!(outcome, Err(HubError::Cancelled)), "{outcome:?}");
    place.hub.heal();
    assert_eq!(place.pulled().0.fetched as usize, SIZE - 10_000);
}
