//! The places that an operator names, by a flag or by hand: those that cannot be, and those of another installation.

use crate::support::*;

#[test]
fn places_that_cannot_be_are_refused_and_those_of_others_left() {
    transcript::play("command/places.txt");
}

#[test]
fn a_root_that_is_not_there_is_not_an_empty_host() {
    let image = Image::new("1.0.0");
    std::fs::write(image.path("/file"), "").unwrap();
    for (inside, what) in [("absent", "there is no such directory"), ("file", "this is not a directory")] {
        let root = image.path(inside).display().to_string();
        for command in [&["status"][..], &["verify"], &["update"], &["enable", "--proxy", &image.cluster.addr()]] {
            let output = Command::new(updater()).env_clear().args(["--root", &root]).args(command).output().unwrap();
            Ran::of(&output).fails(2, &format!("--root {root}: {what}"));
        }
    }
    assert_eq!(image.tree().len(), 2);
}
