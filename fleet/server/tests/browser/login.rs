//! Login by a provider on another site, in a browser.

use tempfile::TempDir;

use crate::driver::{Browser, DESK, Look, PHONE, axe};
use crate::pages::{ENTER, LOOKS, TAB, check};
use crate::support::issuer::{CLIENT, DISCOVERY, How, Issuer, Key};
use crate::support::{Server, dir, write_secret};

/// A provider that browsers reach by another name than the server, so that they take it for another site.
fn started() -> (TempDir, Server, Issuer) {
    let (dir, issuer) = (dir(), Issuer::with(Key::es256(), "localhost", None));
    let secret = write_secret(dir.path(), CLIENT.1);
    let server = Server::with(
        dir.path(),
        &[
            "--plain",
            "--public-addr",
            "localhost:1",
            "--oidc-issuer",
            &issuer.url,
            "--oidc-client-id",
            CLIENT.0,
            "--oidc-client-secret-file",
            &secret,
            "--oidc-roles",
            "sre=operator",
        ],
    );
    issuer.leads_home(server.addr);
    (dir, server, issuer)
}

#[test]
fn somebody_logs_in_at_the_provider_and_sees_the_page_that_was_asked_for() {
    let (_dir, server, _issuer) = started();
    for look in [DESK, Look { has_scripts: false, ..PHONE }] {
        let Some(browser) = Browser::start(look) else { return };
        browser.open(&format!("http://{}/audit", server.addr));
        assert_eq!(browser.path(), "/login?next=%2Faudit");
        browser.click("main a.button", "It is me");
        browser.click("button", "<h1>Audit log</h1>");
        assert_eq!(browser.path(), "/audit");
        assert!(browser.source().contains("oidc 1 (joe@example.com), operator"), "{}", browser.source());
        assert_eq!(browser.complaints(), [""; 0], "{look:?}");
        browser.click("form[action='/logout'] button", "<h1>Log in</h1>");
    }
}

#[test]
fn the_login_is_done_by_the_keyboard_alone() {
    let (_dir, server, _issuer) = started();
    let Some(browser) = Browser::start(DESK) else { return };
    browser.open(&format!("http://{}/login", server.addr));
    for _ in 0..2 {
        browser.press(TAB);
    }
    let at = browser.run("const at = document.activeElement; return [at.innerText, getComputedStyle(at).outlineStyle]");
    assert!(at[0].as_str().unwrap().starts_with("Log in with localhost:") && at[1] != "none", "{at}");
    browser.press(ENTER);
    browser.until("It is me");
    browser.press(TAB);
    browser.press(ENTER);
    browser.until("<h1>No rollout</h1>");
}

#[test]
fn the_login_page_with_a_provider_and_its_refusals_fit_and_shut_nobody_out() {
    let (_dir, server, issuer) = started();
    let axe = axe();
    for look in LOOKS {
        let Some(browser) = Browser::start(look) else { return };
        issuer.answers(DISCOVERY, How::Well);
        let open = |page: &str| browser.open(&format!("http://{}{page}", server.addr));
        let check = |page: &str| check(&browser, axe.as_deref(), look, page);
        open("/login");
        assert!(browser.source().contains("Log in with localhost:"));
        check("/login");
        open("/login/oidc/callback?state=x&code=y");
        assert!(browser.source().contains("was not begun in this browser"));
        check("/login/oidc/callback");
    }
    let (_dir, server, issuer) = started();
    issuer.answers(DISCOVERY, How::Status(500));
    let Some(browser) = Browser::start(PHONE) else { return };
    browser.open(&format!("http://{}/login/oidc", server.addr));
    assert!(browser.source().contains("does not answer as it should"), "{}", browser.source());
    check(&browser, axe.as_deref(), PHONE, "/login/oidc");
}
