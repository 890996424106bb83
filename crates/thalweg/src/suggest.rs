//! Suggestions for misspelt names, used wherever a user names something from a known list.

/// Returns the known word nearest to `word`, if it is close enough to be a likely typing error: by edit distance (a transposition
/// is one edit), otherwise the first word that extends `word` or is a prefix of it.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.trim().to_lowercase();
    let allowed = 1 + word.chars().count() / 4;
    let mut best: Option<(usize, &str)> = None;
    let mut longer = None;
    for candidate in known {
        let lower = candidate.to_lowercase();
        let edits = distance(&word, &lower);
        if edits <= allowed && edits < lower.chars().count() && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
        let shared = word.len().min(lower.len());
        if longer.is_none() && shared >= 3 && (lower.starts_with(&word) || word.starts_with(&lower)) {
            longer = Some(candidate);
        }
    }
    best.map(|(_, candidate)| candidate).or(longer)
}

/// Returns the end of a sentence about an unknown name: "; did you mean 'x'?", or an empty string if no known word is near.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

/// As [`did_you_mean`], with the list "; expected one of a, b" if no known word is near.
pub fn did_you_mean_one_of(word: &str, known: &[&str]) -> String {
    let hint = did_you_mean(word, known.iter().copied());
    if hint.is_empty() { format!("; expected one of {}", known.join(", ")) } else { hint }
}

/// Returns the edit distance from `a` to `b`: insertions, deletions, replacements and transpositions of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before = vec![];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if j > 0 && previous == Some(y) && b[j - 1] == x {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
        previous = Some(x);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        for (a, b, edits) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("adlut", "adult", 1), ("ab", "ba", 1)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["a9a", "adult", "bank", "compas", "german", "german-numer", "covtype-sample"];
        for (word, wanted) in [
            ("a9", Some("a9a")),
            ("adlut", Some("adult")),
            ("Adult", Some("adult")),
            ("german.numer", Some("german-numer")),
            ("germann", Some("german")),
            ("covtype", Some("covtype-sample")),
            ("compas-scores", Some("compas")),
            ("zebra", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), wanted, "{word}");
        }
        assert_eq!(did_you_mean("bnak", known), "; did you mean 'bank'?");
        assert_eq!(did_you_mean("zebra", known), "");
        assert_eq!(did_you_mean_one_of("bnak", &known), "; did you mean 'bank'?");
        assert_eq!(did_you_mean_one_of("zebra", &["a", "b"]), "; expected one of a, b");
        assert_eq!(nearest("any", []), None);
    }
}
