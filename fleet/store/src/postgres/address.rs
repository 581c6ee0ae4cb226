//! Where a PostgreSQL server is, as libpq's addresses say it: `postgres://user@host:5432/database?sslmode=verify-full`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::PostgresTls;
use crate::error::{Error, Result};

/// Until a server that does not answer a connection is given up: an operator's stop waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Until one that does not acknowledge what was sent is given up.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// What the server calls our connections.
const APPLICATION: &str = "teleport-fleet";

/// How to connect, and what to call it without the password.
pub(super) fn parse(url: &str) -> Result<(Config, PostgresTls, String)> {
    let wrong = |error: &str| {
        Error::Refused(format!(
            "the address of the store cannot be read: {error}: write it as postgres://USER@HOST/DATABASE"
        ))
    };
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut ours, mut roots, mut has_mode) = (Vec::new(), variable("PGSSLROOTCERT"), false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslrootcert", path)) => roots = Some(path.to_owned()),
            // Where there is TLS, the certificate is verified for the name, whatever the word.
            Some(("sslmode", "verify-ca" | "verify-full" | "require")) => {
                has_mode = true;
                ours.push("sslmode=require");
            }
            Some(("sslmode", "allow")) => {
                return Err(wrong("sslmode=allow is TLS or none, as somebody in between likes"));
            }
            Some((key, _)) => {
                has_mode |= key == "sslmode";
                ours.push(pair);
            }
            None => return Err(wrong(&format!("{pair} is no KEY=VALUE"))),
        }
    }
    let mut config = Config::from_str(&format!("{base}?{}", ours.join("&"))).map_err(|error| wrong(&causes(&error)))?;
    if config.get_hosts().is_empty() {
        return Err(wrong("it names no host"));
    }
    if !has_mode && !config.get_hosts().iter().all(is_near) {
        // Its default is that somebody in between may take TLS away.
        config.ssl_mode(SslMode::Require);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    config.tcp_user_timeout(SEND_TIMEOUT);
    if config.get_application_name().is_none() {
        config.application_name(APPLICATION);
    }
    if config.get_user().is_none() {
        return Err(wrong("it names no user"));
    }
    if config.get_password().is_none()
        && let Some(password) = password(&config)?
    {
        config.password(password);
    }
    let name = name(&config);
    Ok((config, PostgresTls::new(roots.as_deref())?, name))
}

/// What libpq reads as well.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

/// An error with what caused it, in one line.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}

/// On this host.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        Host::Unix(_) => true,
    }
}

fn shown(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn name(config: &Config) -> String {
    let hosts: Vec<String> = config.get_hosts().iter().map(shown).collect();
    format!("the store at PostgreSQL {}, database {}", hosts.join(", "), database(config))
}

fn database(config: &Config) -> &str {
    config.get_dbname().or(config.get_user()).unwrap_or_default()
}

/// The password that libpq would take: of `PGPASSWORD`, or of the file of `PGPASSFILE` or `~/.pgpass`.
fn password(config: &Config) -> Result<Option<String>> {
    if let Some(password) = variable("PGPASSWORD") {
        return Ok(Some(password));
    }
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let is_named = named.is_some();
    let home = || std::env::home_dir().map(|home| home.join(".pgpass"));
    let Some(path) = named.or_else(home) else { return Ok(None) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(_) if !is_named => return Ok(None),
        Err(error) => return Err(Error::io("cannot read", &path, &error)),
    };
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = path.metadata().map_or(0, |found| found.permissions().mode());
        // As libpq, which does not read such a file.
        if mode & 0o077 != 0 {
            let shown = path.display();
            return Err(Error::Refused(format!("others may read {shown}, which has passwords: chmod 600 {shown}")));
        }
    }
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let host = config.get_hosts().first().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(_) => "localhost".to_owned(),
    });
    let host = host.unwrap_or_default();
    let asked = [host.as_str(), &port, database(config), config.get_user().unwrap_or_default()];
    Ok(text.lines().filter(|line| !line.starts_with('#')).find_map(|line| matched(line, asked)))
}

/// The password of a line of `.pgpass` (`host:port:database:user:password`, where `*` is any, and `\` stands before `:` and `\`), if
/// that is what is `asked`.
fn matched(line: &str, asked: [&str; 4]) -> Option<String> {
    let (mut fields, mut field, mut is_escaped) = (Vec::new(), String::new(), false);
    for char in line.chars() {
        match char {
            _ if is_escaped => {
                field.push(char);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            // A password may have more of them.
            ':' if fields.len() < asked.len() => fields.push(std::mem::take(&mut field)),
            char => field.push(char),
        }
    }
    let is_asked =
        fields.len() == asked.len() && fields.iter().zip(asked).all(|(has, asked)| has == "*" || has == asked);
    is_asked.then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_pgpass_is_read_as_libpq_reads_it() {
        let asked = ["db.example.com", "5432", "fleet", "me"];
        for (line, password) in [
            ("db.example.com:5432:fleet:me:secret", Some("secret")),
            ("*:*:*:me:se:cret", Some("se:cret")),
            (r"*:*:fleet:me:a\:b\\c", Some(r"a:b\c")),
            ("*:5433:*:me:secret", None),
            ("*:*:*:you:secret", None),
            ("*:*:me:secret", None),
            ("", None),
        ] {
            assert_eq!(matched(line, asked).as_deref(), password, "{line}");
        }
    }

    #[test]
    fn far_servers_are_asked_by_tls_alone_and_nothing_is_said_of_a_password() {
        let mode = |url: &str| parse(url).map(|(config, _, name)| (config.get_ssl_mode(), name));
        assert_eq!(mode("postgres://me:word@db.example.com/fleet").unwrap().0, SslMode::Require);
        assert_eq!(mode("postgres://me@127.0.0.1/fleet").unwrap().0, SslMode::Prefer);
        assert_eq!(mode("postgres://me@/fleet?host=/run/postgresql").unwrap().0, SslMode::Prefer);
        assert_eq!(mode("postgres://me@db.example.com/fleet?sslmode=disable").unwrap().0, SslMode::Disable);
        let (_, name) = mode("postgres://me:word@a.example.com,b.example.com/fleet?sslmode=verify-full").unwrap();
        assert_eq!(name, "the store at PostgreSQL a.example.com, b.example.com, database fleet");
        for wrong in [
            "postgres://",
            "postgres://me@h/fleet?sslmode=allow",
            "postgres://me@h/d?sslrootcert=/nowhere",
            "postgres://h/d?wat=1",
        ] {
            assert!(matches!(parse(wrong), Err(Error::Refused(_))), "{wrong}");
        }
    }
}
