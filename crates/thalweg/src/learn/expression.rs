//! Grammar of expressions: `hinge + 0.02 * scad`, `roc_gap(thresholds = 400, low = -3, high = 3)`, `variance(logistic)`, `hinge
//! <= 0.45`, `hinge <= 1.001 * best(hinge)`. The meaning of the names is defined in `build.rs`.

use std::fmt;
use std::str::FromStr;

use crate::error::quoted;
use crate::{Error, Result};

/// A sum of multiples of terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    /// Factor and term.
    pub pieces: Vec<(f64, Call)>,
}

/// A call of a term with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name of the term.
    pub name: String,
    /// Term given as the first, unnamed argument: the loss in `variance(logistic)`.
    pub of: Option<Box<Call>>,
    /// Arguments by name.
    pub arguments: Vec<(String, Argument)>,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A number.
    Number(f64),
    /// A quoted word.
    Word(String),
}

/// `expression <= bound`.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedExpression {
    /// Left-hand side.
    pub expression: Expression,
    /// Right-hand side.
    pub bound: Bound,
}

/// Right-hand side of a constraint: a number, or a multiple of the smallest value of an expression plus a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Factor and expression of `factor * best(expression)`.
    pub best: Option<(f64, Expression)>,
    /// The number, or the constant that is added.
    pub plus: f64,
}

impl From<f64> for Bound {
    fn from(plus: f64) -> Self {
        Bound { best: None, plus }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Argument::Number(v) => write!(f, "{v}"),
            // A word that was read has at most one kind of quotes.
            Argument::Word(w) if w.contains('"') => write!(f, "'{w}'"),
            Argument::Word(w) => write!(f, "\"{w}\""),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.name)?;
        let mut before = "(";
        if let Some(of) = &self.of {
            write!(f, "{before}{of}")?;
            before = ", ";
        }
        for (name, value) in &self.arguments {
            write!(f, "{before}{name} = {value}")?;
            before = ", ";
        }
        if before == "(" { Ok(()) } else { write!(f, ")") }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, (factor, call)) in self.pieces.iter().enumerate() {
            if i > 0 {
                write!(f, " + ")?;
            }
            if *factor != 1.0 {
                write!(f, "{factor} * ")?;
            }
            write!(f, "{call}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BoundedExpression {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} <= {}", self.expression, self.bound)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Some((factor, expression)) = &self.best else { return write!(f, "{}", self.plus) };
        if *factor != 1.0 {
            write!(f, "{factor} * ")?;
        }
        write!(f, "best({expression})")?;
        if self.plus == 0.0 { Ok(()) } else { write!(f, " + {}", self.plus) }
    }
}

impl FromStr for Expression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser::new(text)?;
        let expression = parser.expression()?;
        parser.end()?;
        Ok(expression)
    }
}

impl FromStr for BoundedExpression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((left, right)) = text.split_once("<=") else {
            let hint = if text.contains(">=") || text.contains('=') { ": only <= is understood" } else { "" };
            return Err(Error::setting("constraint", format!("'{text}'"), format!("TERM <= NUMBER{hint}")));
        };
        let bound = Bound::read(right.trim(), &format!(" in '{text}'"))?;
        Ok(BoundedExpression { expression: left.trim().parse()?, bound })
    }
}

impl FromStr for Bound {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Bound::read(text.trim(), "")
    }
}

impl Bound {
    /// Parses a bound. `place` describes its position in error messages.
    fn read(text: &str, place: &str) -> Result<Self> {
        if let Some(number) = text.parse::<f64>().ok().filter(|v| v.is_finite()) {
            return Ok(number.into());
        }
        if !text.contains("best") {
            let wanted = "a finite number, or one with best(TERM) such as 1.001 * best(hinge)";
            return Err(Error::setting("bound", format!("'{text}'{place}"), wanted));
        }
        let mut parser = Parser::new(text)?;
        let bound = parser.bound()?;
        parser.end()?;
        Ok(bound)
    }
}

/// Name of the function that gives the smallest value of an expression. No term has this name.
const BEST: &str = "best";

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Word(String),
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Token::Number(v) => write!(f, "{v}"),
            Token::Name(n) => write!(f, "'{n}'"),
            Token::Word(w) => write!(f, "\"{w}\""),
            Token::Sign(c) => write!(f, "'{c}'"),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self> {
        let mut tokens = vec![];
        let mut rest = text.trim_start();
        while let Some(c) = rest.chars().next() {
            let length = if c.is_ascii_digit() || c == '.' || (c == '-' && !rest[1..].trim_start().is_empty()) {
                let length = number_length(rest);
                let number = rest[..length].parse().ok().filter(|v: &f64| v.is_finite());
                tokens.push(Token::Number(
                    number.ok_or_else(|| wrong(text, format!("a number in place of '{}'", &rest[..length.max(1)])))?,
                ));
                length
            } else if c.is_alphabetic() || c == '_' {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                tokens.push(Token::Name(rest[..length].into()));
                length
            } else if c == '"' || c == '\'' {
                let end = rest[1..].find(c).ok_or_else(|| wrong(text, "a closing quote"))?;
                tokens.push(Token::Word(rest[1..=end].into()));
                end + 2
            } else if "+*(),=".contains(c) {
                tokens.push(Token::Sign(c));
                1
            } else {
                return Err(wrong(text, format!("a term in place of '{c}'")));
            };
            rest = rest[length..].trim_start();
        }
        Ok(Parser { text, tokens: tokens.into_iter().peekable() })
    }

    fn wrong(&self, wanted: impl fmt::Display) -> Error {
        wrong(self.text, wanted)
    }

    /// Returns the error for a token other than the expected one.
    fn instead(&mut self, wanted: &str) -> Error {
        let found = self.tokens.peek().map_or("the end".to_string(), ToString::to_string);
        self.wrong(format!("{wanted} in place of {found}"))
    }

    fn take(&mut self, sign: char) -> bool {
        self.tokens.next_if_eq(&Token::Sign(sign)).is_some()
    }

    fn expression(&mut self) -> Result<Expression> {
        let mut pieces = vec![self.piece()?];
        while self.take('+') {
            pieces.push(self.piece()?);
        }
        Ok(Expression { pieces })
    }

    fn bound(&mut self) -> Result<Bound> {
        let mut bound = Bound::from(0.0);
        loop {
            match self.number() {
                Some(v) if !self.take('*') => bound.plus += v,
                factor => {
                    let factor = self.positive(factor)?;
                    if self.tokens.next_if(|t| matches!(t, Token::Name(n) if n == BEST)).is_none() {
                        return Err(self.instead("best(TERM)"));
                    }
                    if bound.best.is_some() {
                        return Err(self.wrong("best(…) once"));
                    }
                    if !self.take('(') {
                        return Err(self.instead("'(' after 'best'"));
                    }
                    bound.best = Some((factor, self.expression()?));
                    if !self.take(')') {
                        return Err(self.instead("'+' or ')'"));
                    }
                }
            }
            if !self.take('+') {
                return Ok(bound);
            }
        }
    }

    fn number(&mut self) -> Option<f64> {
        match self.tokens.peek() {
            Some(&Token::Number(v)) => {
                self.tokens.next();
                Some(v)
            }
            _ => None,
        }
    }

    /// Checks a factor; an absent one is 1.
    fn positive(&self, factor: Option<f64>) -> Result<f64> {
        match factor {
            Some(v) if v <= 0.0 => Err(self.wrong(format!("a positive factor in place of {v}"))),
            factor => Ok(factor.unwrap_or(1.0)),
        }
    }

    fn piece(&mut self) -> Result<(f64, Call)> {
        let factor = self.number();
        if factor.is_some() && !self.take('*') {
            return Err(self.instead("'*' and a term"));
        }
        let factor = self.positive(factor)?;
        let Some(Token::Name(name)) = self.tokens.next_if(|t| matches!(t, Token::Name(_))) else {
            return Err(self.instead("a term"));
        };
        Ok((factor, self.call(name, true)?))
    }

    /// Parses a call after its name. A call may contain another one only if `holds` is set, one level deep.
    fn call(&mut self, name: String, holds: bool) -> Result<Call> {
        if name == BEST {
            return Err(self.wrong("a term in place of best(…), which belongs in a bound such as hinge <= 1.001 * best(hinge)"));
        }
        let mut call = Call { name: usual_name(name), of: None, arguments: vec![] };
        if !self.take('(') {
            return Ok(call);
        }
        while !self.take(')') {
            let first = call.of.is_none() && call.arguments.is_empty();
            if !first && !self.take(',') {
                return Err(self.instead("',' or ')'"));
            }
            let Some(Token::Name(name)) = self.tokens.next_if(|t| matches!(t, Token::Name(_))) else {
                return Err(self.instead("NAME = VALUE"));
            };
            if first && matches!(self.tokens.peek(), None | Some(Token::Sign('(' | ',' | ')'))) {
                if !holds {
                    return Err(self.wrong(format!("a term that holds no other, in place of {}({name}…)", call.name)));
                }
                call.of = Some(Box::new(self.call(name, false)?));
                continue;
            }
            let value = self.value_of(&name)?;
            if call.arguments.iter().any(|(n, _)| *n == name) {
                return Err(self.wrong(format!("'{name}' once")));
            }
            call.arguments.push(usual_word(name, value));
        }
        Ok(call)
    }

    /// Parses the value of an argument after its name.
    fn value_of(&mut self, name: &str) -> Result<Argument> {
        if !self.take('=') {
            return Err(self.instead(&format!("'=' after '{name}'")));
        }
        match self.tokens.next_if(|t| matches!(t, Token::Number(_) | Token::Word(_))) {
            Some(Token::Number(v)) => Ok(Argument::Number(v)),
            Some(Token::Word(w)) => Ok(Argument::Word(w)),
            _ => Err(self.instead(&format!("a number or a quoted word for '{name}'"))),
        }
    }

    fn end(&mut self) -> Result<()> {
        if self.tokens.peek().is_none() { Ok(()) } else { Err(self.instead("'+' or the end")) }
    }
}

/// Returns the name of a term that may be spelled in two ways.
fn usual_name(name: String) -> String {
    if name == "equalized_odds" { "equalised_odds".into() } else { name }
}

/// Returns an argument whose word may be spelled with underscores, as in fairlearn.
fn usual_word(name: String, value: Argument) -> (String, Argument) {
    match value {
        Argument::Word(word) if name == "compare" => (name, Argument::Word(word.replace('_', "-"))),
        value => (name, value),
    }
}

fn wrong(text: &str, wanted: impl fmt::Display) -> Error {
    Error::Problem(format!("'{}' cannot be read; expected {wanted}", quoted(text.trim())))
}

/// Returns the length of the number that `text` starts with, including sign and exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = usize::from(bytes.first() == Some(&b'-'));
    while let Some(&b) = bytes.get(i) {
        let exponent_sign = (b == b'-' || b == b'+') && matches!(bytes.get(i.wrapping_sub(1)), Some(b'e' | b'E'));
        // A letter other than e ends the number; parsing rejects `2e`.
        if b.is_ascii_digit() || b == b'.' || b == b'e' || b == b'E' || exponent_sign {
            i += 1;
        } else {
            break;
        }
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> String {
        text.parse::<Expression>().unwrap().to_string()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Expression>().unwrap_err().to_string()
    }

    #[test]
    fn expressions_are_read_and_written() {
        assert_eq!(round_trip("hinge"), "hinge");
        assert_eq!(round_trip(" hinge+0.02*scad "), "hinge + 0.02 * scad");
        assert_eq!(
            round_trip("roc_gap( thresholds=400 , low = -3.0, high = 3e0 )"),
            "roc_gap(thresholds = 400, low = -3, high = 3)"
        );
        assert_eq!(round_trip("logistic(on = 'positives')"), "logistic(on = \"positives\")");
        assert_eq!(round_trip("logistic(on = '\"ositives')"), "logistic(on = '\"ositives')");
        assert_eq!(round_trip("logistic(on = \"it's\")"), "logistic(on = \"it's\")");
        assert_eq!(round_trip("1e-3 * l1 + hinge()"), "0.001 * l1 + hinge");
        assert_eq!(round_trip("2 * equalized_odds"), "2 * equalised_odds");
        assert_eq!(round_trip("demographic_parity(compare = 'to_overall')"), "demographic_parity(compare = \"to-overall\")");
    }

    #[test]
    fn a_term_of_a_term_is_read_and_written() {
        for (text, written) in [
            ("variance(logistic)", "variance(logistic)"),
            ("variance( logistic() ,form='sqrt' )", "variance(logistic, form = \"sqrt\")"),
            (
                "hinge+.5*variance(welsch(scale=2, on='positives'))",
                "hinge + 0.5 * variance(welsch(scale = 2, on = \"positives\"))",
            ),
            ("self_paced(hinge, age = 2, softness = 0.5)", "self_paced(hinge, age = 2, softness = 0.5)"),
        ] {
            assert_eq!(round_trip(text), written);
            assert_eq!(written.parse::<Expression>().unwrap(), text.parse::<Expression>().unwrap());
        }
        let read: Expression = "variance(logistic, form = 'sqrt')".parse().unwrap();
        let (_, call) = &read.pieces[0];
        assert_eq!(call.of.as_ref().unwrap().name, "logistic");
        assert_eq!(call.arguments, [("form".into(), Argument::Word("sqrt".into()))]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "a term in place of the end"),
            ("hinge +", "a term in place of the end"),
            ("2 hinge", "'*' and a term in place of 'hinge'"),
            ("-1 * hinge", "a positive factor in place of -1"),
            ("hinge scad", "'+' or the end in place of 'scad'"),
            ("roc_gap(400)", "NAME = VALUE in place of 400"),
            ("roc_gap(low = -3", "',' or ')' in place of the end"),
            ("roc_gap(low = high)", "a number or a quoted word for 'low' in place of 'high'"),
            ("roc_gap(low = 1, low = 2)", "'low' once"),
            ("hinge & scad", "a term in place of '&'"),
            ("hinge(on = 'posi)", "a closing quote"),
            ("1.2.3 * hinge", "a number in place of '1.2.3'"),
            ("hinge - scad", "a number in place of '-'"),
            ("variance(logistic", "',' or ')' in place of the end"),
            ("variance(logistic form = 'sqrt')", "'=' after 'logistic' in place of 'form'"),
            ("variance(logistic, hinge)", "'=' after 'hinge' in place of ')'"),
            ("variance(form = 'sqrt', logistic)", "'=' after 'logistic' in place of ')'"),
            ("variance(logistic 3)", "'=' after 'logistic' in place of 3"),
            ("variance(2 * logistic)", "NAME = VALUE in place of 2"),
            ("variance(variance(logistic))", "a term that holds no other, in place of variance(logistic…)"),
            ("variance(best(hinge))", "a term in place of best(…)"),
            ("roc_gap(low 3)", "'=' after 'low' in place of 3"),
            ("é", "unreachable"),
        ] {
            if text == "é" {
                assert_eq!(round_trip(text), "é");
            } else {
                assert!(refusal(text).contains(part), "{text}: {}", refusal(text));
            }
        }
    }

    #[test]
    fn bounds_are_finite_numbers_after_at_most() {
        let read: BoundedExpression = "hinge <= 0.45".parse().unwrap();
        assert_eq!((read.to_string().as_str(), read.bound), ("hinge <= 0.45", 0.45.into()));
        let refusal = |text: &str| text.parse::<BoundedExpression>().unwrap_err().to_string();
        assert!(refusal("hinge <= abc").contains("bound must be a finite number"));
        assert!(refusal("hinge <= inf").contains("bound must be a finite number"));
        assert!(refusal("hinge >= 1").contains("only <= is understood"));
        assert!(refusal("hinge").contains("TERM <= NUMBER"));
    }

    #[test]
    fn bounds_with_reference_values_are_read_and_written() {
        for (text, written) in [
            ("hinge<=best( hinge )", "hinge <= best(hinge)"),
            ("hinge <= 1.001*best(hinge)", "hinge <= 1.001 * best(hinge)"),
            ("hinge <= best(hinge) + 0.01", "hinge <= best(hinge) + 0.01"),
            ("hinge <= 0.01 + 2 * best(hinge) + 1", "hinge <= 2 * best(hinge) + 1.01"),
            ("hinge <= best(hinge) + -0.01", "hinge <= best(hinge) + -0.01"),
            ("l2 <= best(hinge+0.01*l2)", "l2 <= best(hinge + 0.01 * l2)"),
            ("l2 <= 3 * best(logistic(on = 'positives'))", "l2 <= 3 * best(logistic(on = \"positives\"))"),
        ] {
            let read: BoundedExpression = text.parse().unwrap();
            assert_eq!(read.to_string(), written);
            assert_eq!(written.parse::<BoundedExpression>().unwrap(), read);
            assert_eq!(read.bound.to_string().parse::<Bound>().unwrap(), read.bound);
        }
        let read: BoundedExpression = "hinge <= 1.5 * best(l1) + 0.25".parse().unwrap();
        assert_eq!(read.bound, Bound { best: Some((1.5, "l1".parse().unwrap())), plus: 0.25 });
    }

    #[test]
    fn mistakes_in_reference_values_are_named() {
        for (text, part) in [
            (
                "hinge <= bets(hinge)",
                "bound must be a finite number, or one with best(TERM) such as 1.001 * best(hinge), got 'bets(hinge)'",
            ),
            ("hinge <= best", "'(' after 'best' in place of the end"),
            ("hinge <= best hinge", "'(' after 'best' in place of 'hinge'"),
            ("hinge <= best()", "a term in place of ')'"),
            ("hinge <= best(hinge", "'+' or ')' in place of the end"),
            ("hinge <= best(hinge))", "'+' or the end in place of ')'"),
            ("hinge <= best(0.3)", "'*' and a term in place of ')'"),
            ("hinge <= 0 * best(hinge)", "a positive factor in place of 0"),
            ("hinge <= -1 * best(hinge)", "a positive factor in place of -1"),
            ("hinge <= 2 * hinge + best(hinge)", "best(TERM) in place of 'hinge'"),
            ("hinge <= 2 best(hinge)", "'+' or the end in place of 'best'"),
            ("hinge <= best(hinge) + best(l2)", "best(…) once"),
            ("hinge <= best(best(hinge))", "a term in place of best(…), which belongs in a bound"),
            ("best(hinge) <= 1", "a term in place of best(…), which belongs in a bound"),
            ("hinge <= best(hinge) - 0.1", "a number in place of '-'"),
            ("hinge <= best(hinge) +", "best(TERM) in place of the end"),
        ] {
            let refusal = text.parse::<BoundedExpression>().unwrap_err().to_string();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
