//! Maintainer scripts that could delete what is to be kept.

use std::path::Path;

use super::Keep;

/// True when a script removes something that may be ours: it names a kept path beside a removal, or removes what it
/// names by a variable. A script left out needlessly costs a daemon-reload, a wrong one the agent's identity.
pub(super) fn endangers(script: &str, keep: Keep<'_>, root: Option<&Path>) -> bool {
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn keep_of<'a>(files: &'a [PathBuf], dirs: &'a [PathBuf]) -> Keep<'a> {
        Keep { files, dirs, copies: Path::new("/nowhere"), link_dir: Path::new("/nowhere") }
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
}
