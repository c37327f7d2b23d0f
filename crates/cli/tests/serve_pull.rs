//! `serve --pull`: the page's list of models and its button, over HTTP, against a hub on this machine that breaks and refuses.

#[path = "../../hub/tests/support/mod.rs"]
mod hub;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hub::{Act, Hub, Request};
use serde_json::{Value, json};
use support::{Program, root};

const CATALOG: &str = r#"{"version": 1, "models": [
    {"id": "little", "name": "A little model", "repository": "me/little", "assistant": "little-drafter", "pack_bytes": 9000000,
     "files": ["config.json", "tokenizer.json", "model*.safetensors", "generation_config.json?", "chat_template.jinja?"]},
    {"id": "little-drafter", "kind": "assistant", "repository": "me/drafter",
     "files": ["config.json", "model*.safetensors", "generation_config.json?"]},
    {"id": "closed", "repository": "me/closed", "files": ["config.json"]}]}"#;

struct Place {
    hub: Hub,
    program: Program,
    server: Child,
    address: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Place {
    fn start(more: &[&str]) -> Place {
        let (hub, program) = (Hub::start(), Program::new());
        hub.put_folder("me/little", 'a', &root().join("models/tiny/checkpoint"));
        hub.put_folder("me/drafter", 'd', &root().join("models/tiny/assistant"));
        let catalog = program.home.path().join("catalog.json");
        std::fs::write(&catalog, CATALOG).unwrap();
        let mut command = program.command(&["serve", "--port", "0", "--catalog", catalog.to_str().unwrap()]);
        command.args(more);
        away(&mut command);
        command.env("HF_ENDPOINT", &hub.url);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").expect(&line).1.to_owned();
        Place { hub, program, server, address }
    }

    /// Sends a request whose answer ends with its connection.
    fn send(&self, method: &str, path: &str, body: &Value) -> TcpStream {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    /// Status, and the lines of the body that are objects.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Vec<Value>) {
        let mut text = String::new();
        self.send(method, path, body).read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        let lines = text.lines().filter(|line| line.starts_with('{'));
        (status, lines.map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn pull(&self, model: &str) -> (u16, Vec<Value>) {
        self.ask("POST", "/api/pull", &json!({ "model": model }))
    }

    fn model(&self, id: &str) -> Value {
        let (status, lines) = self.ask("GET", "/api/models", &Value::Null);
        assert_eq!(status, 200);
        let models = lines[0]["models"].as_array().unwrap();
        models.iter().find(|model| model["id"] == id).cloned().unwrap_or_default()
    }

    fn packs(&self) -> PathBuf {
        self.program.home.path().join("rawloop/packs")
    }

    fn run(&self, args: &[&str]) -> support::Finished {
        let mut command = self.program.command(args);
        away(&mut command);
        command.output().unwrap().into()
    }
}

/// Away from the settings of whoever runs the tests.
fn away(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_lowercase();
        let of_the_hub = ["hf_", "huggingface"].iter().any(|start| text.starts_with(start));
        if of_the_hub || text.ends_with("_proxy") || text == "rawloop_packs" {
            command.env_remove(name);
        }
    }
}

#[test]
fn a_model_is_listed_fetched_converted_and_named_afterwards() {
    let place = Place::start(&["--pull"]);
    let little = place.model("little");
    assert_eq!(
        (&little["state"], &little["name"], &little["bytes"]),
        (&json!("absent"), &json!("A little model"), &json!(9_000_000))
    );
    assert_eq!(place.model("little-drafter"), Value::Null, "a drafter is no model");
    assert_eq!(place.model("gemma-4-e2b")["state"], "absent");
    // Through everything that a network does, still whole.
    let mut broken = 0;
    place.hub.script(move |request: &Request| {
        broken += usize::from(request.content);
        (request.content && broken < 3).then_some(Act::Cut(400_000))
    });
    let (status, lines) = place.pull("little");
    assert_eq!((status, lines.last().unwrap()), (200, &json!({ "status": "success" })), "{lines:?}");
    assert!(lines.iter().any(|line| line["total"].as_u64().is_some_and(|total| total > 0)), "{lines:?}");
    let little = place.model("little");
    let bytes = std::fs::metadata(place.packs().join("little.rlp")).unwrap().len();
    assert_eq!((&little["state"], &little["bytes"]), (&json!("ready"), &json!(bytes)));
    assert_eq!(little["command"], "rawloop serve --model little");

    let chat = json!({ "model": "little", "messages": [{ "role": "user", "content": "Hello!" }] });
    let (status, lines) = place.ask("POST", "/v1/chat/completions", &chat);
    assert_eq!(status, 404);
    let message = lines[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("`rawloop serve --model little` runs it"), "{message}");
    let shipped = root().join("models/tiny/tiny.rlp").display().to_string();
    let pack = place.packs().join("little.rlp").display().to_string();
    assert!(place.run(&["compare", &pack, &shipped]).text().contains("every tensor equal"));
}

#[test]
fn a_closed_connection_stops_the_download_and_the_next_request_goes_on() {
    let place = Place::start(&["--pull"]);
    place.hub.script(|request: &Request| request.content.then_some(Act::Throttle(20_000)));
    let stream = place.send("POST", "/api/pull", &json!({ "model": "little" }));
    let mut lines = BufReader::new(stream).lines();
    let far = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        value["status"].as_str().is_some_and(|status| status.contains("model.safetensors, "))
    };
    assert!(lines.by_ref().any(|line| far(&line.unwrap())), "there was progress with its speed");
    assert_eq!(place.model("little")["state"], "pulling");
    drop(lines);
    while place.model("little")["state"] == "pulling" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(place.model("little")["state"], "absent");
    assert!(!place.packs().join("little.rlp").exists());
    place.hub.heal();
    place.hub.requests();
    let (_, lines) = place.pull("little");
    assert_eq!(lines.last().unwrap(), &json!({ "status": "success" }));
    assert!(place.hub.downloads("model.safetensors").iter().any(|request| request.from() > 0));
}

#[test]
fn what_the_hub_refuses_and_what_is_no_name_is_said() {
    let place = Place::start(&["--pull"]);
    place.hub.script(|request: &Request| {
        let closed = request.path.contains("closed");
        closed.then(|| Act::Status(401, vec![("X-Error-Code", "GatedRepo".into())], String::new()))
    });
    let (status, lines) = place.pull("closed");
    assert_eq!(status, 200);
    let said = lines.last().unwrap()["error"].as_str().unwrap();
    assert!(said.contains("me/closed is gated") && said.contains("accept its terms"), "{said}");
    place.hub.requests();
    let file = place.program.home.path().join("catalog.json").display().to_string();
    for name in ["me/little", "../little", &file, &place.hub.url, "little-drafter", ""] {
        let (status, lines) = place.pull(name);
        assert_eq!(status, 404, "{name}: {lines:?}");
        assert!(lines[0]["error"].is_string(), "{lines:?}");
    }
    assert!(place.hub.requests().is_empty());
    assert!(
        !place.packs().exists()
            || std::fs::read_dir(place.packs()).unwrap().flatten().all(|entry| {
                let name = entry.file_name().into_string().unwrap();
                name == ".locks" || name.starts_with("closed")
            })
    );
}

#[test]
fn a_server_without_the_flag_fetches_nothing() {
    let place = Place::start(&[]);
    assert_eq!(place.model("little"), Value::Null);
    let (status, lines) = place.pull("little");
    assert_eq!(status, 403);
    assert!(lines[0]["error"].as_str().unwrap().contains("rawloop serve --pull"), "{lines:?}");
    assert!(place.hub.requests().is_empty());
    assert!(!place.packs().exists());
}
