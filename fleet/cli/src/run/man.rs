//! The manual page, from the command line's own definition.

use std::io::{self, Write};

use clap::Command;

/// Writes the page to `out`: section 8 (what operators of the server run), a section for each verb, with its path.
///
/// # Errors
/// `out` cannot be written.
pub(super) fn render(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.clone()).section("8").manual("System Administration");
    // Into memory: what reads a page may go before its end, which the caller's `flush` tells.
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.write_all(SYNOPSIS.as_bytes())?;
    man.render_options_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for verb in command.get_subcommands() {
        render_verb("", verb, &mut page)?;
    }
    page.write_all(TAIL.as_bytes())?;
    out.write_all(&page)
}

/// A verb below `path` (empty, or with a blank at its end), or the verbs that it holds.
fn render_verb(path: &str, verb: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    if verb.is_hide_set() {
        return Ok(());
    }
    let name = format!("{path}{}", verb.get_name());
    let mut rest = verb.get_subcommands().peekable();
    let holds_verbs = rest.peek().is_some();
    if !holds_verbs || verb.get_arguments().next().is_some() {
        writeln!(page, ".SS \"{}\"", name.replace('-', "\\-"))?;
        // The sections' own titles are for a page each.
        let mut body = Vec::new();
        let man = clap_mangen::Man::new(verb.clone().disable_help_flag(true));
        man.render_description_section(&mut body)?;
        man.render_options_section(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        for line in body.lines().filter(|line| !line.starts_with(".SH")) {
            writeln!(page, "{line}")?;
        }
    }
    for verb in rest {
        render_verb(&format!("{name} "), verb, page)?;
    }
    Ok(())
}

/// One line in place of every global flag.
const SYNOPSIS: &str = r#".SH SYNOPSIS
\fBteleport\-fleet\fR [\fIGLOBAL OPTIONS\fR] \fICOMMAND\fR [\fIOPTIONS\fR]
"#;

/// What the page has behind the verbs.
const TAIL: &str = r#".SH EXAMPLES
.TP
.B teleport\-fleet autoupdate agents status
How far each group is, and why it waits.
.TP
.B teleport\-fleet autoupdate agents halt \-\-all
Stop: nobody is allowed to update until \fBrun\fR.
.TP
.B teleport\-fleet explain \-\-host \fIUUID\fR
What this host is answered now, and why.
.SH "EXIT STATUS"
.TP
0
Done.
.TP
1
Failed or refused.
.TP
2
Usage.
.TP
3
\fBwait\fR: something else came first, such as a halt.
.TP
4
\fBwait\fR: the time was over.
.TP
5
\fBapply \-\-dry\-run\fR: something would change.
.SH FILES
.TP
/etc/teleport\-fleet.yaml
Configuration of the server; rollout policy is not in it but in resources.
.TP
/var/lib/teleport\-fleet/fleet.db
The data: resources, rollouts, hosts, audit log.
.TP
/run/teleport\-fleet/admin.sock
For commands on this host: root and members of the group \fBteleport\-fleet\fR.
.TP
/usr/share/doc/teleport\-fleet/examples
A policy with canaries, limits and bounds, to begin with.
.SH "SEE ALSO"
.BR teleport\-update (8),
.BR systemctl (1),
.BR journalctl (1)
"#;
