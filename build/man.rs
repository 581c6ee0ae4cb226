//! The manual page.

use std::io::{Result, Write};

use clap::Command;

/// Renders `command`: section 8 (what root runs), one page, a section a command.
pub(crate) fn render(command: &Command, page: &mut Vec<u8>) -> Result<()> {
    let man = clap_mangen::Man::new(command.clone()).section("8").manual("System Administration");
    man.render_title(page)?;
    man.render_name_section(page)?;
    page.write_all(SYNOPSIS.as_bytes())?;
    man.render_options_section(page)?;
    writeln!(page, ".SH COMMANDS")?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        writeln!(page, ".SS {}", sub.get_name())?;
        // The sections' own titles are for a page each.
        let mut body = Vec::new();
        let man = clap_mangen::Man::new(sub.clone().disable_help_flag(true));
        man.render_description_section(&mut body)?;
        man.render_options_section(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        for line in body.lines().filter(|line| !line.starts_with(".SH")) {
            writeln!(page, "{line}")?;
        }
    }
    writeln!(page, ".SH ENVIRONMENT\nInstead of the flags of \\fBenable\\fR and \\fBpin\\fR:")?;
    for argument in command.find_subcommand("enable").into_iter().flat_map(Command::get_arguments) {
        if let (Some(name), Some(flag)) = (argument.get_env(), argument.get_long()) {
            writeln!(page, ".TP\n.B {}\n\\-\\-{}", name.to_string_lossy(), flag.replace('-', "\\-"))?;
        }
    }
    page.write_all(TAIL.as_bytes())
}

/// One line in place of every global flag.
const SYNOPSIS: &str = r#".SH SYNOPSIS
\fBteleport\-update\fR [\fIGLOBAL OPTIONS\fR] \fICOMMAND\fR [\fIOPTIONS\fR]
"#;

/// What the manual page has behind the commands.
const TAIL: &str = r#".SH "EXIT STATUS"
.TP
0
Done, or nothing to do (also if a version that failed before is not tried again yet).
.TP
1
Failed, refused or rolled back.
.TP
2
Usage.
.TP
3
An update is due (\fBstatus \-\-err\-if\-should\-update\-now\fR only).
.TP
70, or a signal
Internal error of the updater; the package's own updater runs the command instead.
.TP
75
Another run holds the lock.
.SH FILES
.TP
/var/lib/teleport/versions/updates.yaml
Settings, and the results of earlier runs.
.TP
/var/lib/teleport/versions/\fIVERSION\fR
One installed version: bin, etc/systemd, share, backup, manifest.json, sha256.
.TP
/etc/teleport.yaml
The agent's configuration (read only, never changed).
.TP
/usr/lib/teleport\-update/teleport\-update
The package's own copy of this program, which the units run.
.SH "SEE ALSO"
.BR systemctl (1),
.BR journalctl (1)
"#;
