//! A constraint adds nothing to the token path where it only keeps control tokens out: in thoughts and in free text nothing is
//! allocated. Where a grammar is followed the library allocates; how often is bounded here, so that a change is seen.

mod guided_support;

use guided_support::{compile, encode, environment};
use rawloop_engine::guided::{AnswerPlan, Constraint, Grammar, Thinking};
use rawloop_testkit::allocations::{Counting, here};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations while these tokens are masked and accepted.
fn allocations(constraint: &mut Constraint, ids: &[u32]) -> usize {
    let before = here();
    for &id in ids {
        assert!(constraint.mask().unwrap().allows(id));
        constraint.accept(id).unwrap();
    }
    here() - before
}

#[test]
fn thoughts_and_free_text_allocate_nothing() {
    let text = encode(&"Some words, a number 12 and a brace {. ".repeat(20));
    assert!(text.len() > 200 && text.len() < 1000);
    let grammar = compile(&Grammar::json_object().unwrap());
    let mut free = AnswerPlan::free().begin(&environment());
    let mut thought = AnswerPlan::grammar(grammar).thinking(Thinking::Open).begin(&environment());
    assert_eq!(allocations(&mut free, &text), 0);
    assert_eq!(allocations(&mut thought, &text), 0);
}

#[test]
fn a_grammar_allocates_a_few_times_a_token() {
    let schema = json!({ "type": "array", "items": { "type": "string" } });
    let grammar = compile(&Grammar::json_schema(&schema).unwrap());
    let mut constraint = AnswerPlan::grammar(grammar).begin(&environment());
    let element = encode("\"some words and more of them\", ");
    constraint.accept(encode("[")[0]).unwrap();
    allocations(&mut constraint, &element.repeat(5));
    let each = allocations(&mut constraint, &element.repeat(20)) / (20 * element.len());
    assert!(each <= 24, "{each} allocations a token");
}
