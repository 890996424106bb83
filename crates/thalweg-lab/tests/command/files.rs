//! Files that are written: nothing else is overwritten, and whatever goes wrong leaves the old file or the new one, whole.

use crate::common::{Place, Ran};

/// A table that can be trained on in an instant.
const TABLE: &str = "age,sex,y\n20,f,no\n30,m,yes\n40,f,yes\n25,m,no\n33,f,no\n45,m,yes\n50,f,yes\n21,m,no\n39,f,yes\n28,m,no\n";

/// A place with a table and a model.
fn trained() -> Place {
    let place = Place::new();
    place.put("t.csv", TABLE);
    place.run(&["fit", "t.csv", "--label", "y", "--out", "m"]).ended(0);
    place
}

#[test]
fn a_file_that_is_read_is_never_the_output() {
    let place = trained();
    let table = |ran: Ran| ran.refused(&["--out t.csv: is the table; expected another file"]);
    table(place.run(&["predict", "m", "t.csv", "--out", "t.csv"]));
    place.run(&["predict", "m", "t.csv", "--out", "m/model.json"]).refused(&["is the model; expected another file"]);
    place.run(&["certify", "m", "--out", "m/model.json"]).refused(&["--out m/model.json: is the model"]);
    place.run(&["certify", "m", "--data", "t.csv", "--out", "t.csv"]).refused(&["--out t.csv: is the data"]);
    place.run(&["certify", "m", "--out", "t.csv"]).refused(&["--out t.csv: is the data"]);
    place.put("m/trace.csv", TABLE);
    place
        .run(&["fit", "m/trace.csv", "--label", "y", "--out", "m"])
        .refused(&["--out m: trace.csv there is the table; expected another directory"]);
    place.put("rows.svm", "1 1:1\n-1 2:1\n1 1:2\n-1 2:2\n");
    let spec = "[data]\nfile = 'rows.svm'\nsplit = 'shared'\n[problem]\nminimize = 'logistic'\n[solver]\nname = 'lbfgs'\n[budget]\niterations = 2\n";
    place.put("run.toml", spec);
    for flag in ["--out", "--trace", "--report", "--checkpoint"] {
        place.run(&["solve", "run.toml", flag, "rows.svm"]).refused(&["rows.svm: is the data of the run"]);
        place.run(&["solve", "run.toml", flag, "./run.toml"]).refused(&["./run.toml: is the description of the run"]);
    }
    place.put("some.toml", spec.replace("minimize = 'logistic'", "minimize = 'logistic'\nsubject_to = ['l2 <= 1']"));
    place
        .run(&["tradeoff", "some.toml", "--bounds", "1,2", "--report", "rows.svm"])
        .refused(&["--report rows.svm: is the data of the run"]);
    place.put("lab.toml", format!("{spec}[record]\nevery = 1\n"));
    place.run(&["lab", "run", "lab.toml", "--quiet"]).ended(0);
    for command in ["export", "report"] {
        place.run(&["lab", command, "--out", "thalweg.sqlite"]).refused(&["--out thalweg.sqlite: is the store"]);
    }
    place.run(&["data", "convert", "rows.svm", "rows.thw"]).ended(0);
    place.run(&["data", "convert", "rows.thw", "rows.thw"]).refused(&["rows.thw: is the file that is read"]);
    assert_eq!((place.read("t.csv"), place.read("run.toml")), (TABLE.to_string(), spec.to_string()));
    assert_eq!(place.read("m/trace.csv"), TABLE);
}

#[test]
fn standard_output_is_written_directly() {
    let place = trained();
    let text = place.run(&["predict", "m", "t.csv"]).ended(0).out;
    assert_eq!(place.run(&["predict", "m", "t.csv", "--out", "-"]).ended(0).out, text);
    assert!(text.starts_with("score,probability,label\n"));
    let page = place.run(&["fit", "t.csv", "--label", "y", "--out", "m", "--report", "-"]).ended(0).out;
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..100]);
    assert!(page.trim_end().ends_with("</html>"));
    let both = ["fit", "t.csv", "--label", "y", "--out", "m", "--report", "-", "--json"];
    place.run(&both).refused(&["--report - and --json both write to standard output; expected one of them"]);
    place.run(&["lab", "report", "--out", "-", "--open"]).refused(&[]);
    assert_eq!(place.files(), ["m", "t.csv"]);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::process::{Command, Stdio};

    use super::*;

    /// Returns whether names of incomplete files are left in a directory or in those below.
    fn incomplete(directory: &std::path::Path) -> bool {
        std::fs::read_dir(directory).unwrap().any(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            name.ends_with(".part") || (entry.file_type().unwrap().is_dir() && incomplete(&entry.path()))
        })
    }

    /// Makes a FIFO; false where there is no program for it.
    fn fifo(path: &std::path::Path) -> bool {
        Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success())
    }

    #[test]
    fn devices_and_pipes_stay_what_they_are() {
        let place = trained();
        place.run(&["predict", "m", "t.csv", "--out", "/dev/null"]).ended(0);
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let text = place.run(&["predict", "m", "t.csv"]).ended(0).out;
        assert_eq!(place.run(&["predict", "m", "t.csv", "--out", "/dev/stdout"]).ended(0).out, text);
        let full = place.run(&["predict", "m", "t.csv", "--out", "/dev/full"]);
        full.refused(&["/dev/full: No space left on device"]);
        assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
        let pipe = place.path("pipe");
        if !fifo(&pipe) {
            return crate::common::skipped("devices_and_pipes_stay_what_they_are", "needs mkfifo");
        }
        let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
        place.run(&["predict", "m", "t.csv", "--out", "pipe"]).ended(0);
        let read = reader.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(read.stdout).unwrap(), text);
        assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        // Neither form that is written out of order can go there.
        std::fs::rename(&pipe, place.path("pipe.thw")).unwrap();
        place.put("rows.svm", "1 1:1\n-1 2:1\n");
        place.run(&["data", "convert", "rows.svm", "pipe.thw"]).refused(&["pipe.thw: is a device or a pipe; expected a file"]);
    }

    #[test]
    fn rows_are_read_from_a_pipe_once() {
        let place = trained();
        let pipe = place.path("pipe");
        if !fifo(&pipe) {
            return crate::common::skipped("rows_are_read_from_a_pipe_once", "needs mkfifo");
        }
        place.put("rows.svm", "1 1:1\n-1 2:1\n1 1:2\n-1 2:2\n1 1:3\n");
        let mut writer = Command::new("cp").args(["rows.svm", "pipe"]).current_dir(place.dir()).spawn().unwrap();
        let out = place.run(&["fit", "pipe", "--test-fraction", "0", "--out", "p"]).ended(0).out;
        writer.wait().unwrap();
        assert!(out.contains("5 rows for training"), "{out}");
    }

    #[test]
    fn planted_names_and_links_are_not_touched() {
        let place = trained();
        place.put("victim", "precious\n");
        place.put("mine.csv.part", "my own\n");
        symlink("victim", place.path("c.csv.part")).unwrap();
        for out in ["c.csv", "mine.csv"] {
            place.run(&["predict", "m", "t.csv", "--out", out]).ended(0);
        }
        assert_eq!((place.read("victim"), place.read("mine.csv.part")), ("precious\n".into(), "my own\n".into()));
        // A link that was named is followed; it stays a link.
        symlink("target.csv", place.path("link.csv")).unwrap();
        for _ in 0..2 {
            place.run(&["predict", "m", "t.csv", "--out", "link.csv"]).ended(0);
            assert!(std::fs::symlink_metadata(place.path("link.csv")).unwrap().is_symlink());
            assert_eq!(place.read("target.csv"), place.read("c.csv"));
        }
        symlink("loop-b", place.path("loop-a")).unwrap();
        symlink("loop-a", place.path("loop-b")).unwrap();
        place.run(&["predict", "m", "t.csv", "--out", "loop-a"]).refused(&["loop-a", "cannot be written"]);
        symlink("t.csv", place.path("alias.csv")).unwrap();
        place.run(&["predict", "m", "t.csv", "--out", "alias.csv"]).refused(&["--out alias.csv: is the table"]);
    }

    #[test]
    fn links_of_others_in_shared_directories_are_refused() {
        let place = trained();
        let shared = place.path("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
        place.put("victim", "precious\n");
        symlink("../victim", shared.join("out.csv")).unwrap();
        // Only the superuser can make files of others.
        if std::os::unix::fs::lchown(shared.join("out.csv"), Some(12_345), None).is_err() {
            return crate::common::skipped("links_of_others_in_shared_directories_are_refused", "needs root");
        }
        let ran = place.run(&["predict", "m", "t.csv", "--out", "shared/out.csv"]);
        ran.refused(&["shared/out.csv: cannot be written: is a symbolic link of another user"]);
        assert_eq!(place.read("victim"), "precious\n");
    }

    #[test]
    fn an_existing_file_keeps_its_permissions_and_owner() {
        let place = trained();
        let mode = |name: &str| std::fs::metadata(place.path(name)).unwrap().mode() & 0o777;
        for bits in [0o600, 0o640, 0o666] {
            place.put("out.csv", "old\n");
            std::fs::set_permissions(place.path("out.csv"), PermissionsExt::from_mode(bits)).unwrap();
            place.run(&["predict", "m", "t.csv", "--out", "out.csv"]).ended(0);
            assert_eq!(mode("out.csv"), bits);
            assert_ne!(place.read("out.csv"), "old\n");
        }
        if std::os::unix::fs::chown(place.path("out.csv"), Some(12_345), Some(12_345)).is_ok() {
            place.run(&["predict", "m", "t.csv", "--out", "out.csv"]).ended(0);
            assert_eq!(std::fs::metadata(place.path("out.csv")).unwrap().uid(), 12_345);
        }
        // A new file has the permissions that the umask leaves.
        place.run(&["predict", "m", "t.csv", "--out", "new.csv"]).ended(0);
        std::fs::File::create(place.path("other")).unwrap();
        assert_eq!(mode("new.csv"), mode("other"));
        assert!(!incomplete(place.dir()));
    }

    /// The command under a limit of the shell, in kilobytes. `None` where there are no such limits.
    fn limited(place: &Place, limit: &str, arguments: &[&str]) -> Option<Ran> {
        let command = place.command(arguments);
        let mut shell = Command::new("bash");
        // Without the trap, the signal of a file that is too large would end the process.
        shell.args(["-c", &format!("ulimit {limit} && trap '' XFSZ && exec \"$0\" \"$@\"")]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(place.dir()).env("HOME", place.dir()).env("THALWEG_CACHE", "off");
        let ran = Ran::from(shell.output().ok()?);
        (!ran.err.contains("ulimit")).then_some(ran)
    }

    /// Every command that writes a file, and the file.
    const WRITERS: [(&str, &[&str]); 13] = [
        ("out.csv", &["predict", "m", "big.csv", "--out", "out.csv"]),
        ("adult.csv", &["data", "table", "adult", "--out", "adult.csv"]),
        ("rows.svm", &["data", "generate", "--like", "covtype", "--rows", "3000", "--quiet", "--out", "rows.svm"]),
        ("rows.svm.gz", &["data", "generate", "--like", "covtype", "--rows", "9000", "--quiet", "--out", "rows.svm.gz"]),
        ("rows.thw", &["data", "generate", "--like", "covtype", "--rows", "3000", "--quiet", "--out", "rows.thw"]),
        ("made.thw", &["data", "convert", "given.svm", "made.thw"]),
        ("page.html", &["fit", "t.csv", "--label", "y", "--out", "n", "--report", "page.html"]),
        ("run.html", &["solve", "run.toml", "--quiet", "--report", "run.html"]),
        ("run.json", &["solve", "run.toml", "--quiet", "--out", "run.json"]),
        ("run.csv", &["solve", "run.toml", "--quiet", "--trace", "run.csv"]),
        ("lab.html", &["lab", "report", "--out", "lab.html"]),
        ("proof.json", &["certify", "big", "--out", "proof.json"]),
        ("points.csv", &["lab", "export", "--points", "--out", "points.csv"]),
    ];

    /// A place where every writer has a file of more than eight kilobytes to write.
    fn writers() -> Place {
        let place = trained();
        place.put("big.csv", format!("age,sex,y\n{}", &TABLE["age,sex,y\n".len()..].repeat(60)));
        place.run(&["fit", "big.csv", "--label", "y", "--out", "big"]).ended(0);
        place.run(&["data", "generate", "--like", "covtype", "--rows", "3000", "--quiet", "--out", "given.svm"]).ended(0);
        let spec = "[data]\nfile = 'given.svm'\nsplit = 'shared'\n[problem]\nminimize = 'logistic'\n[solver]\nname = 'ssg'\n\
                    eta = 0.1\ntol = 0.1\n[budget]\niterations = 100\n[record]\nevery = 1\n";
        place.put("run.toml", spec);
        place.put("lab.toml", spec.replace("iterations = 100", "iterations = 40"));
        place.run(&["lab", "run", "lab.toml", "--quiet"]).ended(0);
        place
    }

    #[test]
    fn standard_output_gets_what_a_file_gets() {
        let place = Place::new();
        place.run(&["data", "table", "german", "--out", "german.csv"]).ended(0);
        let printed = place.run(&["data", "table", "german"]).ended(0).out;
        assert_eq!(printed, std::fs::read_to_string(place.dir().join("german.csv")).unwrap());
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_or_the_new_one() {
        let place = writers();
        for (file, arguments) in WRITERS {
            // A file cannot grow beyond four kilobytes, as if the disk were full; first where there is none, then over one.
            let Some(ran) = limited(&place, "-f 4", arguments) else {
                return crate::common::skipped("a_full_disk_leaves_the_old_file_or_the_new_one", "needs bash with ulimit");
            };
            assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
            assert!(ran.err.contains(file) && ran.err.contains("File too large"), "{arguments:?}: {ran:?}");
            assert!(!place.path(file).exists() && !incomplete(place.dir()), "{arguments:?}");
            place.put(file, "the old file\n");
            let ran = limited(&place, "-f 4", arguments).unwrap();
            assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
            assert_eq!(place.read(file), "the old file\n", "{arguments:?}");
            assert!(!incomplete(place.dir()), "{arguments:?}");
            let ran = place.run(arguments);
            assert!(matches!(ran.code, Some(0 | 1)), "{arguments:?}: {ran:?}");
            let length = std::fs::metadata(place.path(file)).unwrap().len();
            assert!(length > 4096, "{file} has {length} bytes, which is too little for this test");
        }
    }

    #[test]
    fn a_full_disk_keeps_the_old_model() {
        let place = writers();
        let fit = ["fit", "big.csv", "--label", "y", "--out", "m"];
        let old = place.read("m/model.json");
        let Some(ran) = limited(&place, "-f 1", &fit) else {
            return crate::common::skipped("a_full_disk_keeps_the_old_model", "needs bash with ulimit");
        };
        assert_eq!((ran.code, place.read("m/model.json")), (Some(2), old), "{}", ran.err);
        assert!(ran.err.contains("m/model.json: File too large"), "{}", ran.err);
        assert!(!incomplete(place.dir()));
        // A checkpoint that cannot be written does not end the run, and a note tells.
        let solve = ["solve", "run.toml", "--quiet", "--checkpoint", "run.save", "--checkpoint-every", "0"];
        let ran = limited(&place, "-f 1", &solve).unwrap();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("note: ") && ran.out.contains("run.save cannot be written: File too large"), "{ran:?}");
        assert!(!place.path("run.save").exists() && !incomplete(place.dir()));
        // The store of the lab stays sound.
        let ran = limited(&place, "-f 8", &["lab", "run", "lab.toml", "--fresh", "--quiet"]).unwrap();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        place.run(&["lab", "list"]).ended(0);
        place.run(&["lab", "run", "lab.toml", "--quiet"]).ended(0);
    }

    /// Commands that write several files, and the files.
    const WRITERS_OF_SEVERAL: [(&[&str], &[&str]); 4] = [
        (&["n/model.json", "n/trace.csv", "n.html"], &["fit", "big.csv", "--label", "y", "--out", "n", "--report", "n.html"]),
        (
            &["p/model.json", "p/trace.csv", "p/path.svg"],
            &[
                "fit",
                "big.csv",
                "--label",
                "y",
                "--group",
                "sex",
                "--subject-to",
                "demographic_parity <= 0.9",
                "--enforce",
                "unseen",
                "--out",
                "p",
            ],
        ),
        (
            &["w/tradeoff.csv", "w/tradeoff.svg", "w.html"],
            &[
                "tradeoff",
                "big.csv",
                "--label",
                "y",
                "--group",
                "sex",
                "--subject-to",
                "demographic_parity <= 0.9",
                "--bounds",
                "0.2,0.9",
                "--out",
                "w",
                "--report",
                "w.html",
            ],
        ),
        (
            &["s.csv", "s.json", "s.html"],
            &["solve", "run.toml", "--quiet", "--trace", "s.csv", "--out", "s.json", "--report", "s.html"],
        ),
    ];

    /// The old text of a file in the tests of full disks.
    const OLD: &str = "the old file\n";

    /// Asserts that a file is absent, the old one, or as complete as the one in `reference`.
    #[track_caller]
    fn assert_whole(file: &std::path::Path, reference: &std::path::Path, about: &str) {
        let Ok(bytes) = std::fs::read(file) else { return };
        let expected = std::fs::read(reference).unwrap();
        let ends = |end: &str| bytes.trim_ascii_end().ends_with(end.as_bytes());
        let whole = match file.extension().and_then(|e| e.to_str()) {
            Some("json") => serde_json::from_slice::<serde_json::Value>(&bytes).is_ok(),
            Some("html") => ends("</html>"),
            Some("svg") => ends("</svg>"),
            // Seconds have more or fewer digits.
            Some("csv") => {
                bytes.ends_with(b"\n") && bytes.split(|b| *b == b'\n').count() == expected.split(|b| *b == b'\n').count()
            }
            _ => bytes == expected,
        };
        assert!(whole || bytes == OLD.as_bytes(), "{} is incomplete: {about}", file.display());
    }

    #[test]
    fn limits_on_file_sizes_leave_whole_files_of_commands_that_write_several() {
        let place = writers();
        let reference = place.path("reference");
        for (files, arguments) in WRITERS_OF_SEVERAL {
            let ran = place.run(arguments);
            assert!(matches!(ran.code, Some(0 | 1)), "{arguments:?}: {ran:?}");
            for file in files {
                let kept = reference.join(file);
                std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
                std::fs::rename(place.path(file), kept).unwrap();
            }
            for (round, limit) in ["-f 0", "-f 1", "-f 2", "-f 4", "-f 8", "-f 16"].into_iter().enumerate() {
                let prepare = |file: &&str| {
                    if round % 2 == 0 { place.put(file, OLD) } else { drop(std::fs::remove_file(place.path(file))) }
                };
                files.iter().for_each(prepare);
                let Some(ran) = limited(&place, limit, arguments) else {
                    let test = "limits_on_file_sizes_leave_whole_files_of_commands_that_write_several";
                    return crate::common::skipped(test, "needs bash with ulimit");
                };
                assert!(
                    ran.code.is_some_and(|code| code <= 2) && !ran.err.contains("panicked"),
                    "{limit}, {arguments:?}: {ran:?}"
                );
                assert!(ran.code == Some(2) || round > 0, "{limit}, {arguments:?}: {ran:?}");
                files.iter().for_each(|file| assert_whole(&place.path(file), &reference.join(file), limit));
                assert!(!incomplete(place.dir()), "{limit}, {arguments:?}");
            }
        }
    }

    /// A file system of eight megabytes with the files of `writers`. It is unmounted at the end.
    struct SmallDisk {
        path: std::path::PathBuf,
        place: Place,
    }

    impl SmallDisk {
        /// `None` where the user may not mount file systems.
        fn new() -> Option<Self> {
            let place = writers();
            let path = place.path("disk");
            std::fs::create_dir(&path).unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs"]).arg(&path).stderr(Stdio::null());
            if !mount.status().is_ok_and(|status| status.success()) {
                return None;
            }
            let disk = SmallDisk { path, place };
            for name in disk.place.files().iter().filter(|name| *name != "disk") {
                let copied = Command::new("cp").arg("-r").arg(disk.place.path(name)).arg(&disk.path).status();
                assert!(copied.unwrap().success(), "{name}");
            }
            Some(disk)
        }

        /// Fills the disk but for some pages.
        fn fill(&self, pages: u64) {
            use std::io::Write;
            let mut filler = std::fs::File::create(self.path.join("filler")).unwrap();
            let mut length = 0;
            while filler.write_all(&[0; 4096]).is_ok() {
                length += 4096;
            }
            filler.set_len(length - 4096 * pages).unwrap();
        }

        fn free(&self) {
            std::fs::remove_file(self.path.join("filler")).unwrap();
        }

        fn run(&self, arguments: &[&str]) -> Ran {
            let mut command = self.place.command(arguments);
            Ran::from(command.current_dir(&self.path).env("THALWEG_CACHE", "off").output().unwrap())
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            // A lazy unmount works while a file is open.
            drop(Command::new("umount").arg("-l").arg(&self.path).status());
        }
    }

    #[test]
    fn a_disk_without_space_leaves_the_old_file_or_the_new_one() {
        let Some(disk) = SmallDisk::new() else {
            return crate::common::skipped("a_disk_without_space_leaves_the_old_file_or_the_new_one", "needs the right to mount");
        };
        let one = WRITERS.iter().map(|(file, arguments)| (std::slice::from_ref(file), *arguments));
        for (files, arguments) in one.chain(WRITERS_OF_SEVERAL) {
            let ran = disk.run(arguments);
            assert!(matches!(ran.code, Some(0 | 1)), "{arguments:?}: {ran:?}");
            let reference = disk.place.path("reference");
            for file in files {
                let kept = reference.join(file);
                std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
                std::fs::copy(disk.path.join(file), kept).unwrap();
            }
            for pages in [0, 1, 3] {
                for old in [false, true] {
                    for file in files {
                        let path = disk.path.join(file);
                        if old { std::fs::write(path, OLD).unwrap() } else { drop(std::fs::remove_file(path)) }
                    }
                    disk.fill(pages);
                    let ran = disk.run(arguments);
                    disk.free();
                    let about = format!("{pages} pages, {arguments:?}: {ran:?}");
                    let refused = ran.code == Some(2) && ran.err.contains("No space left on device");
                    assert!(refused || (pages > 0 && matches!(ran.code, Some(0 | 1))), "{about}");
                    files.iter().for_each(|file| assert_whole(&disk.path.join(file), &reference.join(file), &about));
                    assert!(!incomplete(&disk.path), "{about}");
                }
            }
        }
    }

    #[test]
    fn a_disk_without_space_keeps_checkpoints_and_stores_sound() {
        let Some(disk) = SmallDisk::new() else {
            let test = "a_disk_without_space_keeps_checkpoints_and_stores_sound";
            return crate::common::skipped(test, "needs the right to mount");
        };
        let solve = ["solve", "run.toml", "--quiet", "--checkpoint", "run.save", "--checkpoint-every", "0"];
        disk.fill(0);
        let ran = disk.run(&solve);
        disk.free();
        assert!(ran.code == Some(0) && ran.out.contains("run.save cannot be written: No space left on device"), "{ran:?}");
        assert!(!disk.path.join("run.save").exists() && !incomplete(&disk.path));
        disk.run(&solve).ended(0);
        let saved = std::fs::read(disk.path.join("run.save")).unwrap();
        disk.fill(0);
        let ran = disk.run(&solve);
        disk.free();
        assert!(ran.code == Some(0) && std::fs::read(disk.path.join("run.save")).unwrap() == saved, "{ran:?}");
        disk.run(&[&solve[..], &["--resume"]].concat()).ended(0);
        // Pages that SQLite has in the file already are not a new run.
        for pages in [0, 1, 2, 5] {
            let before = disk.run(&["lab", "list", "--json"]).ended(0).json();
            disk.fill(pages);
            let ran = disk.run(&["lab", "run", "lab.toml", "--fresh", "--quiet"]);
            disk.free();
            assert!(ran.code.is_some_and(|code| code <= 2) && !ran.err.contains("panicked"), "{pages}: {ran:?}");
            assert!(
                ran.code != Some(2) || ran.err.contains("space left") || ran.err.contains("disk is full"),
                "{pages}: {ran:?}"
            );
            let after = disk.run(&["lab", "list", "--json"]).ended(0).json();
            let count = |runs: &serde_json::Value| runs.as_array().unwrap().len();
            assert!(count(&after) >= count(&before), "{pages}: {before} {after}");
        }
        disk.run(&["lab", "run", "lab.toml", "--fresh", "--quiet"]).ended(0);
    }

    #[test]
    fn little_memory_is_an_error_with_a_sentence() {
        let place = trained();
        place.run(&["data", "generate", "--like", "covtype", "--rows", "200000", "--quiet", "--out", "rows.svm"]).ended(0);
        let Some(ran) = limited(&place, "-v 60000", &["fit", "rows.svm", "--out", "r"]) else {
            return crate::common::skipped("little_memory_is_an_error_with_a_sentence", "needs bash with ulimit");
        };
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.starts_with("thalweg: there is not enough memory; "), "{ran:?}");
        assert!(!place.path("r/model.json").exists());
    }

    #[test]
    fn little_memory_never_ends_the_process_abnormally() {
        let place = writers();
        let commands: [&[&str]; 7] = [
            &["fit", "big.csv", "--label", "y", "--out", "n", "--threads", "8"],
            &["predict", "big", "big.csv", "--out", "out.csv"],
            &["solve", "run.toml", "--quiet", "--report", "run.html", "--threads", "8"],
            &["certify", "big", "--out", "proof.json"],
            &["lab", "run", "lab.toml", "--fresh", "--quiet", "--jobs", "4"],
            &["data", "convert", "given.svm", "made.thw"],
            &["lab", "report", "--out", "lab.html"],
        ];
        let least = (8..100).map(|megabytes| 1000 * megabytes).find_map(|kilobytes| {
            let ran = limited(&place, &format!("-v {kilobytes}"), &["--version"])?;
            (ran.code == Some(0)).then_some(kilobytes)
        });
        let Some(least) = least else {
            return crate::common::skipped("little_memory_never_ends_the_process_abnormally", "needs bash with ulimit");
        };
        for arguments in commands {
            // From what the program itself takes up to enough; below that, the system does not start it.
            for more in [0, 1, 2, 3, 5, 8, 12, 20, 40, 80] {
                let kilobytes = least + 1000 * more;
                let ran = limited(&place, &format!("-v {kilobytes}"), arguments).unwrap();
                let refused = ran.code == Some(2) && ran.err.lines().last().is_some_and(|line| line.starts_with("thalweg: "));
                assert!(refused || matches!(ran.code, Some(0 | 1)), "{kilobytes}, {arguments:?}: {ran:?}");
                assert!(!ran.err.contains("panicked"), "{kilobytes}, {arguments:?}: {ran:?}");
            }
        }
        place.run(&["lab", "list"]).ended(0);
    }

    #[test]
    fn killed_writers_leave_whole_files() {
        let place = writers();
        let reference = place.path("reference");
        let one = WRITERS.iter().map(|(file, arguments)| (std::slice::from_ref(file), *arguments));
        for (files, arguments) in one.chain(WRITERS_OF_SEVERAL) {
            let begun = std::time::Instant::now();
            let ran = place.run(arguments);
            assert!(matches!(ran.code, Some(0 | 1)), "{arguments:?}: {ran:?}");
            let taken = begun.elapsed();
            for file in files {
                let kept = reference.join(file);
                std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
                std::fs::copy(place.path(file), kept).unwrap();
            }
            // Most of the moments are near the end, where files are written.
            for moment in [0.3, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 1.0] {
                let mut child = place.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(taken.mul_f64(moment));
                child.kill().unwrap();
                child.wait().unwrap();
                let about = format!("{moment} of {arguments:?}");
                for file in files {
                    assert!(place.path(file).exists(), "{file}: {about}");
                    assert_whole(&place.path(file), &reference.join(file), &about);
                }
            }
        }
    }

    #[test]
    fn a_killed_bilevel_run_continues_to_the_same_point() {
        let place = Place::new();
        let spec = |iterations: u64| {
            format!(
                "[data]\nbilevel = 'pricing'\n[problem]\nstart = [1.25]\nbilevel = {{ alpha = 0.01, xi = 0.01 }}\n[solver]\n\
                 name = 'adaprox'\nsigma = 100.0\nouter = 40\nbeta = 0.02\ninner_iterations = 500\n\
                 inner = {{ name = 'sg', eps = 0.005 }}\n[budget]\niterations = {iterations}\n"
            )
        };
        place.put("run.toml", spec(20_000));
        let point = |place: &Place| {
            let outcome: serde_json::Value = serde_json::from_str(&place.read("run.json")).unwrap();
            (outcome["point"]["x"].clone(), outcome["counts"].clone(), outcome["iterations"].clone())
        };
        place.run(&["solve", "run.toml", "--quiet", "--out", "run.json"]);
        let whole = point(&place);
        assert!(whole.0.is_array() && whole.2 == 20_000, "{whole:?}");
        let resume = [
            "solve",
            "run.toml",
            "--quiet",
            "--checkpoint",
            "run.save",
            "--checkpoint-every",
            "0",
            "--resume",
            "--out",
            "run.json",
        ];
        for delay in [30, 60, 90] {
            let mut child = place.command(&resume).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let ran = place.run(&resume);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        assert_eq!(point(&place), whole);
    }

    #[test]
    fn files_without_permission_are_named() {
        let place = trained();
        place.put("rows.svm", "1 1:1\n-1 2:1\n1 1:2\n-1 2:2\n");
        let spec = "[data]\nfile = 'rows.svm'\nsplit = 'shared'\n[problem]\nminimize = 'logistic'\n[solver]\nname = 'ssg'\n\
                    eta = 0.1\ntol = 0.1\n[budget]\niterations = 2\n[record]\nevery = 1\n";
        place.put("run.toml", spec);
        place.run(&["solve", "run.toml", "--quiet", "--checkpoint", "run.save"]).ended(0);
        place.run(&["lab", "run", "run.toml", "--quiet"]).ended(0);
        let mode = |name: &str, bits| std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(bits)).unwrap();
        let commands: [(&str, u32, &[&str], &str); 9] = [
            ("secret.csv", 0o600, &["predict", "m", "secret.csv", "--out", "/dev/null"], "secret.csv: Permission denied"),
            ("m/model.json", 0o600, &["predict", "m", "t.csv", "--out", "/dev/null"], "m/model.json: Permission denied"),
            ("m/model.json", 0o600, &["explain", "m"], "m/model.json: Permission denied"),
            ("rows.svm", 0o600, &["solve", "run.toml", "--quiet"], "rows.svm: Permission denied"),
            ("run.toml", 0o600, &["solve", "run.toml", "--quiet"], "run.toml: Permission denied"),
            ("run.save", 0o600, &["solve", "run.toml", "--checkpoint", "run.save", "--resume"], "run.save"),
            ("thalweg.sqlite", 0o600, &["lab", "list"], "thalweg.sqlite: cannot be opened"),
            ("thalweg.sqlite", 0o644, &["lab", "run", "run.toml", "--fresh"], "Permission denied"),
            ("protected.csv", 0o644, &["predict", "m", "t.csv", "--out", "protected.csv"], "protected.csv: cannot be written"),
        ];
        place.put("secret.csv", TABLE);
        place.put("protected.csv", "old\n");
        mode(".", 0o755);
        for (name, bits, arguments, sentence) in commands {
            let before = std::fs::read(place.path(name)).unwrap();
            mode(name, bits);
            let command = place.command(arguments);
            // The superuser may read everything, so that the command runs as another user where it can.
            let mut other = Command::new("setpriv");
            other.args(["--reuid", "65534", "--clear-groups"]).arg(command.get_program()).args(command.get_args());
            let ran = other.current_dir(place.dir()).env("THALWEG_CACHE", "off").output().ok().map(Ran::from);
            let Some(ran) = ran.filter(|ran| ran.err.contains("thalweg: ")) else {
                return crate::common::skipped("files_without_permission_are_named", "needs root and setpriv");
            };
            ran.refused(&[sentence]);
            mode(name, 0o644);
            assert_eq!(std::fs::read(place.path(name)).unwrap(), before, "{name}");
        }
    }

    #[test]
    fn a_locked_store_is_waited_for() {
        let place = Place::new();
        place.put("rows.svm", "1 1:1\n-1 2:1\n1 1:2\n-1 2:2\n");
        let spec = "[data]\nfile = 'rows.svm'\nsplit = 'shared'\n[problem]\nminimize = 'logistic'\n[solver]\nname = 'ssg'\n\
                    eta = 0.1\ntol = 0.1\n[budget]\niterations = 2\n[record]\nevery = 1\n";
        place.put("lab.toml", spec);
        place.run(&["lab", "run", "lab.toml", "--quiet"]).ended(0);
        for arguments in [&["lab", "list"][..], &["lab", "run", "lab.toml", "--fresh", "--quiet"], &["lab", "export"]] {
            let store = rusqlite::Connection::open(place.path("thalweg.sqlite")).unwrap();
            store.execute_batch("BEGIN EXCLUSIVE").unwrap();
            let waiting = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(300));
            store.execute_batch("COMMIT").unwrap();
            Ran::from(waiting.wait_with_output().unwrap()).ended(0);
        }
    }
}
