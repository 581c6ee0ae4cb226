//! The word that was probably meant.

/// Longest word that is compared, bytes: what is longer is no slip of the hand.
const LONGEST: usize = 64;

/// The known word nearest to `word`, if one is close: a few letters off, or the same but for case, `-` and `_`.
pub(super) fn of<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = bare(word);
    let allowed = match word.len() {
        0 => return None,
        1..=3 => 1,
        4..=8 => 2,
        _ => 3,
    };
    let near = known.iter().map(|name| (distance(&word, &bare(name)), *name)).min_by_key(|(distance, _)| *distance)?;
    (near.0 <= allowed).then_some(near.1)
}

fn bare(word: &str) -> Vec<char> {
    word.chars().filter(|char| !matches!(char, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// How many letters must be added, left out or changed to make `a` of `b` (Levenshtein).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, from) in a.iter().enumerate() {
        let mut diagonal = index;
        row[0] = index + 1;
        for (column, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_if_it_is_near() {
        let known = ["name", "days", "start_hour", "wait_hours", "canary_count"];
        for (word, near) in [
            ("start_hours", Some("start_hour")),
            ("startHour", Some("start_hour")),
            ("START-HOUR", Some("start_hour")),
            ("wait_hour", Some("wait_hours")),
            ("nmae", Some("name")),
            ("day", Some("days")),
            ("x", None),
            ("", None),
            ("colour", None),
            ("_", None),
        ] {
            assert_eq!(of(word, &known), near, "{word}");
        }
        assert_eq!(of(&"a".repeat(1000), &known), None);
        assert_eq!(of("a", &[]), None);
    }
}
