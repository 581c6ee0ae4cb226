//! Our units under every systemd that can be had: what they forbid, what they still allow, what an old one ignores.

use crate::support::*;

const UNITS: [&str; 3] = ["teleport-update.service", "teleport-update-recover.service", "teleport-update.timer"];
const BOOTSTRAP: &str = "/usr/lib/teleport-update/teleport-update";
/// The roots of `root.sh` that differ in their systemd, with its version.
const ROOTS: [(&str, u32); 5] =
    [("xenial", 229), ("bionic", 237), ("bullseye", 247), ("bookworm", 252), ("trixie", 257)];
/// The oldest that is promised (RHEL 7).
const OLDEST: u32 = 219;
cases_of! { "agent/units.txt":
    a_life_with_systemd_229;
    a_life_with_systemd_237;
    a_life_with_systemd_247;
    a_life_with_systemd_252;
    a_life_with_systemd_257;
    a_reload_does_not_end_the_runs_of_an_old_systemd_nor_of_a_new_one;
    a_run_can_write_its_own_places_and_not_the_rest_of_the_system;
    the_package_that_a_killed_enable_left_is_removed_by_the_next_run_of_the_unit;
    links_and_data_where_the_unit_may_not_write_get_a_drop_in;
    an_own_file_system_for_the_agents_directory_is_no_hindrance_to_the_unit;
    a_second_installation_is_updated_and_downgraded_by_its_own_confined_unit;
    an_update_by_a_unit_that_cannot_see_the_agent_changes_nothing_and_the_guides_drop_in_makes_it_work;
    by_hand_an_update_works_without_the_capability_beside_processes_of_other_users;
    a_downgrade_by_a_unit_that_cannot_see_an_agent_run_by_hand_leaves_its_database_alone;
    the_preset_enables_timer_and_recovery_and_nothing_else;
    needrestart_leaves_the_agent_alone_because_it_is_told_to;
}

tests_of! { ignores_what_is_younger:
    systemd_229_ignores_just_the_directives_that_the_guide_calls_younger("xenial");
    systemd_237_ignores_just_the_directives_that_the_guide_calls_younger("bionic");
}

#[test]
fn systemd_247_to_257_find_nothing_wrong_and_the_exposure_is_the_guides() {
    let guide = guide();
    for (root, version) in ROOTS.into_iter().filter(|(_, version)| *version >= 247) {
        let Some(bed) = bed_with_units(root, "exposure") else { return };
        let verify = bed.run(&["sh", "-c", &format!("systemd-analyze verify --man=no {}", UNITS.join(" "))]);
        assert!(verify.status.success() && verify.stderr.is_empty(), "{}", String::from_utf8_lossy(&verify.stderr));
        let exposure = |unit: &str| {
            let text = bed.sh(&format!("systemd-analyze --no-pager security {unit}"));
            let line = text.lines().last().unwrap_or_default().to_owned();
            line.split_whitespace()
                .find(|word| word.parse::<f32>().is_ok())
                .unwrap_or_else(|| panic!("{text}"))
                .to_owned()
        };
        let row = format!("| {version} | 9.6 | {} | {} |", exposure(UNITS[0]), exposure(UNITS[1]));
        assert!(guide.lines().any(|line| line == row), "docs/units.md lacks {row}");
    }
}

#[test]
fn each_directive_is_in_the_guides_table_and_says_what_is_lost_without_it() {
    let table = table();
    let used = directives();
    assert_eq!(used, table.keys().cloned().collect());
    for (directive, (since, lost)) in &table {
        // Nothing is lost where the oldest already has it.
        assert_eq!(*since > OLDEST, lost != "-", "{directive}: since {since}, lost: {lost}");
    }
}

fn ignores_what_is_younger(root: &str) {
    let version = ROOTS.into_iter().find(|(name, _)| *name == root).unwrap().1;
    let Some(bed) = bed_with_units(root, "younger") else { return };
    let said = bed.run(&[
        "sh",
        "-c",
        "cd /usr/lib/systemd/system; for unit in teleport-update*; do \
                          systemd-analyze verify --man=no $unit || systemd-analyze verify $unit; done 2>&1",
    ]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let ignored: BTreeSet<String> = said.lines().filter_map(ignored_in).collect();
    let younger: BTreeSet<String> =
        table().into_iter().filter(|(_, (since, _))| *since > version).map(|(name, _)| name).collect();
    assert_eq!(ignored, younger, "{said}");
    // They are ignored, and the unit is loaded.
    assert!(bed.sh("systemctl show -p LoadState teleport-update.service").contains("loaded"));
}

/// The directive that systemd says in `line` to ignore, as the guide names it.
fn ignored_in(line: &str) -> Option<String> {
    if let Some((_, rest)) = line.split_once("Unknown lvalue '") {
        return rest.split('\'').next().map(str::to_owned);
    }
    if line.contains("ignoring: +") {
        return Some("ExecStopPost=+".to_owned());
    }
    line.contains("ignoring: @").then(|| "SystemCallFilter=@".to_owned())
}

/// Every directive of our units; `ExecStopPost=+` and `SystemCallFilter=@` for values younger than theirs.
fn directives() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for unit in UNITS {
        let text = std::fs::read_to_string(checkout(&format!("systemd/{unit}"))).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.split_once('=') else { continue };
            found.insert(name.to_owned());
            if value.starts_with('+') {
                found.insert(format!("{name}=+"));
            }
            if name == "SystemCallFilter" && value.contains('@') {
                found.insert(format!("{name}=@"));
            }
        }
    }
    found
}

fn guide() -> String {
    std::fs::read_to_string(checkout("docs/units.md")).unwrap()
}

/// The guide's table of directives: since which systemd, and what is lost before.
fn table() -> BTreeMap<String, (u32, String)> {
    let mut rows = BTreeMap::new();
    for line in guide().lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, since, lost] = cells[..] else { continue };
        let Ok(since) = since.parse() else { continue };
        for name in names.split(", ") {
            let name = name.trim_matches('`').to_owned();
            assert!(rows.insert(name.clone(), (since, lost.to_owned())).is_none(), "{name} twice");
        }
    }
    rows
}

/// A bed with our units and an updater that does nothing.
fn bed_with_units(root: &str, name: &str) -> Option<Bed> {
    let bed = Bed::up_on(root, name, &[])?;
    for unit in UNITS {
        bed.put(checkout(&format!("systemd/{unit}")), Path::new("/usr/lib/systemd/system").join(unit));
    }
    bed.write(BOOTSTRAP, "#!/bin/sh\n", 0o755);
    bed.sh("systemctl daemon-reload");
    Some(bed)
}
