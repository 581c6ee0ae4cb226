//! Whose is what lies on the way to a file: root works only where nobody else decides what a name leads to (SPEC §8).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::layout::{CREDENTIALS, Layout};
use super::ownership::{self, GROUP_WRITES, OTHERS_WRITE, STICKY, is_ours, strangers};
use super::{durable, machine, path};
use crate::report::{Code, Error, IfPresent, IoContext, Result};

/// Our own names in the versions directory beside the versions: what they say is believed (SPEC §1).
const RECORDS: [&str; 10] = [
    "updates.yaml",
    CREDENTIALS,
    ".fleet-host",
    "join-token",
    ".journal",
    ".lock",
    ".unmanaged",
    ".tuf",
    ".tuf/root.json",
    ".tuf/state",
];
/// The snapshot of a version's database, in the version's directory (SPEC §1).
const SNAPSHOT: &str = "backup";

/// Makes sure that nobody but root (or whoever runs this) decides what the versions directory is and what our records in it
/// say: nothing but an operator can tell whether they are still true. In an image also that no name in it is a link, which
/// would lead out of the image.
///
/// Errors: `permission` with all that is another's and the commands that mend it; `path_taken` for a link; `io`.
pub(crate) fn check_versions(layout: &Layout) -> Result<()> {
    let records: Vec<PathBuf> = RECORDS.iter().map(|name| layout.versions.join(name)).collect();
    check(&met(&layout.root, layout.versions_inside()).1, &records)?;
    if !layout.is_image() {
        return Ok(());
    }
    durable::entries(&layout.versions)?.iter().try_for_each(|entry| refuse_links(&entry.path()))
}

/// Makes sure that the versions and the snapshots of their databases are nobody else's: root works in there by name.
///
/// Errors: `permission` with the first that is another's; `io`.
pub(crate) fn check_installed(layout: &Layout) -> Result<()> {
    let others = open_versions(layout)?;
    let Some((path, meta)) = others.first() else { return Ok(()) };
    Err(refused(path, meta, others.len() - 1)
        .advise("run `teleport-update verify --repair`: it downloads again what these users could have changed"))
}

/// The directories of versions and of their snapshots that others own or may write to.
///
/// Errors: `permission`, `io`.
pub(crate) fn open_versions(layout: &Layout) -> Result<Vec<(PathBuf, Metadata)>> {
    others(&installed(layout)?)
}

/// Takes the directories of versions and snapshots from whoever else owns or may write to them. What is in them may be
/// another's as before: each look at it tells.
///
/// Returns those that were another's. Errors: `permission`, `io`.
pub(crate) fn close_versions(layout: &Layout) -> Result<Vec<PathBuf>> {
    let mut closed = Vec::new();
    // A version's directory first: from then on nobody exchanges what is in it.
    for path in installed(layout)? {
        if other(&path)?.is_some() {
            close(&path)?;
            closed.push(path);
        }
    }
    Ok(closed)
}

/// Takes the directory `path`, in one that is ours alone, from whoever else owns it or may write to it. By descriptor, and no
/// link is followed. Whoever has it open has no more than that: each use of it asks for the rights anew.
///
/// Errors: `permission`, `io`; also for what is no directory.
#[expect(clippy::disallowed_methods, reason = "an open directory, which is synced")]
pub(crate) fn close(path: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let take = || {
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        rustix::fs::fchown(&dir, Some(rustix::process::geteuid()), Some(rustix::process::getegid()))?;
        let mode = rustix::fs::fstat(&dir)?.st_mode & 0o7777 & !(GROUP_WRITES | OTHERS_WRITE | STICKY);
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode))?;
        rustix::fs::fsync(&dir)
    };
    take().at("cannot correct owner and mode of", path)
}

fn installed(layout: &Layout) -> Result<Vec<PathBuf>> {
    let is_version = |name: &str| name.split('_').next().is_some_and(|name| name.parse::<protocol::Version>().is_ok());
    let entries = match durable::entries(&layout.versions) {
        // Whoever may not look cannot be led astray by it either.
        Err(error) if error.code == Code::Permission && !machine::is_root() => Vec::new(),
        entries => entries?,
    };
    let versions = entries.iter().filter(|entry| is_version(&entry.file_name().to_string_lossy()));
    Ok(versions.flat_map(|entry| [entry.path(), entry.path().join(SNAPSHOT)]).collect())
}

/// Makes sure that nobody but root (or whoever runs this) decides what `inside` leads to; in an image from its root on. A
/// link on the way counts as much as what it leads to. What does not exist yet is nobody's.
///
/// Errors: `permission` with the directory and its owner; `io`.
pub(crate) fn check_way(layout: &Layout, inside: &Path) -> Result<()> {
    check(&met(&layout.root, inside).1, &[])
}

/// As [`check_way`], for a directory whose programs root runs: nobody else may add to it either, be it with the sticky bit.
pub(crate) fn check_programs(layout: &Layout, inside: &Path) -> Result<()> {
    check_way(layout, inside)?;
    let dir = layout.followed(inside);
    match std::fs::metadata(&dir) {
        Ok(meta) if !ownership::is_closed(&dir, &meta) => Err(refused(&dir, &meta, 0)),
        _ => Ok(()),
    }
}

/// The real path of `named`, and the first directory, link or file on the way there that others than root (or whoever runs
/// this) own or may write to: whoever can exchange a link names the file as much as whoever owns what it leads to. Who owns
/// what is above an image is its builder's business.
///
/// Errors: `permission`, `io`; also where nothing is there.
pub(crate) fn traced(named: &Path) -> Result<(PathBuf, Option<(PathBuf, Metadata)>)> {
    let top = ownership::root();
    let (real, met) = met(Path::new("/"), named);
    let is_above = |part: &Path| real.starts_with(top) && top.starts_with(part) && part != top;
    for part in met.into_iter().filter(|part| !is_above(part)) {
        let meta = std::fs::symlink_metadata(&part).at("cannot look at", &part)?;
        if !is_ours(&part, &meta) {
            return Ok((real, Some((part, meta))));
        }
    }
    Ok((real, None))
}

/// Makes sure that whoever can write the agent's configuration `file`, or exchange it, has nothing to gain by naming the data
/// directory `named` in it: root, whoever runs this, or whose that directory is.
///
/// Errors: `permission` with the file or directory and its owner; `io`.
pub(crate) fn check_naming(file: &Path, named: &Path) -> Result<()> {
    let owner =
        if durable::exists(named)? { Some(std::fs::metadata(named).at("cannot look at", named)?) } else { None };
    let is_theirs = |meta: &Metadata| {
        let owns = |owner: &Metadata| owner.uid() != 0 && owner.uid() == meta.uid();
        let shares = |owner: &Metadata| owner.uid() != 0 && owner.gid() == meta.gid();
        let may_all = meta.mode() & OTHERS_WRITE != 0;
        let is_own = meta.uid() == 0 || owner.as_ref().is_some_and(owns);
        let is_groups = meta.mode() & GROUP_WRITES != 0 && meta.gid() != 0 && !owner.as_ref().is_some_and(shares);
        !may_all && is_own && !is_groups
    };
    let mut others = strangers(durable::parent(file))?;
    let meta = std::fs::symlink_metadata(file).at("cannot look at", file)?;
    if !is_ours(file, &meta) {
        others.push((file.to_owned(), meta));
    }
    match others.into_iter().find(|(_, meta)| !is_theirs(meta)) {
        None => Ok(()),
        Some((path, meta)) => {
            let (shown, who) = (path.display(), changeable(&path, &meta));
            let what = format!("{who}: these users could set data_dir to any directory (now: {})", named.display());
            let how = format!(
                "run `chown root:root {shown}; chmod go-w {shown}`, or `teleport-update enable --data-dir DIR`"
            );
            Err(Error::new(Code::Permission, what).advise(how))
        }
    }
}

/// Where `inside` leads below `root`, and all that is on the way.
fn met(root: &Path, inside: &Path) -> (PathBuf, Vec<PathBuf>) {
    let mut met = Vec::new();
    let real = path::walk(root, inside, &mut |path| met.push(path.to_owned()));
    (real, met)
}

/// Makes sure that neither what is on the `way` nor `records` are others'.
fn check(way: &[PathBuf], records: &[PathBuf]) -> Result<()> {
    let (way, records) = (others(way)?, others(records)?);
    match way.first().or(records.first()) {
        None => Ok(()),
        Some((path, meta)) => Err(refused(path, meta, way.len() + records.len() - 1).advise(mending(&way, &records))),
    }
}

/// Those of `paths` that others own or may write to.
fn others(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Metadata)>> {
    let look = |path: &PathBuf| other(path).map(|found| found.map(|meta| (path.clone(), meta))).transpose();
    paths.iter().filter_map(look).collect()
}

/// What `path` is, if others own it or may write to it.
fn other(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        // Whoever may not look cannot be led astray by it either: he cannot go there.
        Err(_) if !machine::is_root() => Ok(None),
        found => Ok(found.if_present().at("cannot look at", path)?.filter(|meta| !is_ours(path, meta))),
    }
}

/// `more`: how many others there are beside it.
fn refused(path: &Path, meta: &Metadata, more: usize) -> Error {
    let who = changeable(path, meta);
    let more = if more == 0 { String::new() } else { format!(", and so can {more} more") };
    Error::new(Code::Permission, format!("{who}{more}: these users could replace programs that root runs"))
}

fn changeable(path: &Path, meta: &Metadata) -> String {
    let (shown, owner, group, mode) = (path.display(), meta.uid(), meta.gid(), meta.mode() & 0o7777);
    format!("{shown} can be changed by users other than root (owner {owner}, group {group}, mode {mode:o})")
}

/// The commands that mend all of it. What is in the versions keeps its owners: they tell what must be downloaded again.
fn mending(way: &[(PathBuf, Metadata)], records: &[(PathBuf, Metadata)]) -> String {
    let names = |of: &mut dyn Iterator<Item = &(PathBuf, Metadata)>| {
        of.map(|(path, _)| path.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    let (links, rest): (Vec<_>, Vec<_>) = records.iter().partition(|(_, meta)| meta.is_symlink());
    let files = rest.iter().filter(|(_, meta)| meta.is_file());
    let files = files.map(|(path, _)| path.file_name().unwrap_or_default().to_string_lossy());
    let told = files.collect::<Vec<_>>().join(" and ");
    let (way, links, rest) = (names(&mut way.iter()), names(&mut links.into_iter()), names(&mut rest.into_iter()));
    let steps = [
        (!way.is_empty()).then(|| format!("chown -h root:root {way}; chmod go-w {way}")),
        (!links.is_empty()).then(|| format!("rm {links}")),
        (!rest.is_empty()).then(|| format!("chown -R root:root {rest}; chmod -R go-w {rest}")),
        Some("teleport-update verify --repair".to_owned()),
    ];
    let steps = steps.into_iter().flatten().collect::<Vec<_>>();
    let told = if told.is_empty() { told } else { format!("check that nobody changed {told}, then ") };
    format!("{told}run `{}`; if the agent has its own user, also give that user its own data_dir", steps.join("; "))
}

/// Neither `path` nor what is directly in it may be a link, but for what is kept of others.
fn refuse_links(path: &Path) -> Result<()> {
    let refuse = |path: &Path| match durable::link_at(path)? {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::PathTaken, format!("{} is a link", path.display()))
            .advise("remove this symlink: symlinks are not allowed in the versions directory of an image")),
    };
    refuse(path)?;
    if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
        return Ok(());
    }
    durable::entries(path)?.iter().try_for_each(|entry| refuse(&entry.path()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn image() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("var/lib/teleport/versions/1.0.0/bin")).unwrap();
        let layout = Layout::new(dir.path(), None, None).unwrap();
        (dir, layout)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn modes_of_todays_hosts_pass_and_what_others_may_write_does_not() {
        let (dir, layout) = image();
        let state = dir.path().join("var/lib/teleport");
        for mode in [0o700, 0o711, 0o750, 0o751, 0o755, 0o1755, 0o1777] {
            set_mode(&state, mode);
            check_versions(&layout).unwrap();
        }
        set_mode(&state, 0o775);
        rustix::fs::chown(&state, None, Some(rustix::fs::Gid::from_raw(0))).ok();
        check_versions(&layout).unwrap();
        for path in [&state, &layout.versions, &layout.versions.join("1.0.0")] {
            set_mode(path, 0o777);
            let error = check_versions(&layout).and_then(|()| check_installed(&layout)).unwrap_err();
            assert_eq!(error.code, Code::Permission);
            assert!(error.what.starts_with(&format!("{} can be changed by users other", path.display())), "{error}");
            set_mode(path, 0o755);
        }
    }

    #[test]
    fn a_directory_of_another_user_or_group_is_refused() {
        if !machine::is_root() {
            return;
        }
        let (dir, layout) = image();
        let state = dir.path().join("var/lib/teleport");
        let give = |uid, gid, mode| {
            std::os::unix::fs::chown(&state, Some(uid), Some(gid)).unwrap();
            set_mode(&state, mode);
        };
        for (uid, gid, mode, good) in
            [(0, 0, 0o775, true), (0, 900, 0o750, true), (0, 900, 0o770, false), (900, 900, 0o700, false)]
        {
            give(uid, gid, mode);
            assert_eq!(check_versions(&layout).is_ok(), good, "{uid}:{gid} {mode:o}");
            assert_eq!(strangers(&state).unwrap().is_empty(), good);
        }
        give(0, 0, 0o755);
        std::os::unix::fs::lchown(layout.versions.join("1.0.0"), Some(900), None).unwrap();
        assert!(check_installed(&layout).is_err() && check_versions(&layout).is_ok());
        assert!(check_way(&layout, &layout.versions_inside().join("1.0.0/bin/teleport-update")).is_err());
    }

    #[test]
    fn one_error_names_all_that_is_anothers_with_the_commands_that_mend_it() {
        if !machine::is_root() {
            return;
        }
        let (dir, layout) = image();
        let at = |name: &str| layout.versions.join(name);
        durable::create_dir(&at(".tuf"), 0o755).unwrap();
        for name in RECORDS.iter().filter(|name| **name != ".tuf") {
            durable::write(&at(name), b"", 0o600).unwrap();
        }
        symlink("/etc/passwd", at("x")).unwrap();
        durable::rename(&at("x"), &at(".credentials")).unwrap();
        let state = dir.path().join("var/lib/teleport");
        for path in [state, layout.versions.clone(), at(".credentials"), at(".lock"), at("1.0.0")] {
            std::os::unix::fs::lchown(path, Some(900), Some(900)).unwrap();
        }
        set_mode(&at("updates.yaml"), 0o664);
        std::os::unix::fs::chown(at("updates.yaml"), None, Some(900)).unwrap();
        let error = check_versions(&layout).unwrap_err();
        let first = "/var/lib/teleport can be changed by users other than root (owner 900, group 900, mode 755)";
        assert!(error.what.contains(&format!("{first}, and so can 4 more: ")), "{error}");
        let advice = error.advice.unwrap();
        let quoted = advice.split('`').nth(1).unwrap();
        let mends = quoted.replace("teleport-update verify --repair", "true");
        assert!(mends != quoted, "{advice}");
        assert!(std::process::Command::new("sh").args(["-c", &mends]).status().unwrap().success(), "{mends}");
        check_versions(&layout).unwrap();
        assert!(std::fs::symlink_metadata(at(".credentials")).is_err(), "a link of another's is nobody's password");
        assert!(std::fs::metadata("/etc/passwd").unwrap().uid() == 0);
        assert_eq!(check_installed(&layout).unwrap_err().code, Code::Permission);
        assert_eq!(close_versions(&layout).unwrap(), [at("1.0.0")]);
        check_installed(&layout).unwrap();
        // What stands there in place of a directory is neither followed nor taken.
        symlink("/tmp", at("2.0.0")).unwrap();
        std::os::unix::fs::lchown(at("2.0.0"), Some(900), None).unwrap();
        assert!(close_versions(&layout).is_err());
        assert_eq!(std::fs::metadata("/tmp").unwrap().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn a_link_of_another_user_on_the_way_is_refused() {
        if !machine::is_root() {
            return;
        }
        let (dir, _) = image();
        let root = dir.path();
        super::super::durable::rename(&root.join("var/lib/teleport"), &root.join("data")).unwrap();
        symlink("/data", root.join("var/lib/teleport")).unwrap();
        let layout = Layout::new(root, None, None).unwrap();
        check_versions(&layout).unwrap();
        std::os::unix::fs::lchown(root.join("var/lib/teleport"), Some(900), Some(900)).unwrap();
        assert_eq!(check_versions(&layout).unwrap_err().code, Code::Permission);
    }

    #[test]
    fn an_image_has_no_links_among_our_names() {
        let (_dir, layout) = image();
        for name in ["updates.yaml", CREDENTIALS, ".unmanaged", "1.0.0/backup"] {
            let link = layout.versions.join(name);
            symlink("/etc/passwd", &link).unwrap();
            assert_eq!(check_versions(&layout).unwrap_err().code, Code::PathTaken, "{name}");
            std::fs::remove_file(&link).unwrap();
        }
        std::fs::create_dir(layout.versions.join(".unmanaged")).unwrap();
        symlink("/opt/teleport", layout.versions.join(".unmanaged/teleport")).unwrap();
        check_versions(&layout).unwrap();
    }
}
