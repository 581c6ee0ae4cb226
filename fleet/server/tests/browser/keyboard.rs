//! Everything on a page is reached by the keyboard, and it is seen where it is.

use crate::driver::{Browser, DESK, PHONE};
use crate::pages::{ENTER, HOST, TAB, logged_in, started, started_by};
use crate::support::{PAGES, groups};

/// More is on no page.
const MOST: usize = 100;

/// What can be used, in the order of the page.
const USABLE: &str = "const usable = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, \
                      summary, [tabindex=\"0\"]')].filter(part => part.checkVisibility()); const at = document.activeElement; const box = at.getBoundingClientRect(); \
                      return [usable.length, usable.indexOf(at), getComputedStyle(at).outlineStyle, box.bottom > 0 && \
                      box.top < innerHeight, at.outerHTML.slice(0, 200)]";

/// From where the keyboard is to the end of the page.
pub(crate) fn walk(browser: &Browser, page: &str) {
    let now = browser.run(USABLE);
    let (count, at) = (now[0].as_u64().unwrap(), now[1].as_i64().unwrap());
    for index in u64::try_from(at + 1).unwrap()..count {
        browser.press(TAB);
        let at = browser.run(USABLE);
        assert_eq!(at[1].as_u64(), Some(index), "{page}: {at}");
        assert!(at[2] != "none" && at[3] == true, "{page}: it is not seen where the keyboard is: {at}");
    }
}

#[test]
fn every_link_field_and_button_of_every_page_is_reached_in_order_and_seen() {
    let (_dir, server, token) = started();
    for look in [DESK, PHONE] {
        let Some(browser) = logged_in(&server, &token, look) else { return };
        for page in PAGES {
            browser.open(&format!("http://{}{page}", server.addr));
            walk(&browser, page);
        }
    }
}

/// Tab, or back with Shift, until the keyboard is at what the selector finds.
pub(crate) fn reach(browser: &Browser, css: &str, step: impl Fn(&Browser)) {
    let is_there = format!("return document.activeElement.matches(\"{css}\")");
    for _ in 0..MOST {
        if browser.run(&is_there) == true {
            return;
        }
        step(browser);
    }
    panic!("the keyboard does not reach {css}: {}", browser.source());
}

#[test]
fn everything_that_changes_something_is_asked_done_and_left_by_the_keyboard_alone() {
    let policy = groups(&["dev", "prod"]).replace("name: prod,", "name: prod, approval: operator,");
    let (_dir, server, token) = started_by(&policy);
    let Some(browser) = logged_in(&server, &token, DESK) else { return };
    let (tab, back) = (|browser: &Browser| browser.press(TAB), Browser::press_back);
    let host = format!("/hosts/{HOST}");
    for (page, place, verb, choice, done) in [
        ("/groups/dev", "main", "halt", "", "Successfully halted agent groups: [dev]."),
        ("/groups/dev", "main", "run", "", "Successfully resumed agent groups: [dev]."),
        ("/groups/dev", "main", "mark_done", "", "Successfully marked agent groups as completed: [dev]."),
        ("/groups/prod", "main", "approve", "", "pproved"),
        ("/groups/prod", "main", "start", "", "Successfully started updating agents groups: [prod]."),
        ("/groups/prod", "main", "rollback", "", "Successfully rolled back the following agent groups: [prod]."),
        (&host, "main", "hold", "", "done."),
        (&host, "main", "release", "", "done."),
        (&host, "main", "assign", "prod", "done."),
        (&host, "main", "assign", "", "done."),
        ("/", "header", "halt", "", "Successfully halted all agent groups."),
        ("/", "main > .row", "run", "", "Successfully ended the hold of all agent groups."),
        ("/", "main > .row", "rollback", "", "Successfully rolled back"),
    ] {
        browser.open(&format!("http://{}{page}", server.addr));
        if !choice.is_empty() {
            reach(&browser, "#to", tab);
            browser.press(choice);
        }
        reach(&browser, &format!("{place} form:has(input[value='{verb}']) button"), tab);
        browser.press(ENTER);
        browser.until("Of the fleet");
        walk(&browser, &format!("the question of {verb}, {page}"));
        reach(&browser, "form[action='/act'] button", back);
        browser.press(ENTER);
        browser.until("<h1>Done</h1>");
        assert!(browser.source().contains(done), "{verb}: {}", browser.source());
        walk(&browser, &format!("what was done by {verb}, {page}"));
        reach(&browser, "main p a", back);
        browser.press(ENTER);
        browser.until("<h1>");
        server.until("the page before", || browser.path() == page);
        let is_assigned = browser.source().contains("<dt>Assigned to group</dt><dd>prod</dd>");
        assert_eq!(is_assigned, choice == "prod", "{verb}, {page}");
    }
}
