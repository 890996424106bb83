//! Writing to standard output: one locked write, and a reader that has left (as `head` does) is no error. Messages on
//! standard error are for the command's own `main`.

use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::{Error, Result};

/// Writes text to standard output as it is.
pub fn print(text: &str) -> Result<()> {
    write(&mut std::io::stdout().lock(), text)
}

/// Writes a value to standard output as indented JSON and a line end.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&json(value)?)
}

/// A value as indented JSON and a line end.
pub fn json(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Request(format!("cannot be written as JSON: {e}")))?;
    Ok(text + "\n")
}

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::io(Path::new("standard output"), &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_broken_pipe_is_forgiven() {
        let mut out = vec![];
        write(&mut out, "text\n").unwrap();
        assert_eq!(out, b"text\n");
        assert!(write(&mut Fails(ErrorKind::BrokenPipe), "text").is_ok());
        let error = write(&mut Fails(ErrorKind::StorageFull), "text").unwrap_err().to_string();
        assert!(error.starts_with("standard output: "), "{error}");
        assert_eq!(json(&[1]).unwrap(), "[\n  1\n]\n");
    }
}
