//! Which characters are no text: one rule for what operators write, what hosts say, and what is shown (FLEET §8).

/// What a terminal obeys or hides: controls, and marks that change the direction or have no width.
pub fn is_unsafe(char: char) -> bool {
    char.is_control() || turns(char) || matches!(char, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}')
}

/// Controls, and marks that change the direction: in a longer text those without a width may be meant.
pub fn is_unsafe_in_document(char: char) -> bool {
    char.is_control() || turns(char)
}

/// A text with U+FFFD in place of each such character.
pub fn cleaned(text: &str) -> String {
    text.replace(is_unsafe, "\u{fffd}")
}

/// The same of at most `most` characters, with an ellipsis behind it where more are left out.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => cleaned(text),
        Some((end, _)) => cleaned(text.get(..end).unwrap_or_default()) + "…",
    }
}

fn turns(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
        || matches!(char, '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_and_controls_are_no_text_and_letters_are() {
        for char in ['\u{1b}', '\u{9b}', '\u{7f}', '\u{202e}', '\u{2066}', '\u{200e}', '\u{61c}'] {
            assert!(is_unsafe(char) && is_unsafe_in_document(char), "{char:?}");
        }
        assert!(is_unsafe('\u{200b}') && !is_unsafe_in_document('\u{200d}'));
        assert!(!"aä語 א-ع".chars().any(is_unsafe));
    }
}
