//! The state of a constraint: mask, forced tokens, way back, forks; thoughts before the grammar; drafts; hostile grammars.

mod guided_support;

use std::sync::Arc;

use guided_support::{Random, allowed, begin, compile, decode, encode, environment, tokenizer, walk};
use rawloop_engine::guided::{
    AnswerPlan, Constraint, Environment, Grammar, GuidedError, SharedEnvironment, Spacing, Thinking,
    best_allowed,
};
use rawloop_engine::sample::{Sampler, SamplingOptions};
use rawloop_tokenizer::SpecialTokens;
use serde_json::{Value, json};

/// Grammars of every kind, with forced parts and free ones.
fn grammars() -> Vec<Grammar> {
    let person = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": {
            "name": { "type": "string", "maxLength": 12 }, "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "größe": { "type": "number" }, "tags": { "type": "array", "items": { "enum": ["red", "green", "日本"] }, "maxItems": 3 },
            "next": { "$ref": "#" },
        },
    });
    vec![
        Grammar::json_schema(&person).unwrap(),
        Grammar::json_schema_spaced(&person, Spacing::Compact).unwrap(),
        Grammar::json_object().unwrap(),
        Grammar::regex(r"(\d{4})-(0[1-9]|1[0-2]) and then [a-z]{2,9}(, [a-z]{2,9})*").unwrap(),
        Grammar::lark("start: \"(\" (start | WORD) \")\"\nWORD: /[a-zäö ]{1,6}/").unwrap(),
        Grammar::choice(&["the first", "the second one", "the second two"]).unwrap(),
        Grammar::json_schema(&json!({ "const": { "a fixed key": ["a fixed text", 12345.5, null] } }))
            .unwrap(),
    ]
}

/// Walks a few random tokens into an answer.
fn somewhere(constraint: &mut Constraint, random: &mut Random) -> Vec<u32> {
    let mut ids = Vec::new();
    for _ in 0..random.below(25) {
        let candidates = allowed(constraint.mask().unwrap());
        let id = *random.pick(&candidates);
        constraint.accept(id).unwrap();
        ids.push(id);
        if constraint.has_ended() {
            break;
        }
    }
    ids
}

/// Everything that can be asked of a state.
fn state(constraint: &mut Constraint) -> (Vec<u32>, Vec<u32>, bool, bool) {
    if constraint.has_ended() {
        return (Vec::new(), Vec::new(), true, true);
    }
    let mask = constraint.mask().unwrap().0.to_vec();
    let forced = constraint.forced().unwrap().to_vec();
    (mask, forced, constraint.can_stop().unwrap(), constraint.is_complete().unwrap())
}

#[test]
fn exactly_the_tokens_of_the_mask_are_accepted() {
    let mut random = Random(11);
    for grammar in grammars() {
        for _ in 0..6 {
            let mut constraint = begin(&grammar);
            somewhere(&mut constraint, &mut random);
            if constraint.has_ended() {
                assert_eq!(constraint.accept(5), Err(GuidedError::Ended));
                continue;
            }
            let shown = allowed(constraint.mask().unwrap());
            let vocab = environment().tokenizer().vocab_size();
            let mut tried: Vec<u32> = shown.iter().copied().take(3).collect();
            tried.extend((0..40).map(|_| random.below(vocab as usize + 50) as u32));
            tried.extend((0..20).map(|_| *random.pick(&shown)));
            for id in tried {
                // Once with the mask known and once without.
                for ask in [true, false] {
                    let mut fork = constraint.fork();
                    if ask {
                        fork.mask().unwrap();
                    }
                    match fork.accept(id) {
                        Ok(()) => assert!(shown.contains(&id), "{id} is accepted but not shown"),
                        Err(GuidedError::Refused { token, position, .. }) => {
                            assert_eq!((token, position), (id, constraint.position()));
                            assert!(!shown.contains(&id), "{id} is shown but refused");
                            assert_eq!(state(&mut fork), state(&mut constraint), "a refusal changes nothing");
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn a_rollback_is_as_if_the_tokens_had_never_come() {
    let mut random = Random(12);
    for grammar in grammars() {
        for _ in 0..8 {
            let mut constraint = begin(&grammar);
            let ids = somewhere(&mut constraint, &mut random);
            let back = random.below(ids.len() + 1);
            constraint.rollback(back).unwrap();
            let kept = &ids[..ids.len() - back];
            let mut fresh = begin(&grammar);
            kept.iter().for_each(|&id| fresh.accept(id).unwrap());
            assert_eq!(constraint.position(), kept.len());
            assert_eq!(state(&mut constraint), state(&mut fresh), "{:?} less {back}", decode(&ids));
            // And it goes on the same way.
            let seed = random.next();
            if !constraint.has_ended() {
                let one = walk(&mut constraint, &mut Random(seed), 10);
                let other = walk(&mut fresh, &mut Random(seed), 10);
                assert_eq!((one.ids, one.stop), (other.ids, other.stop));
            }
        }
    }
    let mut constraint = begin(&Grammar::json_object().unwrap());
    assert_eq!(constraint.rollback(1), Err(GuidedError::Rollback { wanted: 1, held: 0 }));
    constraint.rollback(0).unwrap();
}

#[test]
fn forced_tokens_are_what_the_mask_would_force() {
    let mut random = Random(13);
    let mut most = 0;
    for grammar in grammars() {
        for _ in 0..8 {
            let mut constraint = begin(&grammar);
            somewhere(&mut constraint, &mut random);
            if constraint.has_ended() {
                continue;
            }
            let forced = constraint.forced().unwrap().to_vec();
            most = most.max(forced.len());
            for &id in &forced {
                assert_eq!(allowed(constraint.mask().unwrap()), [id]);
                assert!(!constraint.can_stop().unwrap());
                constraint.accept(id).unwrap();
            }
            // Forced tokens are cut as the tokenizer cuts the text.
            let text = decode(&forced);
            if text.contains('\u{fffd}') {
                // Forced from the middle of a character on.
                continue;
            }
            assert_eq!(encode(&text).len(), forced.len(), "{text:?}");
        }
    }
    assert!(most >= 5, "at most {most} tokens were forced at once");
}

#[test]
fn forks_go_on_independently() {
    let mut one = begin(&grammars()[0]);
    encode("{\"name\": \"").into_iter().for_each(|id| one.accept(id).unwrap());
    let mut other = one.fork();
    let before = state(&mut one);
    encode("Ada\", \"age\":").into_iter().for_each(|id| other.accept(id).unwrap());
    assert_eq!(state(&mut one), before);
    other.rollback(other.position() - one.position()).unwrap();
    assert_eq!(state(&mut other), before);
}

#[test]
fn the_tokenizers_own_cut_of_a_valid_answer_is_accepted() {
    let mut random = Random(14);
    for grammar in grammars() {
        for _ in 0..10 {
            let answer = walk(&mut begin(&grammar), &mut random, 15);
            let text = decode(&answer.ids);
            let mut constraint = begin(&grammar);
            for id in encode(&text) {
                constraint.accept(id).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            }
            assert!(constraint.can_stop().unwrap(), "{text:?}");
        }
    }
}

#[test]
fn an_answer_ends_with_a_stop_and_only_where_it_is_complete() {
    let control = environment().control().clone();
    let grammar = compile(&Grammar::regex("ab?").unwrap());
    let mut constraint = AnswerPlan::grammar(grammar.clone()).begin(&environment());
    assert!(matches!(constraint.accept(control.turn_close), Err(GuidedError::Refused { .. })));
    constraint.accept(encode("a")[0]).unwrap();
    assert!(constraint.can_stop().unwrap() && !constraint.is_complete().unwrap());
    for stop in [control.eos, control.turn_close] {
        assert!(constraint.mask().unwrap().allows(stop));
    }
    assert!(!constraint.mask().unwrap().allows(control.response_open));
    constraint.accept(encode("b")[0]).unwrap();
    assert!(constraint.is_complete().unwrap());
    assert_eq!(allowed(constraint.mask().unwrap()), [control.eos, control.turn_close]);
    constraint.accept(control.eos).unwrap();
    assert!(constraint.has_ended() && constraint.mask().is_err() && constraint.forced().is_err());
    assert_eq!(constraint.accept(control.eos), Err(GuidedError::Ended), "the end is handled once");
    // The stop can be taken back like any token.
    constraint.rollback(2).unwrap();
    assert!(!constraint.is_complete().unwrap() && constraint.can_stop().unwrap());
    let mut other = AnswerPlan::grammar(grammar).stops(&[control.response_open]).begin(&environment());
    other.accept(encode("a")[0]).unwrap();
    assert!(other.accept(control.turn_close).is_err());
    other.accept(control.response_open).unwrap();
}

/// The text of a model that writes whatever it likes best, by a fixed preference over tokens.
fn logits(random: &mut Random) -> Vec<f32> {
    (0..environment().tokenizer().vocab_size()).map(|_| random.below(1 << 20) as f32 / 65536.0).collect()
}

#[test]
fn the_sampler_takes_the_mask_greedy_and_not() {
    let vocab = environment().tokenizer().vocab_size() as usize;
    let hot = SamplingOptions { temperature: 1.5, top_k: 40, seed: 9, ..SamplingOptions::greedy() };
    let mut random = Random(15);
    for options in [SamplingOptions::greedy(), hot] {
        let greedy = options.temperature == 0.0;
        let mut sampler = Sampler::new(options, vocab, Some(30.0)).unwrap();
        let mut constraint = begin(&grammars()[0]);
        for position in 0..60 {
            let mut row = logits(&mut random);
            let mask = constraint.mask().unwrap();
            let picked = sampler.pick(&mut row, position, Some(mask)).unwrap();
            if greedy {
                assert_eq!(Some(picked), best_allowed(&row, mask));
            }
            assert!(mask.allows(picked));
            constraint.accept(picked).unwrap();
            if constraint.has_ended() {
                break;
            }
        }
    }
}

/// Case 41: with a thought allowed, the answer begins with its mark or with the grammar, never with something between.
#[test]
fn nothing_stands_between_a_thought_and_the_grammar() {
    let control = environment().control().clone();
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "integer" } },
        "required": ["a", "b"], "additionalProperties": false });
    let grammar = compile(&Grammar::json_schema(&schema).unwrap());
    let validator = jsonschema::validator_for(&schema).unwrap();
    for seed in 0..20 {
        let mut constraint =
            AnswerPlan::grammar(grammar.clone()).thinking(Thinking::Allowed).begin(&environment());
        let plain = allowed(AnswerPlan::grammar(grammar.clone()).begin(&environment()).mask().unwrap());
        let mut first = allowed(constraint.mask().unwrap());
        first.retain(|&id| id != control.channel_open);
        assert_eq!(first, plain, "only the mark is added");
        let mut random = Random(seed);
        let answer = walk(&mut constraint, &mut random, 20);
        let text = decode(&answer.ids);
        let content = match text.split_once("<channel|>") {
            Some((thought, content)) => {
                assert!(thought.starts_with("<|channel>"), "{text}");
                content
            }
            None => &text,
        };
        let value: Value = serde_json::from_str(content).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(validator.is_valid(&value), "{text}");
    }
}

/// Case 82: the thought is free, then comes one JSON value, then the end.
#[test]
fn a_thought_is_free_and_one_value_follows() {
    let control = environment().control().clone();
    let grammar =
        compile(&Grammar::json_schema(&json!({ "type": "array", "items": { "enum": [1] } })).unwrap());
    let thoughts = encode("thought\nLet me see: ``` {\"not\": JSON ]] \" and on.\n");
    let open = AnswerPlan::grammar(grammar.clone()).thinking(Thinking::Open);
    let required = AnswerPlan::grammar(grammar.clone()).thinking(Thinking::Required);
    for (answer, opened) in [(open, true), (required, false)] {
        let mut constraint = answer.begin(&environment());
        if !opened {
            assert_eq!(constraint.forced().unwrap(), [control.channel_open]);
            assert_eq!(allowed(constraint.mask().unwrap()), [control.channel_open]);
            assert!(!constraint.can_stop().unwrap());
            constraint.accept(control.channel_open).unwrap();
        }
        assert!(constraint.in_thought() && constraint.forced().unwrap().is_empty());
        thoughts.iter().for_each(|&id| constraint.accept(id).unwrap());
        for id in
            [control.turn_close, control.eos, control.call_open, control.channel_open, control.delimiter]
        {
            assert!(constraint.accept(id).is_err(), "{id} ends no thought");
        }
        constraint.accept(control.channel_close).unwrap();
        assert!(constraint.accept(control.channel_open).is_err(), "one thought is enough");
        let begins = |id: &u32| decode(&[*id]).starts_with('[');
        assert!(
            allowed(constraint.mask().unwrap()).iter().all(begins),
            "the grammar begins with its first byte"
        );
        encode("[1]").iter().for_each(|&id| constraint.accept(id).unwrap());
        assert!(constraint.is_complete().unwrap(), "nothing but the end can follow");
        constraint.accept(control.turn_close).unwrap();
    }
}

/// Case 79: a draft that runs across the end of a thought, refused in part, leaves the matcher where the accepted tokens are.
#[test]
fn drafts_across_the_end_of_a_thought_are_checked_and_taken_back() {
    let control = environment().control().clone();
    let grammar = compile(&grammars()[0]);
    let mut random = Random(16);
    let mut agreed_all = 0;
    for _ in 0..50 {
        let mut constraint =
            AnswerPlan::grammar(grammar.clone()).thinking(Thinking::Open).begin(&environment());
        let mut accepted = Vec::new();
        while !constraint.has_ended() && accepted.len() < 60 {
            // A draft: three tokens of which the last ones may be anything, such as the fence of a code block.
            let mut draft = Vec::new();
            let mut ahead = constraint.fork();
            for _ in 0..3 {
                if ahead.has_ended() {
                    break;
                }
                let candidates = allowed(ahead.mask().unwrap());
                let id = if candidates.contains(&control.channel_close) && random.chance(30) {
                    control.channel_close
                } else {
                    *random.pick(&candidates)
                };
                ahead.accept(id).unwrap();
                draft.push(id);
            }
            let agreed = draft.len();
            draft.extend(encode("```"));
            let before = state(&mut constraint);
            let found = constraint.agrees(&draft).unwrap();
            assert!(found >= agreed, "the draft's first {agreed} tokens can follow");
            assert_eq!(state(&mut constraint), before, "checking changes nothing");
            agreed_all += usize::from(found == draft.len());
            // The model agrees with some of them; the rest is refused.
            let keep = random.below(agreed) + 1;
            for &id in &draft[..keep] {
                constraint.accept(id).unwrap();
                accepted.push(id);
            }
        }
        let mut fresh = AnswerPlan::grammar(grammar.clone()).thinking(Thinking::Open).begin(&environment());
        accepted.iter().for_each(|&id| fresh.accept(id).unwrap());
        assert_eq!(state(&mut constraint), state(&mut fresh));
        // All of it can be taken back, thought included.
        constraint.rollback(accepted.len()).unwrap();
        assert!(constraint.in_thought() && constraint.position() == 0);
    }
    assert!(agreed_all > 0, "a fence inside a thought is free text");
}

/// Case 65: reserved and media tokens are not text, and one that comes all the same fails the request only.
#[test]
fn reserved_tokens_are_masked_and_refused() {
    let tokenizer = environment().tokenizer().clone();
    let reserved: Vec<u32> = (0..tokenizer.vocab_size())
        .filter(|&id| tokenizer.is_special(id) || tokenizer.spelling(id).unwrap().starts_with("<unused"))
        .collect();
    assert!(reserved.len() > 20);
    let control = environment().control().clone();
    let stops = [control.eos, control.turn_close];
    let grammar = compile(&Grammar::json_schema(&json!({ "type": "string" })).unwrap());
    let free = AnswerPlan::free().begin(&environment());
    let mut inside = AnswerPlan::grammar(grammar).begin(&environment());
    inside.accept(encode("\"")[0]).unwrap();
    for mut constraint in [free, inside] {
        for &id in reserved.iter().filter(|id| !stops.contains(id)) {
            assert!(!constraint.mask().unwrap().allows(id), "{:?}", tokenizer.spelling(id));
            assert!(matches!(constraint.accept(id), Err(GuidedError::Refused { .. })));
        }
        assert!(constraint.accept(u32::MAX).is_err());
        encode("text").iter().for_each(|&id| constraint.accept(id).unwrap());
    }
}

/// Case 81: a model that only writes white space comes to the next element at once.
#[test]
fn white_space_is_bounded() {
    let field = |name: String| (name, json!({ "type": "string", "maxLength": 3 }));
    let properties: serde_json::Map<String, Value> =
        (0..9).map(|place| field(format!("field{place}"))).collect();
    let names: Vec<&String> = properties.keys().collect();
    let schema = json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false });
    let mut constraint = begin(&Grammar::json_schema(&schema).unwrap());
    let tokenizer = environment().tokenizer().clone();
    let blank = |id: u32| tokenizer.token_bytes(id).unwrap().iter().all(u8::is_ascii_whitespace);
    let mut ids = Vec::new();
    while !constraint.is_complete().unwrap() {
        // The tiny vocabulary has no tokens for runs of spaces: here every one of them is a token.
        assert!(ids.len() < 900, "{:?}", decode(&ids));
        let candidates = allowed(constraint.mask().unwrap());
        let inside_string = candidates.len() > 500;
        let quote = encode("\"")[0];
        let id = match candidates.iter().copied().find(|&id| blank(id) && !inside_string) {
            Some(id) => id,
            None if candidates.contains(&quote) => quote,
            None => candidates[0],
        };
        constraint.accept(id).unwrap();
        ids.push(id);
    }
    let text = decode(&ids);
    assert!(jsonschema::is_valid(&schema, &serde_json::from_str(&text).unwrap()), "{text}");
    let longest = text.split(|c: char| !c.is_whitespace()).map(str::len).max().unwrap();
    assert!((1..=17).contains(&longest), "{longest} characters of white space: {text:?}");
    assert!(!text.contains("\n\n"));
    let compact = Grammar::json_schema_spaced(&schema, Spacing::Compact).unwrap();
    let walk = walk(&mut begin(&compact), &mut Random(3), 0);
    assert!(decode(&walk.ids).starts_with("{\"field0\":\""));
}

/// A model that likes digits: it takes the first of its characters that can follow, then any digit, as long as one can.
#[test]
fn numbers_come_to_an_end() {
    let bounded = json!({ "type": "number", "minimum": 0.5 });
    for schema in [json!({ "type": "number" }), bounded, json!({ "type": "integer" })] {
        let grammar = compile(&Grammar::json_schema(&schema).unwrap());
        for likes in ["9", "1.3", "e9+", "-1e9"] {
            let liked: Vec<u32> =
                format!("{likes}0123456789").chars().map(|c| encode(&c.to_string())[0]).collect();
            let mut constraint = AnswerPlan::grammar(grammar.clone()).begin(&environment());
            let mut ids = Vec::new();
            while let mask = constraint.mask().unwrap()
                && let Some(&id) = liked.iter().find(|&&id| mask.allows(id))
            {
                constraint.accept(id).unwrap();
                ids.push(id);
                assert!(ids.len() < 60, "{schema}: {}", decode(&ids));
            }
            let text = decode(&ids);
            assert!(constraint.can_stop().unwrap(), "{schema}: {text}");
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(value.as_f64().unwrap().is_finite());
        }
    }
}

#[test]
fn hostile_grammars_fail_their_own_request() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let chain = many(3000, &|place| format!("r{place}: \"a\" r{}\n", place + 1));
    let grammars = [
        Grammar::regex("(a{1000}){1000}"),
        Grammar::regex("(.*a){50}(.*b){50}"),
        Grammar::regex(&format!("{}a{}", "(".repeat(3000), ")*".repeat(3000))),
        Grammar::lark("start: \"a\" start"),
        Grammar::lark("start: ((\"a\"{1000}){1000}){1000}"),
        Grammar::lark("start: a\na: a a | \"x\" | \"\""),
        Grammar::lark(&format!("start: {}\"a\"{}", "(".repeat(3000), ")".repeat(3000))),
        Grammar::lark(&format!("start: r0\n{chain}r3000: \"x\"")),
        Grammar::lark("start: A\nA: /(.*a){8}/ & /(.*b){8}/ & /(.*c){8}/ & /(.*d){8}/"),
        Grammar::json_schema(
            &json!({ "allOf": vec![json!({ "anyOf": (0..10).map(|place| json!({ "type": "object",
            "properties": { format!("k{place}"): { "type": "integer" } } })).collect::<Vec<_>>() }); 8] }),
        ),
        Grammar::json_schema(&json!({ "type": "string", "minLength": 1_000_000 })),
        Grammar::json_schema(&json!({ "type": "array", "minItems": 900_000_000, "items": { "const": "x" } })),
        Grammar::json_schema(&json!({ "const": "abc ".repeat(15_000) })),
        Grammar::json_schema(&json!({ "type": "string", "pattern": "(x+x+)+y" })),
    ];
    for grammar in grammars {
        let Ok(compiled) = grammar.and_then(|grammar| environment().compile(&grammar)) else { continue };
        let mut constraint = AnswerPlan::grammar(compiled).begin(&environment());
        for _ in 0..20 {
            match constraint.forced() {
                Ok(_) => {}
                Err(GuidedError::Failed(_)) => break,
                Err(error) => panic!("{error}"),
            }
            let Ok(mask) = constraint.mask() else { break };
            let Some(&id) = allowed(mask).first() else { break };
            if constraint.accept(id).is_err() || constraint.has_ended() {
                break;
            }
        }
    }
    // The environment is not harmed.
    let mut constraint = begin(&Grammar::choice(&["still here"]).unwrap());
    assert_eq!(decode(constraint.forced().unwrap()), "still here");
}

#[test]
fn a_row_that_is_too_complex_is_an_error_of_the_request() {
    let words: Vec<String> = (0..3000).map(|place| format!("\"k{place}\" start")).collect();
    let grammar = Grammar::lark(&format!("start: \"\" | {}", words.join(" | "))).unwrap();
    match environment().compile(&grammar) {
        Err(error) => {
            assert!(matches!(error, GuidedError::Nothing(_) | GuidedError::Syntax { .. }), "{error}")
        }
        Ok(compiled) => {
            let mut constraint = AnswerPlan::grammar(compiled).begin(&environment());
            let error = encode("k12k13").into_iter().find_map(|id| constraint.accept(id).err()).unwrap();
            assert!(matches!(error, GuidedError::Failed(_)), "{error}");
            assert!(matches!(constraint.mask(), Err(GuidedError::Failed(_))), "it stays failed");
        }
    }
}

#[test]
fn the_environment_is_built_once_and_ahead_of_use() {
    let shared = SharedEnvironment::new(tokenizer("models/tiny/checkpoint/tokenizer.json").unwrap());
    shared.start();
    shared.start();
    let others: Vec<_> = (0..3).map(|_| shared.clone()).collect();
    let built: Vec<_> = std::thread::scope(|scope| {
        let waiting: Vec<_> = others.iter().map(|shared| scope.spawn(|| shared.get().unwrap())).collect();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let first = shared.get().unwrap();
    assert!(built.iter().all(|environment| std::sync::Arc::ptr_eq(environment, &first)));
}

#[test]
fn grammars_are_shared_among_threads_and_constraints_move_between_them() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<Environment>();
    shared::<SharedEnvironment>();
    shared::<rawloop_engine::guided::CompiledGrammar>();
    shared::<AnswerPlan>();
    moved::<Constraint>();
    let answer = AnswerPlan::grammar(compile(&grammars()[0]));
    let walks: Vec<_> = std::thread::scope(|scope| {
        let one = |_| scope.spawn(|| walk(&mut answer.begin(&environment()), &mut Random(1), 20).ids);
        let threads: Vec<_> = (0..3).map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(walks.iter().all(|walk| walk == &walks[0]));
}

/// With 262,144 tokens, of which some stand for several characters of a grammar at once.
#[test]
fn the_released_vocabulary_is_followed_too() {
    let Some(tokenizer) = tokenizer("target/test-data/tokenizer-gemma4.json") else {
        eprintln!("skipped: scripts/get-test-tokenizer.sh has not been run");
        return;
    };
    let environment = Environment::new(&tokenizer).unwrap();
    let encode = |text: &str| tokenizer.encode(text, SpecialTokens::Text);
    let schema = json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "integer" } }, "größe": { "const": "日本 \u{1F9FF}" } },
        "required": ["a", "größe"], "additionalProperties": false });
    let compiled = Arc::new(environment.compile(&Grammar::json_schema(&schema).unwrap()).unwrap());
    let text = "{\"a\": [1, 22], \"größe\": \"日本 \u{1F9FF}\"}";
    let mut constraint = AnswerPlan::grammar(compiled).begin(&environment);
    let mut forced = 0;
    for id in encode(text) {
        forced += constraint.forced().unwrap().len().min(1);
        assert!(constraint.mask().unwrap().allows(id));
        constraint.accept(id).unwrap();
    }
    assert!(forced >= 5 && constraint.is_complete().unwrap());
    constraint.rollback(constraint.position()).unwrap();
    // A byte that is a character token too is spelled in one way only, and reserved tokens are no text.
    for spelling in ["<0x41>", "<0x0A>", "<unused7>", "<|image>", "<bos>"] {
        let id = tokenizer.token_id(spelling).unwrap();
        assert!(!AnswerPlan::free().begin(&environment).mask().unwrap().allows(id), "{spelling}");
    }
    // The text of a reserved token can be an answer, in pieces.
    let choice = environment.compile(&Grammar::choice(&["<unused7>"]).unwrap()).unwrap();
    let mut constraint = AnswerPlan::grammar(choice).begin(&environment);
    let forced = constraint.forced().unwrap().to_vec();
    assert!(forced.len() > 1);
    forced.iter().for_each(|&id| constraint.accept(id).unwrap());
    assert!(constraint.is_complete().unwrap());
}

#[test]
fn a_tokenizer_without_the_control_tokens_is_refused() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/checkpoint/tokenizer.json");
    let json = std::fs::read_to_string(path).unwrap().replace("<|channel>", "<|chanel>");
    let tokenizer =
        rawloop_tokenizer::Tokenizer::load(rawloop_tokenizer::bake(json.as_bytes()).unwrap()).unwrap();
    let error = Environment::new(&tokenizer).unwrap_err();
    assert!(error.to_string().contains("<|channel>"), "{error}");
    let shared = SharedEnvironment::new(tokenizer);
    shared.start();
    assert_eq!(shared.get().unwrap_err(), error);
}
