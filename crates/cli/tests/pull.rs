//! `pull`, `list`, `info`, `rm` and `--model NAME`: the real program against a hub on this machine, stopped, killed and starved.

#[path = "../../hub/tests/support/mod.rs"]
mod hub;
mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hub::{Act, Hub};
use serde_json::Value;
use support::{Finished, Program, root};

const CATALOG: &str = r#"{"version": 1, "models": [
    {"id": "tiny", "name": "The small model", "repository": "me/tiny-gemma4", "assistant": "tiny-drafter",
     "files": ["config.json", "tokenizer.json", "model*.safetensors", "generation_config.json?", "chat_template.jinja?"]},
    {"id": "tiny-drafter", "kind": "assistant", "repository": "me/tiny-drafter",
     "files": ["config.json", "model*.safetensors", "generation_config.json?"]},
    {"id": "small", "alias": "tiny"}]}"#;

const QUESTION: &str = "What is the capital of France?";

struct Place {
    hub: Hub,
    program: Program,
}

fn place() -> Place {
    let (hub, program) = (Hub::start(), Program::new());
    hub.put_folder("me/tiny-gemma4", 'a', &root().join("models/tiny/checkpoint"));
    hub.put_folder("me/tiny-drafter", 'd', &root().join("models/tiny/assistant"));
    std::fs::write(program.home.path().join("catalog.json"), CATALOG).unwrap();
    Place { hub, program }
}

impl Place {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(&[]);
        let named = ["pull", "list", "info", "rm"].contains(&args[0]);
        command.args(args);
        if named {
            command.args(["--catalog", self.program.home.path().join("catalog.json").to_str().unwrap()]);
        }
        // Of whoever runs the tests.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy().to_ascii_lowercase();
            if text.starts_with("hf_")
                || text.starts_with("huggingface")
                || text.ends_with("_proxy")
                || text == "rawloop_packs"
            {
                command.env_remove(name);
            }
        }
        command.env("HF_ENDPOINT", &self.hub.url);
        command
    }

    fn run(&self, args: &[&str]) -> Finished {
        Finished::from(self.command(args).output().unwrap())
    }

    fn packs(&self) -> PathBuf {
        self.program.home.path().join("rawloop/packs")
    }

    fn blobs(&self) -> PathBuf {
        self.program.home.path().join("huggingface/hub/models--me--tiny-gemma4/blobs")
    }

    /// Files in the packs folder and unfinished downloads.
    fn left_over(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in [self.packs(), self.blobs()] {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                names.push(entry.file_name().into_string().unwrap());
            }
        }
        names.retain(|name| name.contains("unfinished") || name.contains("incomplete"));
        names
    }

    /// Starts a pull whose events can be read.
    fn start(&self) -> (Child, impl Iterator<Item = Value>) {
        let mut command = self.command(&["pull", "tiny", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        (child, lines.map(|line| serde_json::from_str(&line).unwrap()))
    }

    /// After whatever happened: the next pull ends well, and the model is the one it should be.
    #[track_caller]
    fn heals(&self) {
        self.hub.heal();
        self.run(&["pull", "tiny", "-q"]).text();
        assert_eq!(self.left_over(), [""; 0]);
        let shipped = root().join("models/tiny/tiny.rlp").display().to_string();
        let pack = self.packs().join("tiny.rlp").display().to_string();
        assert!(self.run(&["compare", &pack, &shipped]).text().contains("every tensor equal"));
    }
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_model_is_pulled_run_listed_and_removed_by_name() {
    let place = place();
    place.run(&["run", "--model", "gemma-4-e2b", "x"]).refused(3, &["rawloop pull gemma-4-e2b"]);
    place.run(&["run", "--model", "gemma-4-e2", "x"]).refused(3, &["did you mean gemma-4-e2b"]);
    place.run(&["run", "--model", "gemma-4-e2b-assistant", "x"]).refused(3, &["drafter", "gemma-4-e2b"]);
    place.run(&["pull", "tinny"]).refused(2, &["did you mean tiny"]);
    let plan = place.run(&["pull", "small", "--dry-run"]);
    for word in ["me/tiny-gemma4 at aaaa", "model.safetensors", "to fetch", "free for packs"] {
        assert!(plan.text().contains(word), "{plan:?}");
    }
    assert!(!place.packs().exists() && !place.blobs().exists());

    let pulled = place.run(&["pull", "small"]);
    assert!(pulled.text().contains("tiny-gemma4") && pulled.text().contains("with drafter"), "{pulled:?}");
    for word in ["8 files", "fetching model.safetensors, 4.7 MB", "rawloop chat --model tiny"] {
        assert!(pulled.stderr.contains(word), "{word}: {pulled:?}");
    }
    assert!(place.run(&["pull", "tiny"]).text().ends_with("tiny.rlp: up to date"));

    let answer = place.run(&["run", "--greedy", "--model", "tiny", QUESTION]);
    assert_eq!(answer.text(), place.run(&["run", "--greedy", QUESTION]).text());
    assert_eq!(place.run(&["run", "--greedy", "--model", "Tiny", "x"]).code, 0);
    // A file or folder of that name comes first.
    let mut command = place.command(&["run", "--model", "tiny", "x"]);
    std::fs::create_dir(place.program.home.path().join("tiny")).unwrap();
    let finished = Finished::from(command.current_dir(place.program.home.path()).output().unwrap());
    finished.refused(3, &["config.json"]);

    let list = place.run(&["list"]);
    let line =
        |id: &str| list.text().lines().find(|line| line.split(' ').next() == Some(id)).unwrap().to_owned();
    assert!(line("tiny").contains("ready, 7.3 MB") && line("tiny").ends_with("The small model"), "{list:?}");
    assert!(line("gemma-4-e4b").contains(" - "), "{list:?}");
    assert!(line("gemma-4-e2b-metal").contains("another name of gemma-4-e2b"), "{list:?}");
    let models = place.run(&["list", "--json"]).json()["models"].clone();
    let tiny = models.as_array().unwrap().iter().find(|model| model["id"] == "tiny").unwrap().clone();
    assert_eq!(tiny["state"]["ready"], true);
    let info = place.run(&["info", "small"]);
    for word in ["also called   small", "me/tiny-gemma4 at main", "with drafter", "made of", "ready"] {
        assert!(info.text().contains(word), "{word}: {info:?}");
    }
    assert_eq!(place.run(&["info", "tiny", "--json"]).json()["record"]["converted"], true);
    assert!(place.run(&["info", "gemma-4-e2b"]).text().contains("pack takes"));

    place.run(&["rm", "tiny"]).refused(2, &["--yes"]);
    assert!(place.run(&["rm", "small", "--yes", "--checkpoint"]).text().contains("7.3 MB, "));
    place.run(&["rm", "tiny", "--yes"]).refused(3, &["tiny is not on this machine"]);
    place.run(&["rm", "../../catalog.json", "--yes"]).refused(2, &["no model"]);
    assert!(std::fs::read_dir(place.blobs()).unwrap().next().is_none());
}

#[test]
fn events_are_few_ordered_and_complete() {
    let place = place();
    place.hub.script(|request| request.content.then_some(Act::Throttle(60_000)));
    let (child, events) = place.start();
    let events: Vec<Value> = events.collect();
    assert!(child.wait_with_output().unwrap().status.success());
    let of = |event: &str| events.iter().filter(|value| value["event"] == event).collect::<Vec<_>>();
    let phase = |name: &str| {
        let steps = of("progress").into_iter().filter(|value| value["phase"] == name);
        steps
            .map(|value| (value["done"].as_u64().unwrap(), value["total"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    for name in ["download", "tensors"] {
        let steps = phase(name);
        assert!(steps.is_sorted() && steps.len() > 3, "{name}: {steps:?}");
        assert!(
            steps.len() <= 250 && steps.iter().all(|(done, total)| done <= total && *total == steps[0].1)
        );
        let (done, total) = steps[steps.len() - 1];
        assert_eq!(done, total, "{name}");
    }
    assert_eq!(of("fetching").len(), 8);
    let done = events.last().unwrap();
    assert_eq!((&done["event"], &done["converted"]), (&"done".into(), &true.into()));
    assert_eq!(done["fetched"], of("listed")[0]["missing"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_download_or_a_conversion_with_130_and_the_next_pull_goes_on() {
    let place = place();
    place.hub.script(|request| request.content.then_some(Act::Throttle(20_000)));
    let (child, mut events) = place.start();
    events.find(|event| event["event"] == "progress" && event["done"].as_u64() > Some(1_000_000)).unwrap();
    signal(&child, "-INT");
    let finished = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(finished.code, 130, "{finished:?}");
    assert!(finished.stderr.contains("the same command goes on from here"), "{finished:?}");
    assert_eq!(place.left_over().len(), 1);
    place.hub.requests();
    place.heals();
    assert!(place.hub.downloads("model.safetensors")[0].from() > 500_000);
}

#[cfg(unix)]
#[test]
fn kill_at_any_moment_loses_nothing() {
    // During the download, at several places.
    let place = place();
    place.hub.script(|request| request.content.then_some(Act::Throttle(50_000)));
    for at in [1, 700_000, 2_000_000] {
        let (child, mut events) = place.start();
        events.find(|event| event["event"] == "progress" && event["done"].as_u64() >= Some(at)).unwrap();
        signal(&child, "-KILL");
        child.wait_with_output().unwrap();
        assert!(!place.packs().join("tiny.rlp").exists());
        place.run(&["run", "--model", "tiny", "x"]).refused(3, &["tiny"]);
    }
    place.hub.heal();
    // During the conversion, sooner and later.
    for step in [0, 20, 90, 160] {
        let (child, events) = place.start();
        events.filter(|event| event["event"] == "progress" && event["phase"] == "tensors").nth(step);
        signal(&child, "-KILL");
        child.wait_with_output().unwrap();
    }
    place.heals();
}

#[test]
fn two_pulls_of_one_model_take_turns() {
    let place = place();
    place.hub.script(|request| request.content.then_some(Act::Throttle(100_000)));
    let (first, mut events) = place.start();
    events.find(|event| event["event"] == "fetching").unwrap();
    let second = place.run(&["pull", "tiny"]);
    assert!(second.text().ends_with("up to date"), "{second:?}");
    assert!(second.stderr.contains("somebody else is fetching tiny"), "{second:?}");
    assert!(events.any(|event| event["event"] == "done"));
    assert!(first.wait_with_output().unwrap().status.success());
    let weights = "resolve/".to_owned() + &"a".repeat(40) + "/model.safetensors";
    assert_eq!(place.hub.downloads(&weights).len(), 1);
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_a_download_and_a_conversion_with_words() {
    let place = place();
    // A limit of file sizes, in blocks of 512 bytes, fails a write as a full disk does.
    let limited = |blocks: u64| {
        let pull = place.command(&["pull", "tiny", "-q"]);
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(pull.get_program()).args(pull.get_args()).stdin(Stdio::null());
        for (name, value) in pull.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Finished::from(command.output().unwrap())
    };
    let finished = limited(4_000);
    finished.refused(1, &["cannot write", ".incomplete", "what is there is kept"]);
    let partial = std::fs::read_dir(place.blobs())
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().ends_with(".incomplete"));
    assert_eq!(partial.unwrap().metadata().unwrap().len(), 4_000 * 512);
    // Enough for the checkpoint, too little for the pack.
    limited(12_000).refused(3, &["tiny.rlp"]);
    assert!(!place.packs().join("tiny.rlp").exists());
    assert_eq!(place.left_over(), [""; 0]);
    place.heals();
}

#[test]
fn what_the_hub_refuses_is_said_with_what_to_do() {
    let place = place();
    let token = place.program.home.path().join("secret");
    std::fs::write(&token, "hf_secret\n").unwrap();
    place.hub.script(|request| {
        let open = request.header("authorization") == Some("Bearer hf_secret") || request.content;
        (!open).then(|| Act::Status(401, vec![("X-Error-Code", "GatedRepo".into())], String::new()))
    });
    let page = format!("{}/me/tiny-gemma4", place.hub.url);
    place.run(&["pull", "tiny"]).refused(1, &["me/tiny-gemma4 is gated", &page, "HF_TOKEN", "--token-file"]);
    let finished = place.run(&["pull", "tiny", "--token-file", token.to_str().unwrap()]);
    assert!(finished.code == 0 && !finished.stderr.contains("hf_secret"), "{finished:?}");
    assert!(
        place
            .hub
            .requests()
            .iter()
            .all(|request| !request.content || request.header("authorization").is_none())
    );
    place.run(&["pull", "tiny", "--mirror", "nowhere"]).refused(2, &["--mirror"]);
    place.run(&["pull", "tiny", "--token-file", "/nowhere"]).refused(1, &["/nowhere"]);
}

#[test]
fn a_machine_without_a_network_uses_what_it_has() {
    let place = place();
    place.run(&["pull", "tiny", "--offline"]).refused(1, &["HF_HUB_OFFLINE", "me/tiny-gemma4"]);
    place.run(&["pull", "tiny", "-q"]).text();
    place.hub.requests();
    assert!(place.run(&["pull", "tiny", "--offline"]).text().ends_with("up to date"));
    std::fs::remove_dir_all(place.packs()).unwrap();
    let mut command = place.command(&["pull", "tiny"]);
    let finished = Finished::from(command.env("HF_HUB_OFFLINE", "1").output().unwrap());
    assert!(finished.text().contains("with drafter"), "{finished:?}");
    assert!(place.hub.requests().is_empty());
}
