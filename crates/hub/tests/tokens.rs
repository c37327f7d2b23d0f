//! Tokens: the hub that they are for gets them, nobody else does, and no message shows one.

mod place;
mod support;

use place::place_with;
use rawloop_hub::{HubError, TokenUse};
use support::Act;

#[test]
fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let place = place_with(&[("HF_TOKEN", "hf_secret")]);
    let (_, events) = place.pulled();
    assert!(!format!("{events:?}").contains("hf_secret"));
    let requests = place.hub.requests();
    assert!(requests.iter().any(|request| request.content));
    for request in &requests {
        let token = request.header("authorization");
        assert_eq!(token.is_some(), !request.content, "{request:?}");
        assert!(token.is_none_or(|token| token == "Bearer hf_secret"));
        assert_eq!(request.header("accept-encoding"), Some("identity"));
    }
    // Away from the hub and back again: still the hub.
    let (hub, content) = (place.hub.url.clone(), place.hub.content_url.clone());
    place.hub.script(move |request| {
        let to = if request.path == "/away" { format!("{hub}/back") } else { format!("{content}/away") };
        (request.path != "/back").then(|| Act::Status(302, vec![("Location", to)], String::new()))
    });
    place.refused_anyway(&["has no me/data"]);
    let seen: Vec<_> =
        place.hub.requests().iter().map(|r| (r.content, r.header("authorization").is_some())).collect();
    assert_eq!(seen, [(false, true), (true, false), (false, true)]);
    place
        .hub
        .script(|request| Some(Act::Status(307, vec![("Location", request.path.clone())], String::new())));
    place.refused_anyway(&["redirects in a circle"]);
}

#[test]
fn a_stored_token_goes_to_no_mirror_and_one_that_was_given_does() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hf_stored\n").unwrap();
    let mut place = place_with(&[("HF_TOKEN_PATH", file.path().to_str().unwrap())]);
    assert!(place.settings.token.is_some());
    place.hub.script(|_| Some(Act::Status(401, vec![], String::new())));
    let error = place.refused(&["needs a token", "the stored one goes to no other server", "HF_TOKEN"]);
    assert!(matches!(error, HubError::Unauthorized { token: TokenUse::Stored, .. }), "{error:?}");
    place.hub.heal();
    place.pulled();
    assert!(place.hub.requests().iter().all(|request| request.header("authorization").is_none()));

    place.settings.set_token_file(file.path()).unwrap();
    place.pulled();
    let asked = place.hub.requests();
    assert!(asked.iter().all(|request| request.header("authorization") == Some("Bearer hf_stored")));
    assert_eq!(asked.len(), 1);
}

#[test]
fn a_refused_token_is_not_asked_for_again() {
    let place = place_with(&[("HF_TOKEN", "hf_secret")]);
    place.hub.script(|_| Some(Act::Status(401, vec![], String::new())));
    let message = place.refused(&["the one given was refused"]).to_string();
    assert!(!message.contains("hf_secret"));
    place.hub.script(|_| Some(Act::Status(403, vec![("X-Error-Code", "GatedRepo".into())], String::new())));
    place.refused(&["with the account of the token"]);
}
