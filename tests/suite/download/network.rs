//! Servers, mirrors and networks that go wrong, for each question that is asked of them (SPEC §3, §4).

use crate::support::*;

#[test]
fn servers_mirrors_and_networks_go_wrong() {
    transcript::play("download/network.txt");
}

#[test]
fn a_name_that_only_the_hosts_other_resolvers_know_is_told_where_names_are_looked_up() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let image = Image::new("1.0.0");
    image.settings("  network:\n    tries: 1\n");
    let words = "this program uses only /etc/hosts and DNS";
    // A network without DNS; then the name in /etc/hosts, as the advice is.
    let run = |hosts: &str| {
        std::fs::write(image.path("/etc/hosts"), hosts).unwrap();
        let script = "mount --bind \"$ROOT/etc/hosts\" /etc/hosts && ip link set lo up && \
                      exec \"$@\" --root \"$ROOT\" enable --proxy teleport.home:1";
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "-n", "sh", "-c", script, "sh"]).arg(updater()).env("ROOT", image.root());
        Ran::of(&command.output().unwrap())
    };
    run("127.0.0.1 localhost\n").fails(1, words);
    let ran = run("127.0.0.1 teleport.home\n").fails(1, "Connection refused");
    assert!(!ran.stderr.contains(words), "{ran:#?}");
}
