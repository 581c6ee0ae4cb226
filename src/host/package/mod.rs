//! Distribution packages of the old kind (`teleport`, `teleport-ent`): found, and purged so that the agent's
//! configuration and data survive (SPEC §5).
//!
//! Only `dpkg` and `rpm` themselves are called: they refuse to break dependents, while apt and dnf would remove more.

mod busy;
mod kept;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use busy::Wait;
use busy::Waiting;
use kept::Kept;
pub(crate) use kept::restore as restore_kept;

use super::command::{Command, Output, is_installed};
use super::{durable, path};
use crate::report::{Code, Error, IoContext, Result};

/// Every name that a Teleport agent's package has had.
pub(crate) const NAMES: [&str; 3] = ["teleport", "teleport-ent", "teleport-ent-fips"];
/// A purge with maintainer scripts that stop a service.
const PURGE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maintainer scripts and status files are read up to this size, in bytes.
const READ_LIMIT: u64 = 64 * 1024 * 1024;
/// Where rpm keeps its database in an image, by distribution; the first with something in it counts.
const RPM_DATABASES: [&str; 3] = ["/usr/lib/sysimage/rpm", "/var/lib/rpm", "/usr/share/rpm"];
/// dpkg's database.
const DPKG_DATABASE: &str = "/var/lib/dpkg";

/// Who installed a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageTool {
    /// Debian, Ubuntu.
    Dpkg,
    /// Red Hat, SUSE, Amazon.
    Rpm,
}

/// How much of a package is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// All of it.
    Installed,
    /// Removed but for its configuration files: a later `apt purge` would delete them.
    ConfigFiles,
    /// An installation or removal was interrupted; dpkg may even ask for the package anew before it removes it.
    Broken,
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// One of [`NAMES`].
    pub name: String,
    /// The package's version, with the distribution's revision.
    pub version: String,
    /// Who installed it.
    pub tool: PackageTool,
    /// How much of it is there.
    pub state: State,
    /// The operator holds it back from upgrades; a purge does not ask.
    pub held: bool,
}

/// What a purge must not touch, and where it keeps copies meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep<'a> {
    /// Files that survive byte for byte, with owner and mode (`/etc/teleport.yaml`), as real paths.
    pub files: &'a [PathBuf],
    /// Directories that nothing is removed from (the data directory), as real paths.
    pub dirs: &'a [PathBuf],
    /// A directory of the caller's for the copies, gone after success. After a crash: [`restore_kept`].
    pub copies: &'a Path,
    /// Where the package's own scripts may have made links to its files: those that it leaves leading nowhere go.
    pub link_dir: &'a Path,
}

/// The Teleport packages on the host, or in the image at `root`. Needs no lock and no root.
///
/// Errors ([`Code::PackageFailed`]): the database cannot be read, or an image has such a package and this host no dpkg.
pub(crate) fn installed(root: Option<&Path>) -> Result<Vec<Package>> {
    let mut found = installed_dpkg(root)?;
    found.extend(installed_rpm(root)?);
    Ok(found)
}

/// Purges `package`. Before its maintainer scripts run, `keep.files` are copied; afterwards what they lack or changed
/// is put back, also after a failure. Scripts that run after the removal and could delete what is to be kept do not
/// run. Another package manager at work is waited for as `wait` says.
///
/// Whether its scripts stopped or disabled `teleport.service` is the caller's to look at.
///
/// Errors ([`Code::PackageFailed`]): another package depends on it, files of it are in `keep.dirs`, or the package
/// manager failed.
pub(crate) fn purge(package: &Package, keep: Keep<'_>, root: Option<&Path>, wait: Wait<'_>) -> Result<()> {
    // A purge that was cut short has the only good copies.
    restore_kept(keep.copies)?;
    let tool = match package.tool {
        // Half unpacked, it would have to be installed again first; what it lacks is ours by now.
        PackageTool::Dpkg if package.state == State::Broken => dpkg(root).arg("--force-remove-reinstreq"),
        PackageTool::Dpkg => dpkg(root),
        PackageTool::Rpm => rpm(root)?,
    };
    let files = files(package, root)?;
    refuse_shared_data(package, &files, keep, root)?;
    let links = links_to(&files, keep.link_dir)?;
    let (test, erase): (&[&str], &str) = match package.tool {
        PackageTool::Dpkg => (&["--no-act", "--purge"], "--purge"),
        PackageTool::Rpm => (&["-e", "--test"], "-e"),
    };
    let mut waiting = wait.start();
    let mut run = |command: &Command| match package.tool {
        PackageTool::Dpkg => run_dpkg(command, &mut waiting),
        PackageTool::Rpm => run_rpm(command, root, &mut waiting),
    };
    run(&tool.clone().args(test).arg(&package.name))?;

    let kept = Kept::save(keep.files, keep.copies)?;
    let scripts = match package.tool {
        PackageTool::Dpkg => Kept::save(&dangerous_scripts(package, keep, root)?, &keep.copies.join("scripts"))?,
        PackageTool::Rpm => Kept::default(),
    };
    // dpkg has no --nopostrm: a script that is not there is not run.
    scripts.remove_originals()?;
    let tool = match package.tool {
        PackageTool::Dpkg => tool,
        PackageTool::Rpm => tool.args(dangerous_sections(package, keep, root)?),
    };
    let purged = run(&tool.arg(erase).arg(&package.name));
    kept.put_back()?;
    if purged.is_err() {
        scripts.put_back()?;
    }
    durable::remove_tree(keep.copies)?;
    purged?;
    // A script that was left out, or the package's own file that it calls, may have been the one to remove them.
    for link in links {
        if let Some(target) = durable::link_at(&link)?
            && !durable::exists(&below(root, &target))?
        {
            durable::remove_file(&link)?;
        }
    }
    Ok(())
}

/// Every path of the package, as seen from inside the root.
fn files(package: &Package, root: Option<&Path>) -> Result<Vec<PathBuf>> {
    let list = match package.tool {
        PackageTool::Dpkg => {
            let list = below(root, Path::new(DPKG_DATABASE).join(format!("info/{}.list", package.name)));
            String::from_utf8_lossy(&durable::read_limited(&list, READ_LIMIT)?.unwrap_or_default()).into_owned()
        }
        PackageTool::Rpm => start(&rpm(root)?.args(["-ql", &package.name]))?.stdout_text(),
    };
    Ok(list.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect())
}

/// The links in `dir` that lead to one of `files`.
fn links_to(files: &[PathBuf], dir: &Path) -> Result<Vec<PathBuf>> {
    let links = durable::links_in(dir)?.into_iter().filter(|(_, target)| files.contains(target));
    Ok(links.map(|(path, _)| path).collect())
}

fn installed_dpkg(root: Option<&Path>) -> Result<Vec<Package>> {
    let database = below(root, DPKG_DATABASE);
    let status = below(root, Path::new(DPKG_DATABASE).join("status"));
    if !durable::exists(&status)? {
        return Ok(Vec::new());
    }
    if !is_installed("dpkg-query") {
        return match durable::read_limited(&status, READ_LIMIT)? {
            Some(text) if names_in_status(&text) => Err(Error::new(
                Code::PackageFailed,
                format!("{} lists a Teleport package, but dpkg is not installed here to remove it", status.display()),
            )
            .advise("install dpkg on this host, or remove the package from within the image")),
            _ => Ok(Vec::new()),
        };
    }
    let format = "${Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n";
    let mut flag = std::ffi::OsString::from("--admindir=");
    flag.push(&database);
    // Its status is 1 when any of the names is unknown.
    let output = start(&Command::new("dpkg-query").arg(flag).args(["-W", "-f", format]).args(NAMES))?;
    Ok(output.stdout_text().lines().filter_map(parse_dpkg).collect())
}

fn names_in_status(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| line.strip_prefix("Package: ")).any(|name| NAMES.contains(&name.trim()))
}

fn parse_dpkg(line: &str) -> Option<Package> {
    let mut fields = line.split('\t');
    let (name, version, want, status) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let state = match status {
        "not-installed" => return None,
        "installed" | "triggers-pending" | "triggers-awaited" => State::Installed,
        "config-files" => State::ConfigFiles,
        _ => State::Broken,
    };
    Some(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        tool: PackageTool::Dpkg,
        state,
        held: want == "hold",
    })
}

fn installed_rpm(root: Option<&Path>) -> Result<Vec<Package>> {
    // Where there is no database, a query would make one.
    if rpm_database(root)?.is_none() || !is_installed("rpm") {
        return Ok(Vec::new());
    }
    let format = "@%{NAME}\\t%{VERSION}-%{RELEASE}\\n";
    let output = start(&rpm(root)?.args(["-q", "--qf", format]).args(NAMES))?;
    // A name that is not installed is told on standard output, in the local language.
    Ok(output.stdout_text().lines().filter_map(|line| parse_rpm(line.strip_prefix('@')?)).collect())
}

fn parse_rpm(line: &str) -> Option<Package> {
    let (name, version) = line.split_once('\t')?;
    Some(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        tool: PackageTool::Rpm,
        state: State::Installed,
        held: false,
    })
}

/// Refuses a package that has files where nothing may be removed; directories are only removed when empty.
fn refuse_shared_data(package: &Package, files: &[PathBuf], keep: Keep<'_>, root: Option<&Path>) -> Result<()> {
    let place = |file: &PathBuf| path::name(root.unwrap_or(Path::new("/")), file);
    let inside = |path: &PathBuf| keep.dirs.iter().any(|dir| path.starts_with(dir));
    for path in files.iter().map(place).filter(inside) {
        if !durable::exists(&path)? || path.symlink_metadata().at("cannot look at", &path)?.is_dir() {
            continue;
        }
        return Err(Error::new(
            Code::PackageFailed,
            format!(
                "cannot purge {}: {}, in the agent's data directory, belongs to the package and would be deleted",
                package.name,
                path.display()
            ),
        )
        .advise("move that file, or remove the package by hand"));
    }
    Ok(())
}

/// The maintainer scripts of a dpkg package that could delete what is to be kept.
fn dangerous_scripts(package: &Package, keep: Keep<'_>, root: Option<&Path>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for script in ["prerm", "postrm"] {
        let path = below(root, DPKG_DATABASE).join(format!("info/{}.{script}", package.name));
        if let Some(text) = durable::read_limited(&path, READ_LIMIT)?
            && endangers(&String::from_utf8_lossy(&text), keep, root)
        {
            found.push(path);
        }
    }
    Ok(found)
}

/// The flags that leave out the scriptlets of an rpm package that could delete what is to be kept.
fn dangerous_sections(package: &Package, keep: Keep<'_>, root: Option<&Path>) -> Result<Vec<&'static str>> {
    let text = start(&rpm(root)?.args(["-q", "--scripts", &package.name]))?.stdout_text();
    let flags = [("preuninstall", "--nopreun"), ("postuninstall", "--nopostun")];
    Ok(flags
        .into_iter()
        .filter(|(section, _)| endangers(&rpm_section(&text, section), keep, root))
        .map(|(_, flag)| flag)
        .collect())
}

/// One scriptlet in the output of `rpm -q --scripts`, each headed by "postuninstall scriptlet (using /bin/sh):".
fn rpm_section(text: &str, section: &str) -> String {
    let is_head = |line: &&str| line.contains(" scriptlet (") || line.contains(" program:");
    let mut lines = text.lines().skip_while(|line| !(is_head(line) && line.starts_with(section)));
    let head = lines.next().unwrap_or_default();
    std::iter::once(head).chain(lines.take_while(|line| !is_head(line))).collect::<Vec<_>>().join("\n")
}

/// True when a script removes something that may be ours: it names a kept path beside a removal, or removes what it
/// names by a variable. A script left out needlessly costs a daemon-reload, a wrong one the agent's identity.
fn endangers(script: &str, keep: Keep<'_>, root: Option<&Path>) -> bool {
    let removes = |line: &str| {
        let mut words = line.split(|c: char| c.is_whitespace() || ";&|(){}`'\"".contains(c));
        words.any(|word| matches!(word, "rm" | "/bin/rm" | "/usr/bin/rm" | "unlink" | "-delete" | "shred" | "rmdir"))
    };
    let kept: Vec<String> = keep
        .files
        .iter()
        .chain(keep.dirs)
        .map(|path| match root.and_then(|root| path.strip_prefix(root).ok()) {
            Some(rest) => format!("/{}", rest.display()),
            None => path.display().to_string(),
        })
        .collect();
    let lines = || script.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let names_kept = |line: &str| kept.iter().any(|path| line.contains(path.as_str()));
    let wide = |line: &str| line.contains('$') || line.contains("/teleport") || line.contains("/var/lib");
    lines().any(|line| removes(line) && (names_kept(line) || wide(line))) || {
        // The path in one line, its removal in another.
        lines().any(names_kept) && lines().any(removes)
    }
}

fn dpkg(root: Option<&Path>) -> Command {
    let command = Command::new("dpkg").env("DEBIAN_FRONTEND", "noninteractive").timeout(PURGE_TIMEOUT);
    match root {
        None => command,
        Some(root) => {
            let mut flag = std::ffi::OsString::from("--root=");
            flag.push(root);
            // Its log would otherwise be this host's.
            let mut log = std::ffi::OsString::from("--log=");
            log.push(below(Some(root), "/var/log/dpkg.log"));
            // It would follow an absolute link to this host's own.
            let mut database = std::ffi::OsString::from("--admindir=");
            database.push(below(Some(root), DPKG_DATABASE));
            command.arg(flag).arg(database).arg(log)
        }
    }
}

fn rpm(root: Option<&Path>) -> Result<Command> {
    let command = Command::new("rpm").timeout(PURGE_TIMEOUT);
    let command = match root {
        None => command,
        Some(root) => command.arg("--root").arg(root),
    };
    // The image's distribution can keep it elsewhere than this host's.
    Ok(match rpm_database(root)? {
        Some(database) if root.is_some() => command.args(["--dbpath", &database]),
        _ => command,
    })
}

/// Where rpm has its database, if there is one. This host's rpm is asked itself: on a Debian it is root's home.
///
/// Errors: it cannot be asked, or the directory not be read: no package would be found.
fn rpm_database(root: Option<&Path>) -> Result<Option<String>> {
    let candidates = match root {
        Some(_) => RPM_DATABASES.map(str::to_owned).to_vec(),
        None if !is_installed("rpm") => return Ok(None),
        None => match start(&Command::new("rpm").args(["--eval", "%{_dbpath}"]))? {
            answer if answer.success() => vec![answer.stdout_text().trim().to_owned()],
            _ => return Ok(None),
        },
    };
    for database in candidates.into_iter().filter(|database| database.starts_with('/')) {
        if !durable::entries(&below(root, &database))?.is_empty() {
            return Ok(Some(database));
        }
    }
    Ok(None)
}

fn below(root: Option<&Path>, inside: impl AsRef<Path>) -> PathBuf {
    let inside = inside.as_ref();
    match root {
        None => inside.to_owned(),
        Some(root) => path::followed(root, inside),
    }
}

fn start(command: &Command) -> Result<Output> {
    command.run().map_err(|error| Error { code: Code::PackageFailed, ..error })
}

/// Runs dpkg, again and again while another package manager holds its lock.
fn run_dpkg(command: &Command, waiting: &mut Waiting<'_>) -> Result<Output> {
    loop {
        let output = start(command)?;
        let text = output.stderr_text();
        let locked = is_lock_message(&text);
        if output.success() || !locked || !waiting.goes_on(text.lines().next().unwrap_or_default()) {
            return judged(output, locked);
        }
    }
}

/// Runs rpm once nobody else is at work.
fn run_rpm(command: &Command, root: Option<&Path>, waiting: &mut Waiting<'_>) -> Result<Output> {
    if let Some(database) = rpm_database(root)? {
        waiting.for_rpm(root, &database)?;
    }
    let output = start(command)?;
    let locked = is_lock_message(&output.stderr_text());
    judged(output, locked)
}

fn judged(output: Output, locked: bool) -> Result<Output> {
    if output.success() {
        return Ok(output);
    }
    let text = output.stderr_text();
    // A Debian's rpm has a word to say before the error.
    let preface = text.lines().position(|line| line.starts_with("error:")).unwrap_or_default();
    let words: Vec<&str> = text.lines().skip(preface).map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    let error = Error::new(Code::PackageFailed, format!("`{}` failed: {}", output.line, words.join(" ")));
    Err(match locked {
        true => error.advise(busy::TRY_AGAIN),
        false if text.contains(SEALED) => error.advise(
            "remove it in this system's own way (`rpm-ostree uninstall`, `transactional-update pkg remove`), then run the command again",
        ),
        false => error.advise("fix this with the package manager, then run the command again"),
    })
}

/// What a package manager says of a database that nobody has locked but that nobody can write (EROFS).
const SEALED: &str = "Read-only file system";

fn is_lock_message(text: &str) -> bool {
    // dpkg ("dpkg frontend lock was locked by another process", "status database area is locked"), rpm.
    ["locked by another process", "database area is locked", "can't create transaction lock"]
        .iter()
        .any(|words| text.contains(words))
        && !text.contains(SEALED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Wait<'static> = Wait { longest: Duration::ZERO, tell: &|_| {} };

    fn keep_of<'a>(files: &'a [PathBuf], dirs: &'a [PathBuf]) -> Keep<'a> {
        Keep { files, dirs, copies: Path::new("/nowhere"), link_dir: Path::new("/nowhere") }
    }

    #[test]
    fn every_state_of_a_dpkg_package_is_told() {
        let state = |line: &str| parse_dpkg(line).map(|package| (package.state, package.held));
        assert_eq!(state("teleport\t1.2.3\tinstall\tinstalled"), Some((State::Installed, false)));
        assert_eq!(state("teleport\t1.2.3\thold\tinstalled"), Some((State::Installed, true)));
        assert_eq!(state("teleport\t1.2.3\tdeinstall\tconfig-files"), Some((State::ConfigFiles, false)));
        assert_eq!(state("teleport\t1.2.3\tinstall\thalf-installed"), Some((State::Broken, false)));
        assert_eq!(state("teleport\t\tunknown\tnot-installed"), None);
    }

    #[test]
    fn an_rpm_answer_is_read_and_the_not_installed_ones_are_skipped() {
        let package = parse_rpm("teleport-ent\t15.1.0-1").unwrap();
        assert_eq!((package.name.as_str(), package.version.as_str()), ("teleport-ent", "15.1.0-1"));
        assert_eq!(parse_rpm("package teleport is not installed"), None);
    }

    #[test]
    fn a_script_that_could_delete_what_is_kept_is_recognised() {
        let (files, dirs) = (vec![PathBuf::from("/etc/teleport.yaml")], vec![PathBuf::from("/srv/tp")]);
        let keep = keep_of(&files, &dirs);
        for bad in [
            "rm -rf /srv/tp",
            "[ purge ] && rm -f /etc/teleport.yaml",
            "D=/srv/tp\nrm -r \"$D\"",
            "D=/srv\nrm -r $D/tp",
            "rm -rf /var/lib/teleport",
            "find /srv/tp -type f -delete",
        ] {
            assert!(endangers(bad, keep, None), "{bad}");
        }
        for good in ["systemctl daemon-reload", "# rm -rf /srv/tp", "rm -f /run/x.pid", "chown root /srv/tp", ""] {
            assert!(!endangers(good, keep, None), "{good}");
        }
        let root = Path::new("/image");
        let inside = [PathBuf::from("/image/srv/tp")];
        assert!(endangers("rm -rf /srv/tp", keep_of(&[], &inside), Some(root)));
    }

    #[test]
    fn one_scriptlet_of_an_rpm_package_is_cut_out() {
        let text = "preuninstall scriptlet (using /bin/sh):\nsystemctl stop x\n\
                    postuninstall scriptlet (using /bin/sh):\nrm -rf /var/lib/teleport\n\
                    posttrans scriptlet (using /bin/sh):\ntrue\n";
        assert!(!rpm_section(text, "preuninstall").contains("rm"));
        assert!(rpm_section(text, "postuninstall").contains("rm -rf"));
        assert!(!rpm_section(text, "postuninstall").contains("true"));
        assert_eq!(rpm_section("", "postuninstall"), "");
    }

    /// An image with toy packages, made by the host's own dpkg.
    struct Image {
        dir: tempfile::TempDir,
    }

    impl Image {
        /// `None` without root or dpkg.
        fn new() -> Option<Self> {
            if !super::super::machine::is_root() || !is_installed("dpkg-deb") {
                return None;
            }
            let image = Self { dir: tempfile::tempdir().unwrap() };
            for dir in ["info", "updates"] {
                durable::create_dir_all(&image.path("/var/lib/dpkg").join(dir)).unwrap();
            }
            for file in ["status", "available"] {
                durable::write(&image.path("/var/lib/dpkg").join(file), b"", 0o644).unwrap();
            }
            durable::create_dir_all(&image.path("/var/log")).unwrap();
            durable::create_dir_all(&image.path("/var/lib/teleport")).unwrap();
            durable::write(&image.path("/var/lib/teleport/host_uuid"), b"u", 0o600).unwrap();
            Some(image)
        }

        fn root(&self) -> PathBuf {
            self.dir.path().join("root")
        }

        fn path(&self, inside: &str) -> PathBuf {
            below(Some(&self.root()), inside)
        }

        fn install(&self, name: &str, control: &str, files: &[(&str, &str)]) {
            let tree = self.dir.path().join(name);
            let head = format!(
                "Package: {name}\nVersion: 1.2.3\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n{control}"
            );
            for (path, text) in files.iter().chain(&[("DEBIAN/control", head.as_str())]) {
                let path = tree.join(path);
                durable::create_dir_all(path.parent().unwrap()).unwrap();
                let mode = if path.ends_with("DEBIAN/postrm") { 0o755 } else { 0o644 };
                durable::write(&path, text.as_bytes(), mode).unwrap();
            }
            let deb = self.dir.path().join(format!("{name}.deb"));
            Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(&tree).arg(&deb).run().unwrap();
            dpkg(Some(&self.root())).arg("-i").arg(&deb).run().unwrap().or_fail(Code::Io).unwrap();
        }

        fn purge(&self) -> Result<()> {
            let files = [self.path("/etc/teleport.yaml")];
            let dirs = [self.path("/var/lib/teleport")];
            let copies = self.dir.path().join("copies");
            let keep = Keep { files: &files, dirs: &dirs, copies: &copies, link_dir: &self.path("/usr/local/bin") };
            let found = installed(Some(&self.root()))?;
            purge(&found[0], keep, Some(&self.root()), AT_ONCE)?;
            assert!(!copies.exists());
            Ok(())
        }
    }

    const AGENT: [(&str, &str); 4] = [
        ("etc/teleport.yaml", "packaged\n"),
        ("usr/local/bin/teleport", "x"),
        ("DEBIAN/conffiles", "/etc/teleport.yaml\n"),
        ("DEBIAN/postrm", "#!/bin/sh\nrm -rf /var/lib/teleport\n"),
    ];

    #[test]
    fn a_purge_leaves_the_configuration_and_the_data_byte_for_byte() {
        let Some(image) = Image::new() else { return };
        image.install("teleport", "", &AGENT);
        let config = image.path("/etc/teleport.yaml");
        durable::write(&config, b"mine\n", 0o640).unwrap();
        durable::chown(&config, 7, 8).unwrap();
        let found = installed(Some(&image.root())).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].state, found[0].held, found[0].version.as_str()), (State::Installed, false, "1.2.3"));

        image.purge().unwrap();
        assert_eq!(installed(Some(&image.root())).unwrap(), []);
        assert_eq!(std::fs::read(&config).unwrap(), b"mine\n");
        let kept = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&config).unwrap());
        assert_eq!(kept & 0o7777, 0o640);
        assert_eq!(std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(&config).unwrap()), 8);
        assert!(image.path("/var/lib/teleport/host_uuid").exists());
        assert!(!image.path("/usr/local/bin/teleport").exists());
    }

    #[test]
    fn a_package_that_another_one_needs_is_not_touched() {
        let Some(image) = Image::new() else { return };
        image.install("teleport", "", &AGENT);
        image.install("needs-it", "Depends: teleport\n", &[]);
        let error = image.purge().unwrap_err();
        assert_eq!(error.code, Code::PackageFailed);
        assert!(error.what.contains("needs-it depends on teleport"), "{error}");
        assert!(image.path("/usr/local/bin/teleport").exists());
        assert!(image.path("/var/lib/dpkg/info/teleport.postrm").exists());
    }

    #[test]
    fn a_package_with_files_in_the_data_directory_is_refused() {
        let Some(image) = Image::new() else { return };
        image.install("teleport", "", &[("var/lib/teleport/licence.pem", "x")]);
        let error = image.purge().unwrap_err();
        assert!(error.what.contains("licence.pem"), "{error}");
        assert!(image.path("/var/lib/teleport/licence.pem").exists());
    }

    #[test]
    fn a_packages_file_that_cannot_be_looked_at_is_not_taken_for_gone() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = vec![dir.path().to_owned()];
        let package = parse_rpm("teleport\t15.1.0-1").unwrap();
        let refused = |name: &str| refuse_shared_data(&package, &[dir.path().join(name)], keep_of(&[], &dirs), None);
        refused("gone").unwrap();
        assert_eq!(refused(&"x".repeat(300)).unwrap_err().code, Code::Io);
        // And a package manager's own directory is not empty because it could not be read.
        let image = dir.path().join("x".repeat(300));
        assert!(installed_rpm(Some(&image)).is_err() && installed_dpkg(Some(&image)).is_err());
    }

    #[test]
    fn a_held_package_is_purged_and_only_configuration_files_are_too() {
        let Some(image) = Image::new() else { return };
        image.install("teleport", "", &AGENT[..3]);
        // What `apt-mark hold` writes.
        let status = image.path("/var/lib/dpkg/status");
        let text = std::fs::read_to_string(&status).unwrap().replace("install ok installed", "hold ok installed");
        durable::write(&status, text.as_bytes(), 0o644).unwrap();
        assert!(installed(Some(&image.root())).unwrap()[0].held);
        image.purge().unwrap();

        image.install("teleport", "", &AGENT[..3]);
        dpkg(Some(&image.root())).args(["--remove", "teleport"]).run().unwrap().or_fail(Code::Io).unwrap();
        assert_eq!(installed(Some(&image.root())).unwrap()[0].state, State::ConfigFiles);
        image.purge().unwrap();
        assert!(image.path("/etc/teleport.yaml").exists());
        assert_eq!(installed(Some(&image.root())).unwrap(), []);
    }

    #[test]
    fn a_database_on_a_read_only_file_system_is_not_taken_for_a_locked_one() {
        for words in [
            "error: can't create transaction lock on /usr/lib/sysimage/rpm/.rpm.lock (Read-only file system)",
            "dpkg: error: unable to lock the dpkg frontend: locked by another process? Read-only file system",
        ] {
            assert!(!is_lock_message(words), "{words}");
            let status = std::os::unix::process::ExitStatusExt::from_raw(1 << 8);
            let output = Output { status, stdout: Vec::new(), stderr: words.into(), line: "rpm -e teleport".into() };
            let error = judged(output, is_lock_message(words)).unwrap_err().to_string();
            assert!(error.contains("transactional-update pkg remove") && !error.contains(busy::TRY_AGAIN), "{error}");
        }
        assert!(is_lock_message("error: can't create transaction lock on /x (Resource temporarily unavailable)"));
    }

    #[test]
    fn a_locked_database_is_waited_for_and_told() {
        let Some(image) = Image::new() else { return };
        image.install("teleport", "", &AGENT[..3]);
        let lock = std::fs::OpenOptions::new().write(true).open(image.path("/var/lib/dpkg/lock-frontend")).unwrap();
        // dpkg's lock is fcntl's, which only another process is stopped by: dpkg is one.
        rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = image.purge().unwrap_err();
        assert!(error.to_string().contains("another package manager is at work"), "{error}");
        drop(lock);
        image.purge().unwrap();
    }

    #[test]
    fn an_rpm_package_is_purged_without_its_dangerous_scriptlet_and_leaves_the_configuration() {
        if !super::super::machine::is_root() || !is_installed("rpmbuild") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let spec = dir.path().join("teleport.spec");
        let text = "Name: teleport\nVersion: 1.2.3\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n\
                    %description\nx\n%install\nmkdir -p %{buildroot}/etc\necho packaged >%{buildroot}/etc/teleport.yaml\n\
                    %files\n%config(noreplace) /etc/teleport.yaml\n%postun\nrm -rf /var/lib/teleport\n";
        durable::write(&spec, text.as_bytes(), 0o644).unwrap();
        let top = format!("_topdir {}", dir.path().join("build").display());
        let build = Command::new("rpmbuild").args(["-bb", "--define", &top]).arg(&spec);
        build.run().unwrap().or_fail(Code::Io).unwrap();
        let rpm_file = dir.path().join("build/RPMS/noarch/teleport-1.2.3-1.noarch.rpm");
        let root = dir.path().join("root");
        durable::create_dir_all(&root.join("var/lib/rpm")).unwrap();
        assert_eq!(installed(Some(&root)).unwrap(), []);
        let install = Command::new("rpm").arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--nodeps", "-i"]);
        install.arg(&rpm_file).run().unwrap().or_fail(Code::Io).unwrap();
        let config = root.join("etc/teleport.yaml");
        durable::write(&config, b"mine\n", 0o640).unwrap();

        let found = installed(Some(&root)).unwrap();
        assert_eq!((found.len(), found[0].version.as_str(), found[0].tool), (1, "1.2.3-1", PackageTool::Rpm));
        let (files, dirs) = (vec![config.clone()], vec![root.join("var/lib/teleport")]);
        let copies = dir.path().join("copies");
        let keep = Keep { files: &files, dirs: &dirs, copies: &copies, link_dir: &root.join("usr/local/bin") };
        assert_eq!(dangerous_sections(&found[0], keep, Some(&root)).unwrap(), ["--nopostun"]);
        purge(&found[0], keep, Some(&root), AT_ONCE).unwrap();
        assert_eq!(installed(Some(&root)).unwrap(), []);
        assert_eq!(std::fs::read(&config).unwrap(), b"mine\n");
        assert!(!root.join("etc/teleport.yaml.rpmsave").exists());
    }
}
