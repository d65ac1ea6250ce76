//! `policy fmt`.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;

use pilot_core::syntax::MAX_FILE_BYTES;
use support::Directory;

const UNFORMATTED: &str = "# Mine.\npolicy a{collect cookie by flights.com // here\n for special_offers\n\n until 2024-12-21 } // so far\n// The end.\n";
const FORMATTED: &str = "# Mine.\npolicy a {\n  collect cookie by flights.com // here\n    for special_offers\n    until 2024-12-21\n} // so far\n\n// The end.\n";

#[test]
fn files_are_formatted_in_place_and_comments_kept() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    let before = directory.names();
    assert_eq!(directory.run(&["policy", "fmt", "p.pilot"]).quietly(0), "");
    assert_eq!(directory.read("p.pilot"), FORMATTED);
    assert_eq!(directory.run(&["policy", "fmt", "p.pilot"]).quietly(0), "");
    assert_eq!(directory.read("p.pilot"), FORMATTED);
    assert_eq!(directory.names(), before, "nothing is left behind");
}

#[test]
fn check_lists_and_changes_nothing() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    assert_eq!(directory.run(&["policy", "fmt", "--check", "alice.pilot", "p.pilot"]).quietly(1), "p.pilot\n");
    assert_eq!(directory.read("p.pilot"), UNFORMATTED);
    assert_eq!(directory.run(&["policy", "fmt", "--check", "alice.pilot"]).quietly(0), "");
}

#[test]
fn a_file_with_errors_is_not_touched_and_the_others_are_formatted() {
    let directory = Directory::flights();
    let broken = format!("{UNFORMATTED} policy b {{");
    directory.write("broken.pilot", &broken);
    directory.write("p.pilot", UNFORMATTED);
    let err = directory.run(&["policy", "fmt", "broken.pilot", "p.pilot"]).refused();
    assert!(err.starts_with("error: broken.pilot: line 7, column 12: expected"), "{err}");
    assert_eq!(directory.read("broken.pilot"), broken);
    assert_eq!(directory.read("p.pilot"), FORMATTED);
}

#[test]
fn standard_input_is_formatted_to_standard_output() {
    let directory = Directory::flights();
    assert_eq!(directory.run_with(&["policy", "fmt", "-"], UNFORMATTED).quietly(0), FORMATTED);
    assert_eq!(directory.run_with(&["policy", "fmt", "--check", "-"], UNFORMATTED).quietly(1), "standard input\n");
}

/// The file is replaced by another one, with the same permissions, and a link to it stays one.
#[test]
fn replacing_is_one_step_and_keeps_permissions_and_links() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    fs::set_permissions(directory.path("p.pilot"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("p.pilot", directory.path("link.pilot")).unwrap();
    let before = fs::metadata(directory.path("p.pilot")).unwrap();

    // A reader that opened the old file goes on reading the old text.
    let old = fs::File::open(directory.path("p.pilot")).unwrap();
    directory.run(&["policy", "fmt", "link.pilot"]).quietly(0);
    assert_eq!(std::io::read_to_string(old).unwrap(), UNFORMATTED);

    let after = fs::metadata(directory.path("p.pilot")).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!(after.mode() & 0o777, 0o640);
    assert!(directory.path("link.pilot").is_symlink());
    assert_eq!(directory.read("p.pilot"), FORMATTED);
}

#[test]
fn a_file_that_is_write_protected_is_not_replaced() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    fs::set_permissions(directory.path("p.pilot"), fs::Permissions::from_mode(0o444)).unwrap();
    let err = directory.run(&["policy", "fmt", "p.pilot"]).refused();
    assert_eq!(err, "error: p.pilot: cannot be written: permission denied\n");
    assert_eq!(directory.read("p.pilot"), UNFORMATTED);
}

/// A program that dies while it writes leaves the old file, and a part of the new one that nobody else can read.
#[test]
fn what_is_being_written_is_private() {
    let directory = Directory::flights();
    let long = format!("{UNFORMATTED}{}", "// A long story.\n".repeat(10_000));
    directory.write("p.pilot", &long);
    fs::set_permissions(directory.path("p.pilot"), fs::Permissions::from_mode(0o666)).unwrap();
    let before = directory.names();

    // Files of at most one kilobyte; the signal ends the program.
    let ran = directory.run_in_shell("umask 0; ulimit -c 0; ulimit -f 1; \"$@\"", &["policy", "fmt", "p.pilot"]);
    assert!(ran.code != Some(0), "{}", ran.err);
    assert_eq!(directory.read("p.pilot"), long);
    let left: Vec<String> = directory.names().into_iter().filter(|name| !before.contains(name)).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let left = fs::metadata(directory.path(&left[0])).unwrap();
    assert_eq!((left.len(), left.mode() & 0o777), (1024, 0o600));
}

/// The same without the signal: an error as any other.
#[test]
fn nothing_is_left_behind_by_an_error() {
    let directory = Directory::flights();
    let long = format!("{UNFORMATTED}{}", "// A long story.\n".repeat(10_000));
    directory.write("p.pilot", &long);
    let before = directory.names();
    let ran = directory.run_in_shell("trap '' XFSZ; ulimit -f 1; \"$@\"", &["policy", "fmt", "p.pilot"]);
    let err = ran.refused();
    assert!(err.starts_with("error: p.pilot: cannot be written: File too large"), "{err}");
    assert_eq!((directory.read("p.pilot"), directory.names()), (long, before));
}

#[test]
fn only_regular_files_are_formatted() {
    let directory = Directory::flights();
    directory.make_pipe("pipe.pilot");
    directory.make("directory.pilot");
    let _listener = UnixListener::bind(directory.path("socket.pilot")).unwrap();
    symlink("/dev/null", directory.path("device.pilot")).unwrap();
    for file in ["pipe.pilot", "directory.pilot", "socket.pilot", "device.pilot", "/dev/stdin"] {
        for arguments in [["policy", "fmt", file].as_slice(), &["policy", "fmt", "--check", file]] {
            let err = directory.run_in_shell("\"$@\"", arguments).refused();
            assert_eq!(err, format!("error: {file}: not a regular file\n"));
        }
    }
}

#[test]
fn a_file_with_hard_links_is_left_as_it_is() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    fs::hard_link(directory.path("p.pilot"), directory.path("q.pilot")).unwrap();
    assert_eq!(
        directory.run(&["policy", "fmt", "p.pilot"]).refused(),
        "error: p.pilot: it has other names (hard links), which would keep the old text; it is left as it is\n"
    );
    assert_eq!([directory.read("p.pilot"), directory.read("q.pilot")], [UNFORMATTED; 2]);
    assert_eq!(directory.run(&["policy", "fmt", "--check", "p.pilot"]).quietly(1), "p.pilot\n");
}

/// What could not be read again is not written.
#[test]
fn a_file_that_would_grow_too_large_is_left_as_it_is() {
    let directory = Directory::flights();
    // Each of these comments is indented.
    let comments = "#\n".repeat(MAX_FILE_BYTES / 5);
    let source = UNFORMATTED.replace("// here\n", &comments);
    directory.write("p.pilot", &source);
    let expected = format!("formatted, it would have more than {MAX_FILE_BYTES} bytes\n");
    let err = directory.run(&["policy", "fmt", "p.pilot"]).refused();
    assert_eq!(err, format!("error: p.pilot: {expected}"));
    assert!(directory.read("p.pilot") == source);
    assert_eq!(
        directory.run_with(&["policy", "fmt", "-"], &source).refused(),
        format!("error: standard input: {expected}")
    );
}

/// A directory that can be written to but not read: the file is replaced, and nothing else counts.
#[test]
fn a_directory_that_cannot_be_synchronised_is_no_error() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    let mut command = directory.unprivileged(&["policy", "fmt", "p.pilot"]);
    fs::set_permissions(directory.path("."), fs::Permissions::from_mode(0o300)).unwrap();
    let ran = Directory::ran(&mut command, "");
    fs::set_permissions(directory.path("."), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(ran.quietly(0), "");
    assert_eq!(directory.read("p.pilot"), FORMATTED);
}

/// Only root can give files away: whoever else runs the tests sees that nothing needs to be.
#[test]
fn owner_and_group_are_kept() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    fs::set_permissions(directory.path("p.pilot"), fs::Permissions::from_mode(0o664)).unwrap();
    let _ = chown(directory.path("p.pilot"), Some(12_345), Some(54_321));
    let owner = || fs::metadata(directory.path("p.pilot")).map(|file| (file.uid(), file.gid(), file.mode())).unwrap();
    let before = owner();
    directory.run(&["policy", "fmt", "p.pilot"]).quietly(0);
    assert_eq!((directory.read("p.pilot").as_str(), owner()), (FORMATTED, before));
}

/// Permissions for one group would become permissions for another.
#[test]
fn a_file_that_would_change_hands_is_left_as_it_is() {
    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    let mut command = directory.unprivileged(&["policy", "fmt", "p.pilot"]);
    fs::set_permissions(directory.path("p.pilot"), fs::Permissions::from_mode(0o664)).unwrap();
    let is_root = chown(directory.path("p.pilot"), Some(12_345), Some(54_321)).is_ok();
    let before = directory.names();
    let ran = Directory::ran(&mut command, "");
    if is_root {
        let err = ran.refused();
        assert!(err.starts_with("error: p.pilot: its owner and group could not be kept: "), "{err}");
        assert_eq!((directory.read("p.pilot").as_str(), directory.names()), (UNFORMATTED, before));
    } else {
        assert_eq!(ran.quietly(0), "");
    }
}
