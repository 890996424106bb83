//! Files that are written whole: under a random name beside their target, and renamed when they are complete. What is in them is
//! the business of the callers.
//!
//! - The random name is created exclusively, so that no existing file or link is opened by accident, whoever planted it.
//! - An existing file keeps its permissions and, where the system allows it, its owner. A file that the user may not write is
//!   refused, although a rename could replace it.
//! - A symbolic link is followed: the file that it points to is replaced, and the link stays. A link of another user in a
//!   directory that everybody may write to, such as `/tmp`, is refused, as the Linux kernel does with `protected_symlinks`.
//! - Devices, pipes and open descriptors (`/dev/stdout`, `/proc/self/fd/1`) are written directly.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Start of the names of incomplete files.
const PREFIX: &str = ".thalweg-";
/// End of these names.
const SUFFIX: &str = ".part";
/// Number of random names to try; one is enough unless 64 random bits repeat.
const ATTEMPTS: usize = 16;
/// Number of symbolic links to follow, as on Linux.
const LINKS: usize = 40;

/// File under construction. It appears under its name when it is [committed](OutputFile::commit); dropped before that, it leaves
/// nothing behind and an existing file as it was.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// The incomplete file; `None` once it was renamed, and for what is written directly.
    incomplete: Option<PathBuf>,
    /// Where it is renamed to; `None` for what is written directly and for working space.
    target: Option<PathBuf>,
}

/// What a path names.
enum Destination {
    /// A regular file, which may exist.
    File(PathBuf, Option<Metadata>),
    /// A device, a pipe or an open descriptor.
    Direct,
}

impl OutputFile {
    /// Begins a file.
    pub fn create(path: &Path) -> io::Result<Self> {
        match destination(path)? {
            // Appending matters for a descriptor that is a regular file, in which this process may have written before.
            Destination::Direct => {
                Ok(OutputFile { file: OpenOptions::new().append(true).open(path)?, incomplete: None, target: None })
            }
            Destination::File(target, existing) => {
                if existing.is_some() {
                    // Without truncation, this changes nothing; it fails for a file that the user has protected.
                    OpenOptions::new().write(true).open(&target)?;
                }
                let (incomplete, file) = create_beside(&target, existing.as_ref())?;
                let output = OutputFile { file, incomplete: Some(incomplete), target: Some(target) };
                if let Some(existing) = existing {
                    keep_owner(&output.file, &existing)?;
                }
                Ok(output)
            }
        }
    }

    /// Begins a file that is not written in order, which devices and pipes cannot be. They are not opened.
    pub fn create_seekable(path: &Path) -> io::Result<Self> {
        if let Destination::Direct = destination(path)? {
            let what = "is a device or a pipe; expected a file, because its parts are not written in order";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        OutputFile::create(path)
    }

    /// Creates a file for working space beside `path`. It cannot be committed and is removed when dropped.
    pub fn working_space(path: &Path) -> io::Result<Self> {
        let (incomplete, file) = create_beside(path, None)?;
        Ok(OutputFile { file, incomplete: Some(incomplete), target: None })
    }

    /// Gives the file its name, in place of an existing file of that name. With `durable`, the contents reach the disk first, so
    /// that even a power failure leaves one of the two files.
    pub fn commit(mut self, durable: bool) -> io::Result<()> {
        if let (Some(incomplete), Some(target)) = (&self.incomplete, &self.target) {
            if durable {
                self.file.sync_data()?;
            }
            fs::rename(incomplete, target)?;
            self.incomplete = None;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(incomplete) = &self.incomplete {
            // If it cannot be removed either, the error about writing is the one to report.
            drop(fs::remove_file(incomplete));
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for OutputFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a file, completely or not at all.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes)?;
    file.commit(false)
}

/// Checks that [`OutputFile`] could write this file. It leaves no file behind, and does not open devices and pipes.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match destination(path)? {
        Destination::Direct => Ok(()),
        Destination::File(..) => OutputFile::create(path).map(drop),
    }
}

/// Returns whether this is the name of an incomplete file. One is left behind only by a process that was killed.
pub fn is_incomplete(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Follows symbolic links to what a path names.
fn destination(path: &Path) -> io::Result<Destination> {
    let mut target = path.to_path_buf();
    for _ in 0..LINKS {
        if cfg!(unix) && (target.starts_with("/proc") || target.starts_with("/dev/fd")) {
            return Ok(Destination::Direct);
        }
        let about = match fs::symlink_metadata(&target) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Destination::File(target, None)),
            about => about?,
        };
        if about.is_symlink() {
            check_link(&target, &about)?;
            let to = fs::read_link(&target)?;
            target = target.parent().map_or_else(|| to.clone(), |directory| directory.join(&to));
        } else if about.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        } else if about.is_file() {
            return Ok(Destination::File(target, Some(about)));
        } else {
            return Ok(Destination::Direct);
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Creates a file with a random name in the directory of `target`, with the permissions of `existing`.
fn create_beside(target: &Path, existing: Option<&Metadata>) -> io::Result<(PathBuf, File)> {
    let directory = target.parent().unwrap_or(Path::new(""));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if let Some(existing) = existing {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        // Never more open than the file that it replaces, not even for a moment.
        options.mode(existing.mode() & 0o777);
    }
    #[cfg(not(unix))]
    let _ = existing;
    let mut attempts = 0;
    loop {
        // The keys of the hasher are random numbers of the operating system, which nobody can guess.
        let random = RandomState::new().build_hasher().finish();
        let path = directory.join(format!("{PREFIX}{random:016x}{SUFFIX}"));
        match options.open(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && attempts < ATTEMPTS => attempts += 1,
            created => return created.map(|file| (path, file)),
        }
    }
}

/// Gives a new file the owner and the permissions of the one that it replaces.
#[cfg(unix)]
fn keep_owner(file: &File, existing: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (existing.uid(), existing.gid()) {
        // Only the superuser may give files away; for others the file becomes their own.
        drop(fchown(file, Some(existing.uid()), Some(existing.gid())));
    }
    // The mode at creation was reduced by the umask.
    file.set_permissions(fs::Permissions::from_mode(existing.mode() & 0o777))
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Refuses a link of another user in a directory that everybody may write to.
#[cfg(unix)]
fn check_link(link: &Path, about: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    const SHARED: u32 = 0o1002;
    let directory = link.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let of_directory = fs::metadata(directory)?;
    if of_directory.mode() & SHARED != SHARED || about.uid() == of_directory.uid() {
        return Ok(());
    }
    // Owner of a file that this process creates there.
    let own = OutputFile::working_space(link)?.file.metadata()?.uid();
    if about.uid() == own {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        "is a symbolic link of another user in a directory that everybody may write to",
    ))
}

#[cfg(not(unix))]
fn check_link(_: &Path, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("thalweg-output-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_appears_when_it_is_committed() {
        let here = Folder::new("commit");
        let path = here.0.join("file");
        let mut output = OutputFile::create(&path).unwrap();
        output.write_all(b"text").unwrap();
        assert!(!path.exists() && is_incomplete(&here.names()[0]));
        output.commit(true).unwrap();
        assert_eq!((fs::read(&path).unwrap(), here.names()), (b"text".to_vec(), vec!["file".to_string()]));
        // What is not committed leaves the old file.
        OutputFile::create(&path).unwrap().write_all(b"other").unwrap();
        assert_eq!((fs::read(&path).unwrap(), here.names().len()), (b"text".to_vec(), 1));
        write_file(&path, b"new").unwrap();
        check_writable(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), here.names().len()), (b"new".to_vec(), 1));
        let mut space = OutputFile::working_space(&path).unwrap();
        space.write_all(b"scratch").unwrap();
        space.rewind().unwrap();
        let mut text = String::new();
        space.read_to_string(&mut text).unwrap();
        assert_eq!(text, "scratch");
        space.commit(false).unwrap();
        assert_eq!(here.names(), ["file"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let here = Folder::new("refuse");
        assert_eq!(check_writable(&here.0).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(write_file(&here.0.join("no/file"), b"").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(here.names().is_empty());
    }
}
