//! `policy fmt`.

mod support;

use std::fs;
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
#[cfg(unix)]
#[test]
fn replacing_is_one_step_and_keeps_permissions_and_links() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

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

#[cfg(unix)]
#[test]
fn a_file_that_is_write_protected_is_not_replaced() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = Directory::flights();
    directory.write("p.pilot", UNFORMATTED);
    fs::set_permissions(directory.path("p.pilot"), fs::Permissions::from_mode(0o444)).unwrap();
    let err = directory.run(&["policy", "fmt", "p.pilot"]).refused();
    assert_eq!(err, "error: p.pilot: cannot be written: permission denied\n");
    assert_eq!(directory.read("p.pilot"), UNFORMATTED);
}
