//! Shell patterns over pool names, with the meaning of Go's `filepath.Match` (reference §2.2 "Wildcards").
//!
//! | in a pattern | matches |
//! |---|---|
//! | `*` | any characters but `/`, or none |
//! | `?` | one character but `/` |
//! | `[abc]`, `[a-z]`, `[^a-z]` | one character of the class, or outside it |
//! | `\c` | the character `c` itself |
//! | anything else | itself |
//!
//! Names of Kubernetes objects are ASCII; on other text this module counts characters where Go's `*` counts
//! bytes.

/// The form that errors show.
pub const FORM: &str = "a name, or a pattern of *, ?, [a-z] and [^a-z]";

/// True when a pool's name is to be taken as a pattern: it contains `*`, `?`, or a `[` with a `]` after it.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?']) || name.split_once('[').is_some_and(|(_, after)| after.contains(']'))
}

/// A pattern that Go would refuse as malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pattern {pattern:?} {problem}")]
pub struct MalformedPattern {
    /// The whole pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// A pattern ready to be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Star,
    One,
    Literal(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::One => c != '/',
            Self::Literal(own) => *own == c,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

impl Pattern {
    /// Reads a pattern; what is malformed is refused whether or not a match would get that far.
    pub fn parse(text: &str) -> Result<Self, MalformedPattern> {
        let malformed = |problem| MalformedPattern {
            pattern: text.to_owned(),
            problem,
        };
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let token = match c {
                '*' => Token::Star,
                '?' => Token::One,
                '[' => class(&mut rest).map_err(malformed)?,
                '\\' => Token::Literal(rest.next().ok_or_else(|| malformed("ends with a single \\"))?),
                other => Token::Literal(other),
            };
            if token != Token::Star || tokens.last() != Some(&Token::Star) {
                tokens.push(token);
            }
        }
        Ok(Self(tokens))
    }

    /// True when the whole name fits. Costs at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        // The latest star and where its text ends so far; only that star is ever tried longer, as in Go.
        let mut star: Option<(usize, usize)> = None;
        loop {
            match (self.0.get(token), name.get(at)) {
                (None, None) => return true,
                (Some(Token::Star), _) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                (Some(one), Some(c)) if one.takes(*c) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            match star {
                Some((own, end)) if name.get(end).is_some_and(|c| *c != '/') => {
                    star = Some((own, end + 1));
                    (token, at) = (own + 1, end + 1);
                }
                _ => return false,
            }
        }
    }
}

/// Reads a class after its `[`.
fn class(rest: &mut std::str::Chars<'_>) -> Result<Token, &'static str> {
    const OPEN: &str = "has a [ without its ]";
    let negated = rest.as_str().starts_with('^');
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && rest.as_str().starts_with(']') {
            rest.next();
            return Ok(Token::Class { negated, ranges });
        }
        let low = member(rest)?;
        let high = if rest.as_str().starts_with('-') {
            rest.next();
            member(rest)?
        } else {
            low
        };
        if rest.as_str().is_empty() {
            return Err(OPEN);
        }
        ranges.push((low, high));
    }
}

fn member(rest: &mut std::str::Chars<'_>) -> Result<char, &'static str> {
    match rest.next() {
        None => Err("has a [ without its ]"),
        Some('-' | ']') => Err("has a - or ] in a class where a character must be; write \\- or \\]"),
        Some('\\') => rest.next().ok_or("ends with a single \\"),
        Some(c) => Ok(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> Option<bool> {
        Pattern::parse(pattern).ok().map(|pattern| pattern.matches(name))
    }

    #[test]
    fn a_pattern_means_what_it_means_to_go() {
        let (yes, no) = (Some(true), Some(false));
        let cases = [
            ("pool-1", "pool-1", yes),
            ("pool-1", "pool-10", no),
            ("", "", yes),
            ("", "p", no),
            ("*", "", yes),
            ("*", "pool", yes),
            ("**", "pool", yes),
            ("*", "shop/pool", no),
            ("shop/*", "shop/pool", yes),
            ("*/pool", "shop/pool", yes),
            ("*-v4", "zone-a-v4", yes),
            ("*-v4", "zone-a-v6", no),
            ("zone-*-v4", "zone--v4", yes),
            ("z*-*4", "zone-a-v4", yes),
            ("z*-*4", "zone-a-v44", yes),
            ("z*-*4", "zone", no),
            ("*aab", "aaaab", yes),
            ("pool-?", "pool-1", yes),
            ("pool-?", "pool-", no),
            ("pool??", "pool/1", no),
            ("pool-[123]", "pool-2", yes),
            ("pool-[1-3]", "pool-4", no),
            ("pool-[^1-3]", "pool-4", yes),
            ("pool-[^1-3]", "pool-2", no),
            ("pool-[!1]", "pool-!", yes),
            ("pool-[3-1]", "pool-2", no),
            ("pool-[1-39]", "pool-9", yes),
            ("p[^x]q", "p/q", yes),
            ("p\\*", "p*", yes),
            ("p\\*", "pq", no),
            ("p[\\]]", "p]", yes),
            ("p[\\-]", "p-", yes),
            ("p[[?*]", "p*", yes),
            ("p[^^]", "p^", no),
            ("p]", "p]", yes),
            ("[ä-ü]*", "öl", yes),
            // Only the latest star gives way.
            ("*[p/]*q", "p/q", no),
            ("[", "p", None),
            ("[^", "p", None),
            ("[p", "p", None),
            ("[p-", "p", None),
            ("[]p]", "p", None),
            ("[^]", "p", None),
            ("[-p]", "p", None),
            ("[p-]", "p", None),
            ("[o-p-q]", "p", None),
            ("p\\", "p", None),
            ("[p\\", "p", None),
            ("never-reached[", "p", None),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern:?} on {name:?}");
        }
    }

    #[test]
    fn only_what_can_match_something_else_is_a_pattern() {
        for (name, expected) in [
            ("pool-1", false),
            ("pool*", true),
            ("p?", true),
            ("p[12]", true),
            ("p[1", false),
            ("p]1[", false),
        ] {
            assert_eq!(is_pattern(name), expected, "{name}");
        }
    }

    /// Every way a star can be spent, tried one after the other.
    fn slow(tokens: &[Token], name: &[char]) -> bool {
        match (tokens.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((Token::Star, later)), _) => (0..=name.len()).any(|taken| slow(later, &name[taken..])),
            (Some((one, later)), Some((c, rest))) => one.takes(*c) && slow(later, rest),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(pattern in any::<String>(), name in any::<String>()) {
            let _ = (is_pattern(&pattern), matches(&pattern, &name));
        }

        #[test]
        fn nothing_panics_near_patterns(pattern in "[ab\\*?\\[\\]^\\\\/-]{0,12}", name in "[ab/\\]-]{0,8}") {
            let _ = matches(&pattern, &name);
        }

        #[test]
        fn one_star_at_a_time_finds_what_all_ways_find(
            pattern in "([ab?*]|\\[ab\\]|\\[\\^a\\]){0,8}", name in "[abc]{0,8}",
        ) {
            let parsed = Pattern::parse(&pattern).unwrap();
            let name: Vec<char> = name.chars().collect();
            let text: String = name.iter().collect();
            prop_assert_eq!(parsed.matches(&text), slow(&parsed.0, &name));
        }
    }
}
