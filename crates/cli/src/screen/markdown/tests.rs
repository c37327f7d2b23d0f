//! Whole texts and texts in pieces: the same look, no sign lost.

use super::*;

/// Styles as short marks: {1} is bold and so on, {} is plain again.
fn marked(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let (style, rest) = part.split_once('m').unwrap();
        let style = style.trim_start_matches("[0").trim_start_matches(';');
        format!("{all}{{{style}}}{rest}")
    })
}

fn whole(text: &str) -> String {
    let mut markdown = Markdown::new(80);
    let mut out = markdown.push(text);
    out += &markdown.end();
    marked(&out)
}

fn in_pieces(text: &str, size: usize) -> String {
    let mut markdown = Markdown::new(80);
    let mut out = String::new();
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(size) {
        out += &markdown.push(&piece.iter().collect::<String>());
    }
    out += &markdown.end();
    marked(&out)
}

const SAMPLE: &str = "# Title\n\nSome **bold**, *slanted* and `code`; snake_case_name, 2*3 and 5 * 4.\n\n- one\n  * two **x**\n\
    1. three\n\n> quoted *text*\n\n```rust\nlet a = b * c; // `x` **y**\n\n```\n---\n[here](https://a.b/c) and [1] and ~~old~~.\n\n\
    | Name | N |\n|---|--:|\n| **a** | 10 |\n| longer | 2 |\n\nend ***all*** \\*not\\*";

#[test]
fn each_kind_of_line_has_its_look() {
    assert_eq!(
        whole(SAMPLE),
        "{1;4}Title{}\n\nSome {1}bold{}, {3}slanted{} and {36}code{}; snake_case_name, 2*3 and 5 * 4.\n\n\
         {2}\u{2022} {}one\n  {2}\u{2022} {}two {1}x{}\n1. three\n\n{2}\u{2502} {}quoted {3}text{}\n\n\
         {2}```rust{}\n{36}let a = b * c; // `x` **y**{}\n\n{2}```{}\n{2}\u{2500}"
            .to_owned()
            + &"\u{2500}".repeat(39)
            + "{}\n{4}here{2} (https://a.b/c){} and [1] and {9}old{}.\n\n\
         {1}Name{}  {2} \u{2502} {} {1}N{}\n{2}\u{2500}\u{2500}\u{2500}\u{2500}\u{2500}\u{2500}\u{2500}\u{253c}\u{2500}\u{2500}\u{2500}{}\n\
         {1}a{}     {2} \u{2502} {}10\nlonger{2} \u{2502} {} 2\n\nend {1;3}all{} *not*"
    );
}

#[test]
fn the_look_does_not_depend_on_the_pieces() {
    let expected = whole(SAMPLE);
    for size in 1..12 {
        assert_eq!(in_pieces(SAMPLE, size), expected, "pieces of {size}");
    }
}

#[test]
fn words_are_shown_at_once_and_signs_when_they_are_certain() {
    let mut markdown = Markdown::new(80);
    assert_eq!(markdown.push("Hello wor"), "Hello wor");
    assert_eq!(markdown.push("ld, 2 *"), "ld, 2 ");
    assert_eq!(markdown.push(" 3 and a*b"), "* 3 and a");
    assert_eq!(markdown.push(" c\n"), "*b c\n");
    assert_eq!(markdown.push("**b"), "");
    assert_eq!(marked(&markdown.push("old** x")), "{1}bold{} x");
    assert_eq!(markdown.push("\n#"), "\n");
    assert_eq!(marked(&markdown.push("# Hea")), "{1;4}Hea");
    assert_eq!(marked(&markdown.push("d\nplain")), "d{}\nplain");
}

#[test]
fn what_is_never_closed_is_text() {
    for text in [
        "a *b",
        "**",
        "a `b",
        "[x",
        "[x](",
        "a ~~b",
        "*",
        "`",
        "#",
        "####### x",
        "-",
        "~",
        "x\\",
        "_a",
        "***",
        "a**",
    ] {
        let expected = if text == "***" { "\u{2500}".repeat(40) } else { text.to_owned() };
        let shown = whole(text).replace("{2}", "").replace("{}", "");
        assert_eq!(shown, expected, "{text:?}");
        assert_eq!(in_pieces(text, 1), whole(text), "{text:?}");
    }
    // A sign does not hold back a line for ever.
    let mut markdown = Markdown::new(80);
    let long = format!("a *{}", "word ".repeat(100));
    assert_eq!(markdown.push(&long), long);
}

#[test]
fn no_character_of_the_text_is_lost() {
    let letters: Vec<char> = "ab*_`~[]()#->|\\ \n".chars().collect();
    let mut state = 1u64;
    for _ in 0..4000 {
        let mut text = String::new();
        for _ in 0..40 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push(letters[(state >> 33) as usize % letters.len()]);
        }
        let shown = whole(&text);
        let kept = |text: &str| text.chars().filter(|c| matches!(c, 'a' | 'b')).collect::<String>();
        assert_eq!(kept(&shown), kept(&text), "{text:?}");
        for size in [1, 2, 5] {
            assert_eq!(in_pieces(&text, size), shown, "{text:?} in pieces of {size}");
        }
    }
}

#[test]
fn a_table_that_is_none_or_does_not_fit_is_left_as_it_was() {
    assert_eq!(whole("|x| y\n"), "|x| y\n");
    let wide = format!("| a | b |\n|---|---|\n| {} | c |\n", "w".repeat(90));
    assert_eq!(whole(&wide), wide);
    let wide_letters = whole("| \u{6f22}\u{5b57} | b |\n|-|-|\n| x | y \\| z |\n");
    let rules = |count| "\u{2500}".repeat(count);
    let expected = format!(
        "{{1}}\u{6f22}\u{5b57}{{}}{{2}} \u{2502} {{}}{{1}}b{{}}\n{{2}}{}\u{253c}{}{{}}\nx   {{2}} \u{2502} {{}}y | z\n",
        rules(5),
        rules(6)
    );
    assert_eq!(wide_letters, expected);
}

#[test]
fn the_next_text_begins_anew() {
    let mut markdown = Markdown::new(80);
    markdown.push("```\ncode");
    markdown.end();
    assert_eq!(marked(&markdown.push("*a* \n")), "{3}a{} \n");
    // Deep quotations are no deep recursion.
    let deep = format!("{}x\n", ">".repeat(20_000));
    assert!(marked(&markdown.push(&deep)).ends_with("{}x\n"));
}

#[test]
fn a_longer_fence_holds_a_shorter_one() {
    assert_eq!(whole("````\n```\n*x*\n````\n*y*"), "{2}````{}\n{36}```{}\n{36}*x*{}\n{2}````{}\n{3}y{}");
    assert_eq!(whole("```\nnever closed"), "{2}```{}\n{36}never closed{}");
}
